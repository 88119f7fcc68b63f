package layouts

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

func verdictViews(all []claims.Judged) (views []view.VerdictView) {
	class := map[string]string{claims.Holds: "holds", claims.HoldsIf: "if", claims.Fails: "fails", claims.Untested: "untested"}
	for _, j := range all {
		if j.Needs != nil {
			continue
		}
		views = append(views, view.VerdictView{Word: j.Word, Clause: j.Clause, Class: class[j.Word], Says: view.Upper(j.Says), By: j.By, Source: strings.TrimPrefix(j.Source, "https://"),
			Given: j.Given, Figures: j.Figures(), Where: strings.Join(j.Places, ", ")})
	}
	return views
}

// printClaims writes a claim in two paragraphs: what it says, what we found.
func printClaims(w io.Writer, all []claims.Judged) {
	const margin = "  "
	for _, j := range all {
		if j.Needs != nil {
			continue
		}
		fmt.Fprintln(w, view.Wrap(j.By+": "+j.Says, layoutsWidth, margin))
		fmt.Fprintln(w, margin+view.Wrap(view.Upper(j.Verdict())+". "+strings.TrimSuffix(j.Figures(), view.None), layoutsWidth-len(margin), margin))
	}
}

// layoutsWidth is the width of a terminal for a comparison of layouts.
const layoutsWidth = 100

// Text prints the answer, what a lookup costs, and what to think of the claims;
// then all figures.
func (in Input) Text(w io.Writer) error {
	l := in.Layouts
	out := bufio.NewWriter(w)
	judged := claims.Judge(l)
	for _, answer := range answers(l, judged) {
		fmt.Fprintln(out, view.Wrap(answer, layoutsWidth, "  "))
	}
	if t := costsTable(l); len(t.Rows) > 0 {
		fmt.Fprintf(out, "\n%s:\n", costsNote(l))
		view.PrintTable(out, t)
	}
	if len(judged) > 0 {
		fmt.Fprintln(out, "\nwhich claims to believe:")
		printClaims(out, judged)
		if note := claims.Elsewhere(judged); note != "" {
			fmt.Fprintln(out, view.Wrap(note, layoutsWidth, ""))
		}
	}
	fmt.Fprintln(out, "\nall sizes, caches warm, memory held:")
	for i, part := range []view.Table{lookupTable(l), deviceTable(l), costTable(l)} {
		if i > 0 { // the first has said what failed
			part.Rows = slices.DeleteFunc(part.Rows, func(r view.Row) bool { return r.Failed })
			fmt.Fprintln(out)
		}
		view.PrintTable(out, part)
	}
	if t := modelTable(l); len(t.Rows) > 0 {
		fmt.Fprintln(out, "\nwith this memory, by a model of the caches:")
		view.PrintTable(out, t)
	}
	if t := outlookTable(l); len(t.Rows) > 0 {
		fmt.Fprintln(out, "\nnot built, but predicted:")
		view.PrintTable(out, t)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the layouts: %w", err)
	}
	return nil
}

// answers are the sentences that the user came for.
func answers(l *result.Layouts, judged []claims.Judged) (answers []string) {
	largest := claims.Largest(l)
	var costs []string
	if held := readsRange(l, largest, result.HeldLookups); held != "" {
		budget := "memory not held"
		if l.Workload.MemoryBytes > 0 {
			budget = "memory held to " + view.ShortBytes(l.Workload.MemoryBytes)
		}
		costs = append(costs, budget+": "+held)
	}
	if first := readsRange(l, largest, result.FirstLookups); first != "" {
		costs = append(costs, "with nothing cached: "+first)
	}
	if len(costs) > 0 {
		answers = append(answers, fmt.Sprintf("A lookup of one of %s accounts costs, %s.", unit.ShortCount(float64(largest)), strings.Join(costs, "; ")))
	}
	if len(judged) > 0 {
		answers = append(answers, claims.Sentence(judged))
	}
	return append(answers, rootAnswers(l.Roots)...)
}

// rootAnswers tell where roots differ, and of the largest size where they agree.
func rootAnswers(roots []result.LayoutRoots) (answers []string) {
	agree := ""
	for _, v := range roots {
		switch v.Verdict {
		case result.Identical:
			agree = fmt.Sprintf("Roots at %s accounts: identical, %d blocks of %s.", unit.ShortCount(float64(v.Accounts)), v.Compared, strings.Join(v.Layouts, ", "))
		case result.Different:
			answers = append(answers, fmt.Sprintf("Roots at %s accounts DIFFER from block %d on, among %s.", unit.ShortCount(float64(v.Accounts)), v.Block, strings.Join(v.Layouts, ", ")))
		}
	}
	if agree != "" {
		answers = append(answers, agree)
	}
	return answers
}

// readsRange names the layouts that read least and most at a size: "flat-pebble 0.53
// to geth-hash 2.12 device reads".
func readsRange(l *result.Layouts, accounts uint64, condition string) string {
	e := claims.Evidence{Layouts: l}
	var least, most claims.Reading
	var from, to string
	others := false
	for i, row := range l.Rows {
		if row.Status != result.OK || row.Accounts != accounts {
			continue
		}
		r, ok := e.Reads(i, condition)
		if !ok {
			continue
		}
		others = from != ""
		if from == "" || r.Value < least.Value {
			least, from = r, row.Layout
		}
		if to == "" || r.Value > most.Value {
			most, to = r, row.Layout
		}
	}
	switch {
	case from == "":
		return ""
	case from == to && others:
		return fmt.Sprintf("%s and all others %s %s", from, view.PerGet(least.Value), least.Unit)
	case from == to:
		return fmt.Sprintf("%s %s %s", from, view.PerGet(least.Value), least.Unit)
	}
	text := from + " " + view.PerGet(least.Value)
	if least.Unit != most.Unit {
		text += " " + least.Unit
	}
	return fmt.Sprintf("%s to %s %s %s", text, to, view.PerGet(most.Value), most.Unit)
}

// costsTable is what to know of every layout at the largest size.
func costsTable(l *result.Layouts) view.Table {
	e := claims.Evidence{Layouts: l}
	us := view.Scale{Name: "us", Size: 1e3}
	t := view.Table{Columns: []view.Column{{Name: "layout", Text: true}, {Name: "nothing", Unit: "cached"}, {Name: "memory", Unit: "held"}, {Name: "in memory", Unit: "% of state"}, {Name: "at 1B with", Unit: "16 GiB"},
		{Name: "a slot", Unit: "held"}, {Name: "p50", Unit: "us, held"}, {Name: "nodes"}, {Name: "disk", Unit: "B/account"}}}
	for _, name := range claims.Names(l) {
		i, ok := e.Largest(name)
		if !ok {
			continue
		}
		of := l.Rows[i]
		if of.Accounts < claims.Largest(l) {
			name += " " + e.Accounts(i)
		}
		reads := func(kind, condition string) string {
			r, ok := e.ReadsOf(i, kind, condition)
			if !ok {
				return view.None
			}
			return view.PerGet(r.Value)
		}
		p50 := view.None
		if of.LookupNanos != nil {
			p50 = us.In(float64(of.LookupNanos.P50))
		}
		t.Add(name, reads(result.AccountLookup, result.FirstLookups), reads(result.AccountLookup, result.HeldLookups), view.Positive(e.Share(i), claims.ShortOrAll), e.Predicted(of.Layout, claims.Billion, claims.ServerMemory),
			reads(result.SlotLookup, result.HeldLookups), p50, view.Optional(of.Nodes, view.Number), view.Number(of.DiskPerAccount))
	}
	t.Drop()
	return t
}

// costsNote says what was counted, and of what.
func costsNote(l *result.Layouts) string {
	e := claims.Evidence{Layouts: l}
	var counts []string
	for i := range l.Rows {
		if r, ok := e.Reads(i, result.HeldLookups); ok && !slices.Contains(counts, r.Unit) {
			counts = append(counts, r.Unit)
		}
	}
	return fmt.Sprintf("%s of a lookup of one of %s accounts", strings.Join(counts, " or "), unit.ShortCount(float64(claims.Largest(l))))
}

// rows adds a row per layout and size, grouped by layout, the failed ones with
// their reason.
func rows(l *result.Layouts, t *view.Table, cells func(result.LayoutRow) []string) {
	for _, name := range claims.Names(l) {
		for _, of := range l.Rows {
			if of.Layout != name {
				continue
			}
			label := of.Layout + " " + unit.ShortCount(float64(of.Accounts))
			if of.Status != result.OK {
				t.Rows = append(t.Rows, view.Row{Cells: []string{label}, Failed: true, Note: of.Error})
				continue
			}
			t.Rows = append(t.Rows, view.Row{Cells: append([]string{label}, cells(of)...)})
		}
	}
}

// lookupTable holds what a lookup costs, predictions beside it.
func lookupTable(l *result.Layouts) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "nodes"}, {Name: "formula"}, {Name: "pages"}, {Name: "reads"}, {Name: "formula"},
		{Name: "device", Unit: "reads"}, {Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}}}
	us := view.Scale{Name: "us", Size: 1e3}
	rows(l, &t, func(of result.LayoutRow) []string {
		p50, p99 := view.None, view.None
		if of.LookupNanos != nil {
			p50, p99 = us.In(float64(of.LookupNanos.P50)), us.In(float64(of.LookupNanos.P99))
		}
		return []string{view.Optional(of.Nodes, view.Number), view.Optional(of.PredictedNodes, view.Number), view.Optional(of.Pages, view.Number), view.Optional(of.BlockReads, view.PerGet), view.Optional(of.PredictedReads, view.Number),
			view.Optional(of.DeviceReads, view.PerGet), p50, p99}
	})
	t.Drop()
	return t
}

// deviceTable holds what lookups fetch from the device, cold and with memory
// held, and how many there are a second.
func deviceTable(l *result.Layouts) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "device", Unit: "bytes"}, {Name: "cold", Unit: "reads"}, {Name: "cold", Unit: "bytes"},
		{Name: "1 in flight", Unit: "per s"}, {Name: "64 in flight", Unit: "per s"}}}
	rows(l, &t, func(of result.LayoutRow) []string {
		coldReads, coldBytes, one, many := view.None, view.None, view.None, view.None
		for _, look := range of.Lookups {
			switch {
			case look.Kind != result.AccountLookup:
			case look.Condition == result.ColdLookups:
				coldReads, coldBytes = view.Optional(look.DeviceReads, view.PerGet), view.Number(look.DeviceBytes)
			case look.InFlight == 1:
				one = unit.ShortCount(look.PerSecond)
			default:
				many = unit.ShortCount(look.PerSecond)
			}
		}
		return []string{view.Optional(of.DeviceBytes, view.Number), coldReads, coldBytes, one, many}
	})
	t.Drop()
	return t
}

// costTable holds what keeping and changing the state costs.
func costTable(l *result.Layouts) view.Table {
	var memories []int64
	for _, row := range l.Rows {
		memories = append(memories, row.PeakRSSBytes)
	}
	memory, us, ms := view.ByteScale(memories), view.Scale{Name: "us", Size: 1e3}, view.Scale{Name: "ms", Size: 1e6}
	t := view.Table{Columns: []view.Column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "disk", Unit: "B/account"}, {Name: "update", Unit: "us"}, {Name: "root", Unit: "p50 ms"}, {Name: "new nodes", Unit: "/update"},
		{Name: "read calls", Unit: "/update"}, {Name: "written", Unit: "times"}, {Name: "open", Unit: "ms"}, {Name: "memory", Unit: memory.Name}}}
	rows(l, &t, func(of result.LayoutRow) []string {
		commit, nodes, reads, written := view.None, view.None, view.None, view.None
		if u := of.Updates; u != nil {
			nodes, reads, written = view.Optional(u.NodesPerUpdate, view.Number), view.PerGet(u.ReadCallsPerUpdate), view.Number(u.WriteAmplification)
			if u.CommitNanos != nil {
				commit = ms.In(float64(u.CommitNanos.P50))
			}
		}
		return []string{view.Number(of.DiskPerAccount), view.Optional(of.UpdateNanos, us.In), commit, nodes, reads, written, ms.In(float64(of.OpenNanos)), view.Positive(float64(of.PeakRSSBytes), memory.In)}
	})
	t.Drop()
	return t
}

// outlookTable holds figures of sizes that were not built, a row per layout and
// size: nodes, reads without a cache, device reads by the memory.
func outlookTable(l *result.Layouts) view.Table {
	e := claims.Evidence{Layouts: l}
	var sizes []uint64
	var budgets []int64
	alike := false
	for _, o := range l.Outlook {
		if !slices.Contains(sizes, o.Accounts) {
			sizes = append(sizes, o.Accounts)
		}
		alike = alike || o.PerAccount
		if o.MemoryBytes > 0 && !o.PerAccount && !slices.Contains(budgets, o.MemoryBytes) {
			budgets = append(budgets, o.MemoryBytes)
		}
	}
	slices.Sort(sizes)
	slices.Sort(budgets)
	t := view.Table{Columns: []view.Column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "nodes"}, {Name: "reads", Unit: "no cache"}}}
	if alike {
		t.Columns = append(t.Columns, view.Column{Name: "device reads", Unit: "memory as here"})
	}
	for _, budget := range budgets {
		t.Columns = append(t.Columns, view.Column{Name: "device reads", Unit: view.ShortBytes(budget)})
	}
	for _, name := range claims.Names(l) {
		for _, accounts := range sizes {
			figure := func(o result.LayoutOutlook, _ string, ok bool) string {
				if !ok {
					return view.None
				}
				return view.PerGet(o.Value)
			}
			cells := []string{figure(e.Ahead(name, "nodes_per_lookup", accounts, 0)), figure(e.Ahead(name, "reads_per_lookup", accounts, 0))}
			if alike {
				cells = append(cells, figure(e.AheadAlike(name, "device_reads_per_lookup", accounts)))
			}
			for _, budget := range budgets {
				cells = append(cells, e.Predicted(name, accounts, budget))
			}
			if slices.ContainsFunc(cells, func(c string) bool { return c != view.None }) {
				t.Add(append([]string{name + " " + unit.ShortCount(float64(accounts))}, cells...)...)
			}
		}
	}
	t.Drop()
	return t
}

// kindsTable holds every kind of lookup in every condition.
func kindsTable(l *result.Layouts) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "lookup", Text: true}, {Name: "condition", Text: true}, {Name: "in flight"}, {Name: "nodes"}, {Name: "pages"}, {Name: "block reads"},
		{Name: "read calls"}, {Name: "faults"}, {Name: "device reads"}, {Name: "device", Unit: "bytes"}, {Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}, {Name: "per second"}}}
	us := view.Scale{Name: "us", Size: 1e3}
	for _, row := range l.Rows {
		for _, of := range row.Lookups {
			p50, p99 := view.None, view.None
			if of.ServiceNanos != nil {
				p50, p99 = us.In(float64(of.ServiceNanos.P50)), us.In(float64(of.ServiceNanos.P99))
			}
			t.Add(row.Layout+" "+unit.ShortCount(float64(row.Accounts)), strings.ReplaceAll(of.Kind, "_", " "), of.Condition, unit.Count(of.InFlight), view.Optional(of.Nodes, view.Number), view.Optional(of.Pages, view.Number), view.Optional(of.BlockReads, view.PerGet),
				view.PerGet(of.ReadCalls), view.PerGet(of.MajorFaults), view.Optional(of.DeviceReads, view.PerGet), view.Number(of.DeviceBytes), p50, p99, unit.ShortCount(of.PerSecond))
		}
	}
	t.Drop()
	return t
}
