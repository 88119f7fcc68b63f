// Package layouts explains comparisons of layouts of state: what a lookup costs over
// the number of accounts, and which published claims a run supports.
package layouts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Pages that define the figures, and that say how claims are held against them.
const (
	method       = "layouts.md"
	claimsMethod = "state-claims.md"
)

// Input is a comparison of layouts.
type Input struct{ *result.Layouts }

// Read reads a folder that holds layouts.json.
func Read(dir string) (Input, error) {
	l, err := result.ReadLayouts(dir)
	return Input{l}, err
}

// JSON is what the folder says, for a program.
func (in Input) JSON() any { return in.Layouts }

// Page is what a browser shows.
func (in Input) Page() (*view.Page, error) {
	l := in.Layouts
	judged := claims.Judge(l)
	p := &view.Page{Title: "Statelab: state layouts", Advice: []view.Said{{Text: setting(l)}}}
	for _, answer := range answers(l, judged) {
		p.Answers = append(p.Answers, view.Said{Of: "", Text: answer})
	}
	p.Warnings = doubts(l)
	if costs := costsTable(l); len(costs.Rows) > 0 {
		p.Sections = append(p.Sections, view.Section{Title: "What a lookup costs", Blocks: []view.Block{{
			Note: view.Upper(costsNote(l)) + ". Nothing cached: each is the first lookup of a state that was just opened. Memory held: caches warm, the process held to its budget. At 1B: predicted, not measured.", Method: method, Table: view.ViewOf(costs)}}})
	}
	if len(judged) > 0 {
		p.Sections = append(p.Sections, view.Section{Title: "Which claims to believe", Blocks: []view.Block{{
			Note: "Claims of others, each with what this run says of it. A smaller state refutes a bound that it exceeds; it confirms one only up to its size. " + claims.Elsewhere(judged), Method: claimsMethod, Verdicts: verdictViews(judged)}}})
	}
	if err := p.AddFigures("Over the size", figures(l)); err != nil {
		return nil, err
	}
	for _, s := range p.Sections {
		for i := range s.Blocks {
			s.Blocks[i].Aside = s.Blocks[i].SVG != ""
		}
	}
	p.Sections = append(p.Sections,
		view.Section{Title: "All figures", Blocks: []view.Block{
			{Title: "A lookup", Note: "Of a present account, caches warm, memory held, one lookup in flight. Formulas stand beside what they predict.", Method: method, Table: view.ViewOf(lookupTable(l))},
			{Title: "Below the caches, and in a second", Note: "Device bytes with memory held; cold: of a process that has just opened the state.", Method: method, Table: view.ViewOf(deviceTable(l))},
			{Title: "Keeping and changing the state", Note: "Written: times the bytes of what changed. Memory: the peak of the process that looked up.", Method: method, Table: view.ViewOf(costTable(l))},
			{Title: "Predicted with this memory", Note: "By a model of each layout's caches and of the page cache, beside what was measured.", Method: method, Table: view.ViewOf(modelTable(l))},
			{Title: "Not built, but predicted", Note: "Nodes by a formula, device reads by a model of each layout's caches and of the page cache: no measurement. Memory as here: as much for each account as this run had.", Method: method, Table: view.ViewOf(outlookTable(l))},
		}},
		view.Section{Title: "Facts", Blocks: []view.Block{
			{Title: "Every kind of lookup", Method: method, Table: view.ViewOf(kindsTable(l)), Folded: true},
			{Title: "What the layouts are", Table: view.ViewOf(labelsTable(l)), Folded: true},
			{Title: "Command", Pre: view.Shell(l.Command), Folded: true},
		}})
	return p, nil
}

// doubts are the warnings, those of one kind and layout once, and what is absent.
func doubts(l *result.Layouts) (doubts []view.Warning) {
	type kind struct{ layout, code string }
	at, more := map[kind]int{}, map[kind]int{}
	for _, w := range l.Warnings {
		layout, _, _ := strings.Cut(w.Text, ": ")
		k := kind{layout, w.Code}
		if _, known := at[k]; known {
			more[k]++
			continue
		}
		at[k] = len(doubts)
		doubts = append(doubts, view.Warning{Text: w.Text, Remedy: w.Remedy})
	}
	for k, n := range more {
		doubts[at[k]].Where = fmt.Sprintf("and %d more of the kind", n)
	}
	for _, figure := range slices.Sorted(maps.Keys(l.Absent)) {
		doubts = append(doubts, view.Warning{Text: strings.ReplaceAll(figure, "_", " ") + " is absent: " + l.Absent[figure]})
	}
	return doubts
}

// setting is under what everything was measured, in a sentence.
func setting(l *result.Layouts) string {
	w := l.Workload
	var sizes []string
	for _, n := range w.Accounts {
		sizes = append(sizes, unit.ShortCount(float64(n)))
	}
	return fmt.Sprintf("%s accounts, %d slots of %s of them; %d blocks of %d updates; %s lookups of each kind; seed %d. %s, %d cores, %s, %s; %s.",
		strings.Join(sizes, ", "), w.SlotsPer, unit.Percent(w.ContractShare), w.UpdateBlocks, w.UpdateAccounts, unit.Count(w.Reads), w.Seed,
		l.Host.CPU, l.Host.Cores, unit.Bytes(l.Host.MemoryBytes), strings.TrimSpace(l.Host.Device+" "+l.Host.Filesystem), l.Started.UTC().Format("2006-01-02 15:04 UTC"))
}

func labelsTable(l *result.Layouts) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "layout", Text: true}, {Name: "version", Text: true}, {Name: "root rule", Text: true}, {Name: "durability", Text: true}, {Name: "history", Text: true}}}
	for _, name := range claims.Names(l) {
		for _, row := range l.Rows {
			if row.Layout == name {
				t.Add(row.Layout, row.Version, row.RootRule, row.Durability, row.History)
				break
			}
		}
	}
	return t
}
