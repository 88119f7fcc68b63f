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

const method = "trees.md"

// Page is what a browser shows.
func (in Input) Page() *view.Page {
	p := &view.Page{Title: "Statelab: change sets into state trees", Cards: []view.Card{in.card()}}
	p.Answer("", in.answers()...)
	for _, w := range in.Warnings {
		p.Warnings = append(p.Warnings, view.Warning{Text: w.Text, Remedy: w.Remedy})
	}
	p.Warnings = append(p.Warnings, in.damages()...)
	if in.Status == result.Interrupted {
		p.Warnings = append(p.Warnings, view.Warning{Text: "the replay was interrupted: runs are missing", Remedy: "run it again with --resume"})
	}
	p.Warnings = append(p.Warnings, in.otherSets()...)
	p.Add("All figures",
		view.Block{Title: "Speed", Method: method, Table: in.speed(),
			Note: "Leaves are changes; settled counts the final sync too, where it took a hundredth of the time or more. " + in.harness()},
		view.Block{Title: "State and cost", Note: "Memory is the peak of the process.", Method: method, Table: in.state()},
		view.Block{Title: "What the figures depend on", Note: "A tree that keeps less, or writes later, is faster for it.", Table: in.labels()})
	p.Add("As the tree grows", in.charts()...)
	p.Add("Version by version", in.perVersion(), in.background())
	p.Add("Facts",
		view.Block{Title: "Roots at the last version", Method: method, Table: in.roots(), Folded: true},
		view.Block{Title: "Counters of every pass", Method: method, Table: in.counters(), Folded: true},
		view.Block{Title: "Effective options", Table: in.options(), Folded: true},
		view.Block{Title: "Command", Pre: view.Shell(in.Command), Folded: true})
	return p
}

// damages tell which folders could not be read.
func (in Input) damages() (list []view.Warning) {
	for _, t := range in.trees {
		if t.problem != "" {
			list = append(list, view.Warning{Text: "part of a run folder could not be read: " + t.problem, Where: t.Tree})
		}
	}
	return list
}

// Damaged names what could not be read of the folders; the rest is reported.
func (in Input) Damaged() (problems []string) {
	for _, w := range in.damages() {
		problems = append(problems, w.Where+": "+w.Text)
	}
	return problems
}

func (in Input) card() view.Card {
	c := in.Changes
	versions, leaves := "", uint64(0)
	if c.Last > 0 {
		versions = fmt.Sprintf("%d to %d", c.First, c.Last)
	}
	for _, t := range in.trees {
		leaves = max(leaves, t.Figures.Leaves)
	}
	return view.Card{Name: "replay", Facts: view.Known([][2]string{
		{"change set", filepath.Base(c.Path)}, {"form", c.Format}, {"order", c.Order}, {"stores", strings.Join(c.Stores, ", ")},
		{"versions", versions}, {"leaves", unit.Count(leaves)}, {"provenance", c.Provenance},
		{"machine", fmt.Sprintf("%s, %d cores, %s", in.Host.CPU, in.Host.Cores, unit.Bytes(in.Host.MemoryBytes))},
		{"disk", strings.TrimSpace(in.Host.Device + " " + in.Host.Filesystem)}, {"measured", in.Started.UTC().Format("2006-01-02 15:04 UTC")}})}
}

func (in Input) labels() view.Table {
	return view.ListOf([]string{"tree", "version", "durability", "history", "root rule"}, in.trees, func(of replayed) []string {
		return []string{of.Tree, of.Version, of.Durability, of.History, of.RootRule}
	})
}

func (in Input) roots() view.Table {
	var rows [][]string
	for _, of := range in.trees {
		f := of.Figures
		if f.Root == nil {
			continue
		}
		rows = append(rows, []string{of.Tree, fmt.Sprint(f.LastVersion), "all", f.Root.Combined})
		for _, store := range slices.Sorted(maps.Keys(f.Root.Stores)) {
			rows = append(rows, []string{of.Tree, fmt.Sprint(f.LastVersion), store, f.Root.Stores[store]})
		}
	}
	return view.Listing([]string{"tree", "version", "store", "root"}, rows)
}

func (in Input) counters() view.Table {
	var rows [][]string
	for _, c := range in.Counters {
		if len(c.Values) == 0 {
			rows = append(rows, []string{c.Tree, view.None, view.None, c.Why})
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
			rows = append(rows, []string{c.Tree, name, strings.Join(values, " / "), verdict})
		}
	}
	return view.Listing([]string{"tree", "counter", "passes", "verdict"}, rows)
}

func (in Input) options() view.Table {
	var rows [][]string
	for _, of := range in.trees {
		if of.run == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(of.run.Engine.Options)) {
			rows = append(rows, []string{of.Tree, name, of.run.Engine.Options[name]})
		}
	}
	return view.Listing([]string{"tree", "option", "value"}, rows)
}
