package trees

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// measure is one chart of the report: a column of ticks, and how it is drawn.
type measure struct {
	title, note string
	y           doc.Axis
	bytes       bool // values are sizes: one unit is chosen for all
	doc.Column[result.Tick]
}

// measures in the order of the page. A column may sum up: it is asked tick by tick.
func measures() []measure {
	of := func(unit string, value func(*result.TreeTick) *float64) doc.Column[result.Tick] {
		return doc.Optional("", unit, nil, func(t result.Tick) *float64 { return value(t.Tree) })
	}
	var written, user float64
	var disk *float64
	average := window{ticks: hour}
	logs := func(label string, format doc.Format) doc.Axis {
		return doc.Axis{Label: label, Kind: doc.Logs, Format: format}
	}
	counted := func(label string) doc.Axis { return logs(label, doc.AsCount) }
	size := func(label string) doc.Axis { return doc.Axis{Label: label, Format: doc.AsCount} }
	return []measure{
		{
			title: "Leaves per second",
			note: "Changes applied in each second over the time in the tree: Set, Remove and " +
				"Commit.",
			y: counted("leaves per second"),
			Column: of("leaves/s", func(t *result.TreeTick) *float64 {
				return t.LeavesPerSecond.Pointer()
			}),
		},
		{
			title:  "Leaves per second, moving average",
			note:   "Over the time in the tree, of the last hour or of the run so far.",
			y:      counted("leaves per second"),
			Column: of("leaves/s", average.add),
		},
		{
			title:  "Nodes per second",
			note:   "Nodes written, inner ones included, over the time in the tree.",
			y:      counted("nodes per second"),
			Column: of("nodes/s", func(t *result.TreeTick) *float64 { return t.NodesPerSecond }),
		},
		{
			title: "Commit time, p99",
			note:  "The 99th percentile of the commits of each second.",
			y:     logs("p99 of commits", doc.AsNanos),
			Column: doc.Figure("", "", nil, func(t result.Tick) float64 { return float64(t.P99) }).
				In(doc.Millis),
		},
		{
			title: "Memory",
			note:  "Resident memory of the runner's process.",
			y:     size("resident memory"),
			bytes: true,
			Column: of("", func(t *result.TreeTick) *float64 {
				return t.RSSBytes.Pointer()
			}),
		},
		{
			title:  "Go's memory",
			note:   "Objects on Go's heap, garbage that was not collected yet included.",
			y:      size("Go heap"),
			bytes:  true,
			Column: of("", func(t *result.TreeTick) *float64 { return doc.Whole(t.GoHeapBytes) }),
		},
		{
			title: "Disk",
			note:  "Blocks allocated below the tree's folder.",
			y:     size("disk"),
			bytes: true,
			Column: of("", func(t *result.TreeTick) *float64 {
				if t.DiskBytes != nil {
					disk = doc.Whole(t.DiskBytes)
				}
				return disk
			}),
		},
		{title: "Write amplification", y: doc.Axis{Label: "bytes written per byte changed"},
			note: "Bytes the process sent to devices so far, per byte of keys and values. Pages " +
				"that the kernel still holds are not counted.",
			Column: of("x", func(t *result.TreeTick) *float64 {
				if !t.WriteBytes.IsKnown() || !t.UserBytes.IsKnown() {
					return nil
				}

				written, user = written+t.WriteBytes.OrZero(), user+t.UserBytes.OrZero()

				return doc.When(user > 0, written/user)
			})},
		{
			title:  "Lookups in the store below",
			note:   "Gets of the database under the tree, over the time in the tree.",
			y:      counted("db gets per second"),
			Column: of("gets/s", func(t *result.TreeTick) *float64 { return t.DBGetsPerSecond }),
		},
		{
			title:  "Hits of the log's cache",
			note:   "Nodes that a write-ahead log's cache served, in each second of the run.",
			y:      counted("hits per second"),
			Column: of("hits/s", func(t *result.TreeTick) *float64 { return doc.Whole(t.LogHits) }),
		},
		{
			title: "Node cache hit rate",
			note:  "Share of node lookups that the tree's own cache served, in each second.",
			y:     doc.Percents("hit rate"),
			Column: of("%", func(t *result.TreeTick) *float64 {
				if t.CacheHits == nil || t.CacheMisses == nil || *t.CacheHits+*t.CacheMisses == 0 {
					return nil
				}
				return doc.Some(100 * float64(*t.CacheHits) / float64(*t.CacheHits+*t.CacheMisses))
			}),
		},
	}
}

// charts draw every measure that any tree tells, all trees in one panel.
func (in Input) charts() (blocks []doc.Block) {
	x := in.against()
	for n := range measures() {
		blocks = append(blocks, in.chart(func() measure { return measures()[n] }, x))
	}
	return blocks
}

// against is what the measures are drawn over: the tree's size where every tree
// that keeps something tells it, else the version.
func (in Input) against() doc.Column[result.Tick] {
	size := doc.Optional("leaves in the tree", "", nil, func(t result.Tick) *float64 {
		return doc.Whole(t.Tree.TreeSize)
	})
	for _, of := range in.keeping() {
		known := slices.ContainsFunc(of.ticks, func(t result.Tick) bool {
			return t.Tree.TreeSize != nil && *t.Tree.TreeSize > 0
		})
		if len(of.ticks) > 0 && !known {
			return doc.Figure("version", "", nil, func(t result.Tick) float64 {
				return float64(t.Tree.Version)
			})
		}
	}

	return size
}

// keeping are the trees that keep something.
func (in Input) keeping() []replayed {
	return doc.Where(in.trees, func(of replayed) bool { return of.RootRule != result.NoRoots })
}

// told is what a tree tells of one measure.
type told struct {
	tree   string
	values []float64
	xys    doc.XYs
	nth    int // of the tree among those that keep something: it has one look in all charts
}

// chart is one measure: a line per tree and a row per tree below. fresh makes the
// measure anew for each tree.
func (in Input) chart(fresh func() measure, x doc.Column[result.Tick]) doc.Block {
	m := fresh()
	var all []told
	for nth, of := range in.keeping() {
		t := told{
			tree:   of.Tree,
			nth:    nth,
			values: fresh().Values(of.ticks),
			xys:    fresh().Against(x, of.ticks),
		}

		if len(t.xys) > 0 {
			all = append(all, t)
		}
	}

	if len(all) == 0 {
		return doc.Block{}
	}

	if m.bytes {
		scale := doc.ByteScale(doc.Each(all, func(t told) float64 { return slices.Max(t.values) }))
		m.Column, m.y.Unit = m.In(scale), scale.Name
		for _, t := range all {
			for i := range t.xys {
				t.xys[i].Y /= scale.Size
			}
		}
	}

	chart, panel := doc.OnePanel(m.title+" against "+x.Name, doc.Linear(x.Name, doc.AsCount), m.y)
	for _, t := range all {
		if t.nth >= doc.MaxLines {
			m.note += " " + t.tree + " is in the table only."
			continue
		}

		look, xys := doc.CurveStyle(t.nth), doc.Thin(t.xys)
		if len(xys) > 30 {
			look.Shape = "" // the points of a long line hide it
		}

		panel.Line(t.tree, xys, look)
	}

	if !chart.Drawn() {
		return doc.Block{}
	}

	return doc.Block{
		Title:  m.title,
		Note:   m.note,
		Method: method,
		Chart:  chart,
		Table:  m.summary(all),
	}
}

// summary has the first, the lowest, the median, the highest and the last value of
// every tree.
func (m measure) summary(all []told) doc.Table {
	of := func(name string, pick func(values, sorted []float64) float64) doc.Column[told] {
		return doc.Column[told]{Name: name, Unit: m.Unit, Per: m.Per, Value: func(t told) *float64 {
			return doc.Some(pick(t.values, slices.Sorted(slices.Values(t.values))))
		}}
	}

	return doc.TableOf(
		all,
		nil,
		doc.Words("tree", func(t told) string { return t.tree }),
		doc.Figure("seconds measured", "", doc.Digits, func(t told) float64 {
			return float64(len(t.values))
		}),
		of("first", func(v, _ []float64) float64 { return v[0] }),
		of("lowest", func(_, s []float64) float64 { return s[0] }),
		of("median", func(_, s []float64) float64 { return s[len(s)/2] }),
		of("highest", func(_, s []float64) float64 { return s[len(s)-1] }),
		of("last", func(v, _ []float64) float64 { return v[len(v)-1] }),
	)
}

// hour is the window of the moving average that the IAVL comparison of 2023 shows, in
// ticks of a second.
const hour = 3600

// window is the rate over the last ticks of a tree: leaves over the time in the tree.
type window struct {
	ticks  int
	parts  []part
	before uint64 // leaves so far, at the last tick
}

type part struct{ leaves, seconds float64 }

// add takes the next tick and returns the rate over the window; nil while nothing was
// applied.
func (w *window) add(t *result.TreeTick) *float64 {
	// of a tick in which nothing was finished
	p := part{leaves: float64(t.Leaves) - float64(w.before), seconds: 1}
	w.before = t.Leaves
	if rate := t.LeavesPerSecond.OrZero(); rate > 0 {
		p.seconds = p.leaves / rate
	}

	if w.parts = append(w.parts, p); len(w.parts) > w.ticks {
		w.parts = w.parts[1:]
	}

	var sum part
	for _, p := range w.parts {
		sum.leaves, sum.seconds = sum.leaves+p.leaves, sum.seconds+p.seconds
	}

	return doc.When(sum.leaves > 0 && sum.seconds > 0, sum.leaves/sum.seconds)
}

// otherSets warns of folders whose changes were others.
func (in Input) otherSets() (list []doc.Warning) {
	for _, o := range in.others {
		if o.changes.Path != in.Changes.Path || o.changes.First != in.Changes.First ||
			o.changes.Last != in.Changes.Last {
			list = append(list, doc.Warning{Where: o.name,
				Text: fmt.Sprintf("its trees replayed versions %d to %d of %s, the others %d to "+
					"%d of %s: compare them only if these are the same changes",
					o.changes.First, o.changes.Last, o.changes.Path, in.Changes.First,
					in.Changes.Last, in.Changes.Path)})
		}
	}

	return list
}

// perVersion draws the time of every version, a line per tree.
func (in Input) perVersion() doc.Block {
	chart := doc.NewChart("Time of each version", doc.Linear("version", doc.AsCount),
		doc.Axis{Label: "time of a version", Kind: doc.Logs, Format: doc.AsNanos})
	for nth, of := range in.keeping() {
		if len(of.versions) == 0 || nth >= doc.MaxLines {
			continue
		}

		timed := doc.Where(of.versions, func(v result.VersionRow) bool {
			return v.ApplyNanos+v.CommitNanos > 0
		})
		xys := doc.Each(timed, func(v result.VersionRow) doc.XY {
			return doc.XY{
				X: float64(v.Version),
				Y: float64(v.ApplyNanos+v.CommitNanos) / float64(max(v.Versions, 1)),
			}
		})

		look := doc.CurveStyle(nth)
		look.Shape = ""
		chart.Panels[0].Line(of.Tree, doc.Thin(xys), look)
	}

	if !chart.Drawn() {
		return doc.Block{}
	}

	return doc.Block{
		Title:  "Time of each version",
		Method: method,
		Chart:  chart,
		Table:  in.slowest(),
		Note: "Its changes and its commit; the rows are in versions.jsonl of each run. The table " +
			"has the slowest.",
	}
}

// slowestOf is how many versions of a tree the table shows.
const slowestOf = 5

// slowest are the slowest versions of each tree.
func (in Input) slowest() doc.Table {
	type row struct {
		tree string
		result.VersionRow
	}

	all := doc.Flat(in.trees, func(of replayed) []row {
		sorted := slices.SortedStableFunc(slices.Values(of.versions), func(
			a, b result.VersionRow,
		) int {
			return cmp.Compare(b.ApplyNanos+b.CommitNanos, a.ApplyNanos+a.CommitNanos)
		})

		return doc.Each(sorted[:min(slowestOf, len(sorted))], func(v result.VersionRow) row {
			return row{of.Tree, v}
		})
	})

	millis := func(name string, value func(row) int64) doc.Column[row] {
		return doc.Figure(name, "", nil, func(r row) float64 { return float64(value(r)) }).
			In(doc.Millis)
	}

	return doc.TableOf(
		all,
		nil,
		doc.Words("tree", func(r row) string { return r.tree }),
		doc.Figure("version", "", doc.Digits, func(r row) float64 { return float64(r.Version) }),
		doc.Figure("leaves", "", doc.Digits, func(r row) float64 { return float64(r.Leaves) }),
		millis("changes", func(r row) int64 { return r.ApplyNanos }),
		millis("commit", func(r row) int64 { return r.CommitNanos }),
	)
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
func (in Input) background() doc.Block {
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

	return doc.Block{Title: "Snapshots", Method: method,
		Note: "When each began, counted from the beginning of the replay, and how long after " +
			"that it was written, had caught up with the newer versions, and took the tree's " +
			"place.",
		Table: doc.TableOf(all, nil, doc.Words("tree", func(w work) string { return w.tree }),
			doc.Figure("of version", "", doc.Digits, func(w work) float64 {
				return float64(w.version)
			}),
			doc.Optional("began", "s", nil, func(w work) *float64 { return &w.at }),
			doc.Optional("written", "s", nil, func(w work) *float64 { return w.written }),
			doc.Optional("caught up", "s", nil, func(w work) *float64 { return w.caughtUp }),
			doc.Optional("switched", "s", nil, func(w work) *float64 { return w.switched }),
			doc.Optional("switched at version", "", doc.Digits, func(w work) *float64 {
				return doc.Whole(w.switchedAt)
			}))}
}
