package trees

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Page is what a browser shows.
func (in Input) Page() (*view.Page, error) {
	p := &view.Page{Title: "Statelab: change sets into state trees", Cards: []view.Card{in.card()}}
	for _, answer := range in.answers() {
		p.Answers = append(p.Answers, view.Said{Of: "", Text: answer})
	}
	for _, w := range in.Warnings {
		p.Warnings = append(p.Warnings, view.Warning{Text: w.Text, Remedy: w.Remedy})
	}
	for _, t := range in.trees {
		if t.problem != "" {
			p.Warnings = append(p.Warnings, view.Warning{Text: "part of a run folder could not be read: " + t.problem, Where: t.Tree})
		}
	}
	if in.Status == result.Interrupted {
		p.Warnings = append(p.Warnings, view.Warning{Text: "the replay was interrupted: runs are missing", Remedy: "run it again with --resume"})
	}
	summary := view.Section{Title: "All figures", Blocks: []view.Block{
		{Title: "Speed", Note: "Leaves are changes; settled counts the final sync too, where it took a hundredth of the time or more. " + in.harness(), Method: "replay.md", Table: view.ViewOf(in.speedTable())},
		{Title: "State and cost", Note: "Memory is the peak of the process.", Method: "replay.md", Table: view.ViewOf(in.stateTable())},
		{Title: "What the figures stand on", Note: "A tree that keeps less, or writes later, is faster for it.", Table: view.ViewOf(in.labelsTable())},
	}}
	p.Sections = append(p.Sections, summary)
	if err := p.AddFigures("As the tree grows", in.replayFigures()); err != nil {
		return nil, err
	}
	facts := view.Section{Title: "Facts", Blocks: []view.Block{
		{Title: "Roots at the last version", Method: "replay.md", Table: view.ViewOf(in.rootsTable()), Folded: true},
		{Title: "Counters of every pass", Method: "replay.md", Table: view.ViewOf(in.countersTable()), Folded: true},
		{Title: "Effective options", Table: view.ViewOf(in.optionsTable()), Folded: true},
		{Title: "Command", Pre: view.Shell(in.Command), Folded: true},
	}}
	p.AddSection(facts)
	return p, nil
}

func (in Input) card() view.Card {
	c := in.Changes
	facts := [][2]string{{"change set", filepath.Base(c.Path)}, {"form", c.Format}, {"order", c.Order}, {"stores", strings.Join(c.Stores, ", ")}}
	if c.Last > 0 {
		facts = append(facts, [2]string{"versions", fmt.Sprintf("%d to %d", c.First, c.Last)})
	}
	leaves := uint64(0)
	for _, t := range in.trees {
		leaves = max(leaves, t.Figures.Leaves)
	}
	facts = append(facts, [2]string{"leaves", unit.Count(leaves)}, [2]string{"provenance", c.Provenance},
		[2]string{"machine", fmt.Sprintf("%s, %d cores, %s", in.Host.CPU, in.Host.Cores, unit.Bytes(in.Host.MemoryBytes))},
		[2]string{"disk", strings.TrimSpace(in.Host.Device + " " + in.Host.Filesystem)}, [2]string{"measured", in.Started.UTC().Format("2006-01-02 15:04 UTC")})
	var known [][2]string
	for _, kv := range facts {
		if kv[1] != "" {
			known = append(known, kv)
		}
	}
	return view.Card{Name: "replay", Facts: known}
}

func (in Input) labelsTable() view.Table {
	t := view.Table{Columns: []view.Column{{Name: "tree", Text: true}, {Name: "version", Text: true}, {Name: "durability", Text: true}, {Name: "history", Text: true}, {Name: "root rule", Text: true}}}
	for _, of := range in.trees {
		t.Add(of.Tree, of.Version, of.Durability, of.History, of.RootRule)
	}
	return t
}

func (in Input) rootsTable() view.Table {
	t := view.Table{Columns: []view.Column{{Name: "tree", Text: true}, {Name: "version"}, {Name: "store", Text: true}, {Name: "root", Text: true}}}
	for _, of := range in.trees {
		f := of.Figures
		if f.Root == nil {
			continue
		}
		t.Add(of.Tree, fmt.Sprint(f.LastVersion), "all", f.Root.Combined)
		for _, store := range slices.Sorted(maps.Keys(f.Root.Stores)) {
			t.Add(of.Tree, fmt.Sprint(f.LastVersion), store, f.Root.Stores[store])
		}
	}
	return t
}

func (in Input) countersTable() view.Table {
	t := view.Table{Columns: []view.Column{{Name: "tree", Text: true}, {Name: "counter", Text: true}, {Name: "passes", Text: true}, {Name: "verdict", Text: true}}}
	for _, c := range in.Counters {
		if len(c.Values) == 0 {
			t.Add(c.Tree, view.None, view.None, c.Why)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Values)) {
			var values []string
			for _, v := range c.Values[name] {
				values = append(values, unit.Count(v))
			}
			verdict := result.Identical
			if slices.Contains(c.Differ, name) {
				verdict = result.Different
			}
			t.Add(c.Tree, name, strings.Join(values, " / "), verdict)
		}
	}
	return t
}

func (in Input) optionsTable() view.Table {
	t := view.Table{Columns: []view.Column{{Name: "tree", Text: true}, {Name: "option", Text: true}, {Name: "value", Text: true}}}
	for _, of := range in.trees {
		if of.run == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(of.run.Engine.Options)) {
			t.Add(of.Tree, name, of.run.Engine.Options[name])
		}
	}
	return t
}

// spanned are the first, the lowest, the median, the highest and the last value.
func spanned(values []float64, print func(float64) string) []string {
	sorted := slices.Sorted(slices.Values(values))
	return []string{print(values[0]), print(sorted[0]), print(sorted[len(sorted)/2]), print(sorted[len(sorted)-1]), print(values[len(values)-1])}
}
