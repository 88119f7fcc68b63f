package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// layoutsWidth is the width of a terminal for a comparison of layouts.
const layoutsWidth = 100

// LayoutsText prints the answer, what a lookup costs, and what to think of the claims;
// then all figures.
func LayoutsText(w io.Writer, l *result.Layouts) error {
	out := bufio.NewWriter(w)
	claims := claimsJudged(l)
	for _, answer := range layoutAnswers(l, claims) {
		fmt.Fprintln(out, wrap(answer, layoutsWidth, "  "))
	}
	if t := layoutCostsTable(l); len(t.Rows) > 0 {
		fmt.Fprintf(out, "\n%s:\n", layoutCostsNote(l))
		printTable(out, t)
	}
	if len(claims) > 0 {
		fmt.Fprintln(out, "\nwhich claims to believe:")
		printClaims(out, claims)
		if note := claimsElsewhere(claims); note != "" {
			fmt.Fprintln(out, wrap(note, layoutsWidth, ""))
		}
	}
	fmt.Fprintln(out, "\nall sizes, caches warm, memory held:")
	for i, part := range []table{layoutLookupTable(l), layoutDeviceTable(l), layoutCostTable(l)} {
		if i > 0 { // the first has said what failed
			part.Rows = slices.DeleteFunc(part.Rows, func(r row) bool { return r.Failed })
			fmt.Fprintln(out)
		}
		printTable(out, part)
	}
	if t := layoutModelTable(l); len(t.Rows) > 0 {
		fmt.Fprintln(out, "\nwith this memory, by a model of the caches:")
		printTable(out, t)
	}
	if t := layoutOutlookTable(l); len(t.Rows) > 0 {
		fmt.Fprintln(out, "\nnot built, but predicted:")
		printTable(out, t)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the layouts: %w", err)
	}
	return nil
}

// layoutAnswers are the sentences that the user came for.
func layoutAnswers(l *result.Layouts, claims []judged) (answers []string) {
	largest := largestLayouts(l)
	var costs []string
	if held := readsRange(l, largest, result.HeldLookups); held != "" {
		budget := "memory not held"
		if l.Workload.MemoryBytes > 0 {
			budget = "memory held to " + shortBytes(l.Workload.MemoryBytes)
		}
		costs = append(costs, budget+": "+held)
	}
	if first := readsRange(l, largest, result.FirstLookups); first != "" {
		costs = append(costs, "with nothing cached: "+first)
	}
	if len(costs) > 0 {
		answers = append(answers, fmt.Sprintf("A lookup of one of %s accounts costs, %s.", unit.ShortCount(float64(largest)), strings.Join(costs, "; ")))
	}
	if len(claims) > 0 {
		answers = append(answers, claimsSentence(claims))
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

// largestLayouts is the largest state that any layout was measured with.
func largestLayouts(l *result.Layouts) (accounts uint64) {
	for _, row := range l.Rows {
		if row.Status == result.OK {
			accounts = max(accounts, row.Accounts)
		}
	}
	return accounts
}

// readsRange names the layouts that read least and most at a size: "flat-pebble 0.53
// to geth-hash 2.12 device reads".
func readsRange(l *result.Layouts, accounts uint64, condition string) string {
	e := evidence{l}
	var least, most reading
	var from, to string
	others := false
	for i, row := range l.Rows {
		if row.Status != result.OK || row.Accounts != accounts {
			continue
		}
		r, ok := e.reads(i, condition)
		if !ok {
			continue
		}
		others = from != ""
		if from == "" || r.value < least.value {
			least, from = r, row.Layout
		}
		if to == "" || r.value > most.value {
			most, to = r, row.Layout
		}
	}
	switch {
	case from == "":
		return ""
	case from == to && others:
		return fmt.Sprintf("%s and all others %s %s", from, perGet(least.value), least.unit)
	case from == to:
		return fmt.Sprintf("%s %s %s", from, perGet(least.value), least.unit)
	}
	text := from + " " + perGet(least.value)
	if least.unit != most.unit {
		text += " " + least.unit
	}
	return fmt.Sprintf("%s to %s %s %s", text, to, perGet(most.value), most.unit)
}

// layoutCostsTable is what to know of every layout at the largest size.
func layoutCostsTable(l *result.Layouts) table {
	e := evidence{l}
	us := scale{"us", 1e3}
	t := table{Columns: []column{{Name: "layout", Text: true}, {Name: "nothing", Unit: "cached"}, {Name: "memory", Unit: "held"}, {Name: "in memory", Unit: "% of state"}, {Name: "at 1B with", Unit: "16 GiB"},
		{Name: "a slot", Unit: "held"}, {Name: "p50", Unit: "us, held"}, {Name: "nodes"}, {Name: "disk", Unit: "B/account"}}}
	for _, name := range layoutNames(l) {
		i, ok := e.largest(name)
		if !ok {
			continue
		}
		of := l.Rows[i]
		if of.Accounts < largestLayouts(l) {
			name += " " + e.accounts(i)
		}
		reads := func(kind, condition string) string {
			r, ok := e.readsOf(i, kind, condition)
			if !ok {
				return none
			}
			return perGet(r.value)
		}
		p50 := none
		if of.LookupNanos != nil {
			p50 = us.in(float64(of.LookupNanos.P50))
		}
		t.add(name, reads(result.AccountLookup, result.FirstLookups), reads(result.AccountLookup, result.HeldLookups), positive(e.share(i), shortOrAll), e.predicted(of.Layout, billion, serverMemory),
			reads(result.SlotLookup, result.HeldLookups), p50, optional(of.Nodes, number), number(of.DiskPerAccount))
	}
	t.drop()
	return t
}

// predicted are the device reads at a size that was not built.
func (e evidence) predicted(layout string, accounts uint64, memoryBytes int64) string {
	o, _, ok := e.ahead(layout, "device_reads_per_lookup", accounts, memoryBytes)
	if !ok {
		return none
	}
	return perGet(o.Value)
}

// layoutCostsNote says what was counted, and of what.
func layoutCostsNote(l *result.Layouts) string {
	e := evidence{l}
	var counts []string
	for i := range l.Rows {
		if r, ok := e.reads(i, result.HeldLookups); ok && !slices.Contains(counts, r.unit) {
			counts = append(counts, r.unit)
		}
	}
	return fmt.Sprintf("%s of a lookup of one of %s accounts", strings.Join(counts, " or "), unit.ShortCount(float64(largestLayouts(l))))
}

// layoutRows adds a row per layout and size, grouped by layout, the failed ones with
// their reason.
func layoutRows(l *result.Layouts, t *table, cells func(result.LayoutRow) []string) {
	for _, name := range layoutNames(l) {
		for _, of := range l.Rows {
			if of.Layout != name {
				continue
			}
			label := of.Layout + " " + unit.ShortCount(float64(of.Accounts))
			if of.Status != result.OK {
				t.Rows = append(t.Rows, row{Cells: []string{label}, Failed: true, Note: of.Error})
				continue
			}
			t.Rows = append(t.Rows, row{Cells: append([]string{label}, cells(of)...)})
		}
	}
}

func layoutNames(l *result.Layouts) (names []string) {
	for _, row := range l.Rows {
		if !slices.Contains(names, row.Layout) {
			names = append(names, row.Layout)
		}
	}
	return names
}

// layoutLookupTable holds what a lookup costs, predictions beside it.
func layoutLookupTable(l *result.Layouts) table {
	t := table{Columns: []column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "nodes"}, {Name: "formula"}, {Name: "pages"}, {Name: "reads"}, {Name: "formula"},
		{Name: "device", Unit: "reads"}, {Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}}}
	us := scale{"us", 1e3}
	layoutRows(l, &t, func(of result.LayoutRow) []string {
		p50, p99 := none, none
		if of.LookupNanos != nil {
			p50, p99 = us.in(float64(of.LookupNanos.P50)), us.in(float64(of.LookupNanos.P99))
		}
		return []string{optional(of.Nodes, number), optional(of.PredictedNodes, number), optional(of.Pages, number), optional(of.BlockReads, perGet), optional(of.PredictedReads, number),
			optional(of.DeviceReads, perGet), p50, p99}
	})
	t.drop()
	return t
}

// layoutDeviceTable holds what lookups fetch from the device, cold and with memory
// held, and how many there are a second.
func layoutDeviceTable(l *result.Layouts) table {
	t := table{Columns: []column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "device", Unit: "bytes"}, {Name: "cold", Unit: "reads"}, {Name: "cold", Unit: "bytes"},
		{Name: "1 in flight", Unit: "per s"}, {Name: "64 in flight", Unit: "per s"}}}
	layoutRows(l, &t, func(of result.LayoutRow) []string {
		coldReads, coldBytes, one, many := none, none, none, none
		for _, look := range of.Lookups {
			switch {
			case look.Kind != result.AccountLookup:
			case look.Condition == result.ColdLookups:
				coldReads, coldBytes = optional(look.DeviceReads, perGet), number(look.DeviceBytes)
			case look.InFlight == 1:
				one = unit.ShortCount(look.PerSecond)
			default:
				many = unit.ShortCount(look.PerSecond)
			}
		}
		return []string{optional(of.DeviceBytes, number), coldReads, coldBytes, one, many}
	})
	t.drop()
	return t
}

// layoutCostTable holds what keeping and changing the state costs.
func layoutCostTable(l *result.Layouts) table {
	var memories []int64
	for _, row := range l.Rows {
		memories = append(memories, row.PeakRSSBytes)
	}
	memory, us, ms := byteScale(memories), scale{"us", 1e3}, scale{"ms", 1e6}
	t := table{Columns: []column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "disk", Unit: "B/account"}, {Name: "update", Unit: "us"}, {Name: "root", Unit: "p50 ms"}, {Name: "new nodes", Unit: "/update"},
		{Name: "read calls", Unit: "/update"}, {Name: "written", Unit: "times"}, {Name: "open", Unit: "ms"}, {Name: "memory", Unit: memory.name}}}
	layoutRows(l, &t, func(of result.LayoutRow) []string {
		commit, nodes, reads, written := none, none, none, none
		if u := of.Updates; u != nil {
			nodes, reads, written = optional(u.NodesPerUpdate, number), perGet(u.ReadCallsPerUpdate), number(u.WriteAmplification)
			if u.CommitNanos != nil {
				commit = ms.in(float64(u.CommitNanos.P50))
			}
		}
		return []string{number(of.DiskPerAccount), optional(of.UpdateNanos, us.in), commit, nodes, reads, written, ms.in(float64(of.OpenNanos)), positive(float64(of.PeakRSSBytes), memory.in)}
	})
	t.drop()
	return t
}

// layoutOutlookTable holds figures of sizes that were not built, a row per layout and
// size: nodes, reads without a cache, device reads by the memory.
func layoutOutlookTable(l *result.Layouts) table {
	e := evidence{l}
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
	t := table{Columns: []column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "nodes"}, {Name: "reads", Unit: "no cache"}}}
	if alike {
		t.Columns = append(t.Columns, column{Name: "device reads", Unit: "memory as here"})
	}
	for _, budget := range budgets {
		t.Columns = append(t.Columns, column{Name: "device reads", Unit: shortBytes(budget)})
	}
	for _, name := range layoutNames(l) {
		for _, accounts := range sizes {
			figure := func(o result.LayoutOutlook, _ string, ok bool) string {
				if !ok {
					return none
				}
				return perGet(o.Value)
			}
			cells := []string{figure(e.ahead(name, "nodes_per_lookup", accounts, 0)), figure(e.ahead(name, "reads_per_lookup", accounts, 0))}
			if alike {
				cells = append(cells, figure(e.aheadAlike(name, "device_reads_per_lookup", accounts)))
			}
			for _, budget := range budgets {
				cells = append(cells, e.predicted(name, accounts, budget))
			}
			if slices.ContainsFunc(cells, func(c string) bool { return c != none }) {
				t.add(append([]string{name + " " + unit.ShortCount(float64(accounts))}, cells...)...)
			}
		}
	}
	t.drop()
	return t
}

// layoutBasis is the first word of what a figure stands on.
func layoutBasis(basis string) string {
	word, _, _ := strings.Cut(basis, " ")
	return strings.TrimSuffix(word, ":")
}

// layoutKindsTable holds every kind of lookup in every condition.
func layoutKindsTable(l *result.Layouts) table {
	t := table{Columns: []column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "lookup", Text: true}, {Name: "condition", Text: true}, {Name: "in flight"}, {Name: "nodes"}, {Name: "pages"}, {Name: "block reads"},
		{Name: "read calls"}, {Name: "faults"}, {Name: "device reads"}, {Name: "device", Unit: "bytes"}, {Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}, {Name: "per second"}}}
	us := scale{"us", 1e3}
	for _, row := range l.Rows {
		for _, of := range row.Lookups {
			p50, p99 := none, none
			if of.ServiceNanos != nil {
				p50, p99 = us.in(float64(of.ServiceNanos.P50)), us.in(float64(of.ServiceNanos.P99))
			}
			t.add(row.Layout+" "+unit.ShortCount(float64(row.Accounts)), strings.ReplaceAll(of.Kind, "_", " "), of.Condition, unit.Count(of.InFlight), optional(of.Nodes, number), optional(of.Pages, number), optional(of.BlockReads, perGet),
				perGet(of.ReadCalls), perGet(of.MajorFaults), optional(of.DeviceReads, perGet), number(of.DeviceBytes), p50, p99, unit.ShortCount(of.PerSecond))
		}
	}
	t.drop()
	return t
}
