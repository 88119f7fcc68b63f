package trees

import (
	"cmp"
	"fmt"
	"math"
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
	pic := view.NewPicture("Time of each version", "time of a version")
	panel := pic.Panels[0]
	panel.LogY = true
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
		look.Shape = nil
		panel.Line(of.Tree, view.Thin(xys), look)
	}
	if !pic.Drawn() {
		return view.Block{}
	}
	panel.FitY(view.ShortNanos)
	_, right := pic.SpanX()
	pic.Linear("version", 0, math.Max(right*1.02, 1), func(v, _ float64) string { return view.ShortCount(v) })
	return view.Block{Title: "Time of each version", Method: method, Picture: pic, Table: in.slowest(),
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
	of := func(name string, value func(row) int64) view.Column[row] {
		return view.Column[row]{Name: name, Value: func(r row) *float64 { return view.Some(float64(value(r))) }}
	}
	version, leaves := of("version", func(r row) int64 { return r.Version }), of("leaves", func(r row) int64 { return int64(r.Leaves) })
	version.Format, leaves.Format = view.Digits, view.Digits
	return view.TableOf(all, nil, view.Column[row]{Name: "tree", Left: true, Key: true, Words: func(r row) string { return r.tree }}, version, leaves,
		of("changes", func(r row) int64 { return r.ApplyNanos }).In(view.Millis).Named("changes", "ms"),
		of("commit", func(r row) int64 { return r.CommitNanos }).In(view.Millis).Named("commit", "ms"))
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
	after := func(name string, value func(work) *float64) view.Column[work] {
		return view.Column[work]{Name: name, Unit: "s", Value: value}
	}
	version := view.Column[work]{Name: "of version", Value: func(w work) *float64 { return view.Some(float64(w.version)) }, Format: view.Digits}
	at := view.Column[work]{Name: "switched at version", Value: func(w work) *float64 { return view.Whole(w.switchedAt) }, Format: view.Digits}
	return view.Block{Title: "Snapshots", Method: method,
		Note: "When each began, counted from the beginning of the replay, and how long after that it was written, " +
			"had caught up with the newer versions, and took the tree's place.",
		Table: view.TableOf(all, nil, view.Column[work]{Name: "tree", Left: true, Key: true, Words: func(w work) string { return w.tree }}, version,
			after("began", func(w work) *float64 { return &w.at }), after("written", func(w work) *float64 { return w.written }),
			after("caught up", func(w work) *float64 { return w.caughtUp }), after("switched", func(w work) *float64 { return w.switched }), at)}
}
