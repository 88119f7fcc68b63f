package trees

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// otherSets warns of folders whose changes were others.
func (in Input) otherSets() (list []view.Warning) {
	for _, o := range in.others {
		if o.changes.Path != in.Changes.Path || o.changes.First != in.Changes.First || o.changes.Last != in.Changes.Last {
			list = append(list, view.Warning{Where: o.name,
				Text: fmt.Sprintf("its trees replayed versions %d to %d of %s, the others %d to %d of %s: compare them only if these are the same changes",
					o.changes.First, o.changes.Last, o.changes.Path, in.Changes.First, in.Changes.Last, in.Changes.Path)})
		}
	}
	return list
}

// perVersion draws the time of every version, a line per tree.
func (in Input) perVersion() view.Block {
	chart := view.NewChart("Time of each version", view.Linear("version", view.AsCount),
		view.Axis{Label: "time of a version", Kind: view.Logs, Format: view.AsNanos})
	nth := -1
	for _, of := range in.trees {
		if of.RootRule == result.NoRoots {
			continue
		}
		if nth++; len(of.versions) == 0 || nth >= view.MaxLines {
			continue
		}
		var xys view.XYs
		for _, v := range of.versions {
			if nanos := v.ApplyNanos + v.CommitNanos; nanos > 0 {
				xys = append(xys, view.XY{X: float64(v.Version), Y: float64(nanos) / float64(max(v.Versions, 1))})
			}
		}
		look := view.CurveStyle(nth)
		look.Shape = ""
		chart.Panels[0].Line(of.Tree, view.Thin(xys), look)
	}
	if !chart.Drawn() {
		return view.Block{}
	}
	return view.Block{Title: "Time of each version", Method: method, Chart: chart, Table: in.slowest(),
		Note: "Its changes and its commit; the rows are in versions.jsonl of each run. The table has the slowest."}
}

// slowestOf is how many versions of a tree the table shows.
const slowestOf = 5

// slowest are the slowest versions of each tree.
func (in Input) slowest() view.Table {
	type row struct {
		tree string
		result.VersionRow
	}
	var all []row
	for _, of := range in.trees {
		sorted := slices.Clone(of.versions)
		slices.SortStableFunc(sorted, func(a, b result.VersionRow) int {
			return cmp.Compare(b.ApplyNanos+b.CommitNanos, a.ApplyNanos+a.CommitNanos)
		})
		for _, v := range sorted[:min(slowestOf, len(sorted))] {
			all = append(all, row{of.Tree, v})
		}
	}
	millis := func(name string, value func(row) int64) view.Column[row] {
		return view.Figure(name, "", nil, func(r row) float64 { return float64(value(r)) }).In(view.Millis)
	}
	return view.TableOf(all, nil, view.Words("tree", func(r row) string { return r.tree }),
		view.Figure("version", "", view.Digits, func(r row) float64 { return float64(r.Version) }),
		view.Figure("leaves", "", view.Digits, func(r row) float64 { return float64(r.Leaves) }),
		millis("changes", func(r row) int64 { return r.ApplyNanos }), millis("commit", func(r row) int64 { return r.CommitNanos }))
}

// work is one snapshot or checkpoint; seconds since its beginning, nil: not reached.
type work struct {
	tree                        string
	version                     int64
	at                          float64 // since the replay began
	written, caughtUp, switched *float64
	switchedAt                  *int64
}

// background lists what the trees did beside their commits.
func (in Input) background() view.Block {
	var all []work
	for _, of := range in.trees {
		begun := len(all)
		for _, e := range of.events {
			if e.Step == result.StepBegun {
				all = append(all, work{tree: of.Tree, version: e.Version, at: e.Seconds})
				continue
			}
			if len(all) == begun {
				continue // it began before the replay did
			}
			w := &all[len(all)-1]
			passed := e.Seconds - w.at
			switch e.Step {
			case result.StepWritten:
				w.written = &passed
			case result.StepCaughtUp:
				w.caughtUp = &passed
			case result.StepSwitched:
				w.switched, w.switchedAt = &passed, &e.Version
			}
		}
	}
	if len(all) == 0 {
		return view.Block{}
	}
	return view.Block{Title: "Snapshots", Method: method,
		Note: "When each began, counted from the beginning of the replay, and how long after that it was written, " +
			"had caught up with the newer versions, and took the tree's place.",
		Table: view.TableOf(all, nil, view.Words("tree", func(w work) string { return w.tree }),
			view.Figure("of version", "", view.Digits, func(w work) float64 { return float64(w.version) }),
			view.Optional("began", "s", nil, func(w work) *float64 { return &w.at }),
			view.Optional("written", "s", nil, func(w work) *float64 { return w.written }),
			view.Optional("caught up", "s", nil, func(w work) *float64 { return w.caughtUp }),
			view.Optional("switched", "s", nil, func(w work) *float64 { return w.switched }),
			view.Optional("switched at version", "", view.Digits, func(w work) *float64 { return view.Whole(w.switchedAt) }))}
}
