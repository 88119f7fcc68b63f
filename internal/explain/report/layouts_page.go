package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// Pages that define the figures, and that say how claims are held against them.
const (
	layoutsMethod = "layouts.md"
	claimsMethod  = "state-claims.md"
)

// WriteLayouts makes the page of a comparison of layouts: one file that loads
// nothing.
func WriteLayouts(w io.Writer, l *result.Layouts) error {
	p, err := layoutsPage(l)
	if err != nil {
		return err
	}
	return p.write(w)
}

func layoutsPage(l *result.Layouts) (*page, error) {
	claims := claimsJudged(l)
	p := &page{Title: "Statelab: state layouts", Advice: []said{{Text: layoutsSetting(l)}}}
	for _, answer := range layoutAnswers(l, claims) {
		p.Answers = append(p.Answers, said{"", answer})
	}
	p.Warnings = layoutDoubts(l)
	if costs := layoutCostsTable(l); len(costs.Rows) > 0 {
		p.Sections = append(p.Sections, section{Title: "What a lookup costs", Blocks: []block{{
			Note: upper(layoutCostsNote(l)) + ". Nothing cached: each is the first lookup of a state that was just opened. Memory held: caches warm, the process held to its budget. At 1B: predicted, not measured.", Method: layoutsMethod, Table: view(costs)}}})
	}
	if len(claims) > 0 {
		p.Sections = append(p.Sections, section{Title: "Which claims to believe", Blocks: []block{{
			Note: "Claims of others, each with what this run says of it. A smaller state refutes a bound that it exceeds; it confirms one only up to its size. " + claimsElsewhere(claims), Method: claimsMethod, Verdicts: verdictViews(claims)}}})
	}
	if err := p.addFigures("Over the size", layoutFigures(l)); err != nil {
		return nil, err
	}
	for _, s := range p.Sections {
		for i := range s.Blocks {
			s.Blocks[i].Aside = s.Blocks[i].SVG != ""
		}
	}
	p.Sections = append(p.Sections,
		section{Title: "All figures", Blocks: []block{
			{Title: "A lookup", Note: "Of a present account, caches warm, memory held, one lookup in flight. Formulas stand beside what they predict.", Method: layoutsMethod, Table: view(layoutLookupTable(l))},
			{Title: "Below the caches, and in a second", Note: "Device bytes with memory held; cold: of a process that has just opened the state.", Method: layoutsMethod, Table: view(layoutDeviceTable(l))},
			{Title: "Keeping and changing the state", Note: "Written: times the bytes of what changed. Memory: the peak of the process that looked up.", Method: layoutsMethod, Table: view(layoutCostTable(l))},
			{Title: "Predicted with this memory", Note: "By a model of each layout's caches and of the page cache, beside what was measured.", Method: layoutsMethod, Table: view(layoutModelTable(l))},
			{Title: "Not built, but predicted", Note: "Nodes by a formula, device reads by a model of each layout's caches and of the page cache: no measurement. Memory as here: as much for each account as this run had.", Method: layoutsMethod, Table: view(layoutOutlookTable(l))},
		}},
		section{Title: "Facts", Blocks: []block{
			{Title: "Every kind of lookup", Method: layoutsMethod, Table: view(layoutKindsTable(l)), Folded: true},
			{Title: "What the layouts are", Table: view(layoutLabelsTable(l)), Folded: true},
			{Title: "Command", Pre: shell(l.Command), Folded: true},
		}})
	return p, nil
}

// layoutDoubts are the warnings, those of one kind and layout once, and what is absent.
func layoutDoubts(l *result.Layouts) (doubts []doubt) {
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
		doubts = append(doubts, doubt{Text: w.Text, Remedy: w.Remedy})
	}
	for k, n := range more {
		doubts[at[k]].Where = fmt.Sprintf("and %d more of the kind", n)
	}
	for _, figure := range slices.Sorted(maps.Keys(l.Absent)) {
		doubts = append(doubts, doubt{Text: strings.ReplaceAll(figure, "_", " ") + " is absent: " + l.Absent[figure]})
	}
	return doubts
}

// layoutsSetting is under what everything was measured, in a sentence.
func layoutsSetting(l *result.Layouts) string {
	w := l.Workload
	var sizes []string
	for _, n := range w.Accounts {
		sizes = append(sizes, unit.ShortCount(float64(n)))
	}
	return fmt.Sprintf("%s accounts, %d slots of %s of them; %d blocks of %d updates; %s lookups of each kind; seed %d. %s, %d cores, %s, %s; %s.",
		strings.Join(sizes, ", "), w.SlotsPer, unit.Percent(w.ContractShare), w.UpdateBlocks, w.UpdateAccounts, unit.Count(w.Reads), w.Seed,
		l.Host.CPU, l.Host.Cores, unit.Bytes(l.Host.MemoryBytes), strings.TrimSpace(l.Host.Device+" "+l.Host.Filesystem), l.Started.UTC().Format("2006-01-02 15:04 UTC"))
}

func layoutLabelsTable(l *result.Layouts) table {
	t := table{Columns: []column{{Name: "layout", Text: true}, {Name: "version", Text: true}, {Name: "root rule", Text: true}, {Name: "durability", Text: true}, {Name: "history", Text: true}}}
	for _, name := range layoutNames(l) {
		for _, row := range l.Rows {
			if row.Layout == name {
				t.add(row.Layout, row.Version, row.RootRule, row.Durability, row.History)
				break
			}
		}
	}
	return t
}
