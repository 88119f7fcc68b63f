package report

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// measureOf is one panel of the replay's report.
type measureOf struct {
	title, note string
	label       string // of the y axis
	unit        string // of the table
	log         bool   // else from 0
	bytes       bool   // values are sizes: one unit is chosen for all
	percent     bool
	value       func(*history, result.Tick) *float64
	tick        func(float64) string // prints a tick of the y axis
	print       func(float64) string // prints a cell
}

// history is what a line has summed up so far.
type history struct {
	written, user float64
	disk          *float64
}

// replayMeasures in the order of the page.
func replayMeasures() []measureOf {
	return []measureOf{
		{title: "Leaves per second", note: "Changes applied in each second over the time in the tree: Set, Remove and Commit.", label: "leaves per second", unit: "leaves/s", log: true,
			value: func(_ *history, t result.Tick) *float64 { return some(t.Tree.LeavesPerSecond) }, tick: unit.ShortCount, print: number},
		{title: "Nodes per second", note: "Nodes written, inner ones included, over the time in the tree.", label: "nodes per second", unit: "nodes/s", log: true,
			value: func(_ *history, t result.Tick) *float64 { return t.Tree.NodesPerSecond }, tick: unit.ShortCount, print: number},
		{title: "Commit time, p99", note: "The 99th percentile of the commits of each second.", label: "p99 of commits", unit: "ms", log: true,
			value: func(_ *history, t result.Tick) *float64 { return some(float64(t.P99)) }, tick: shortNanos, print: scale{"ms", 1e6}.in},
		{title: "Memory", note: "Resident memory of the runner's process.", label: "resident memory", bytes: true,
			value: func(_ *history, t result.Tick) *float64 { return some(float64(t.Tree.RSSBytes)) }, tick: unit.ShortCount, print: number},
		{title: "Disk", note: "Blocks allocated below the tree's folder.", label: "disk", bytes: true,
			value: func(h *history, t result.Tick) *float64 {
				if t.Tree.DiskBytes != nil {
					h.disk = some(float64(*t.Tree.DiskBytes))
				}
				return h.disk
			}, tick: unit.ShortCount, print: number},
		{title: "Write amplification", note: "Bytes the process sent to devices so far, per byte of keys and values. Pages that the kernel still holds are not in it.",
			label: "bytes written per byte changed", unit: "x",
			value: func(h *history, t result.Tick) *float64 {
				h.written, h.user = h.written+float64(t.Tree.WriteBytes), h.user+float64(t.Tree.UserBytes)
				return some(h.written / h.user)
			}, tick: func(v float64) string { return trimmed(v, math.Min(v, 1)) }, print: number},
		{title: "Lookups in the store below", note: "Gets of the database under the tree, over the time in the tree.", label: "db gets per second", unit: "gets/s", log: true,
			value: func(_ *history, t result.Tick) *float64 { return t.Tree.DBGetsPerSecond }, tick: unit.ShortCount, print: number},
		{title: "Node cache hit rate", note: "Share of node lookups that the tree's own cache served, in each second.", label: "hit rate, %", unit: "%", percent: true,
			value: func(_ *history, t result.Tick) *float64 {
				hits, misses := t.Tree.CacheHits, t.Tree.CacheMisses
				if hits == nil || misses == nil || *hits+*misses == 0 {
					return nil
				}
				return some(100 * float64(*hits) / float64(*hits+*misses))
			}, tick: func(v float64) string { return trimmed(v, 10) }, print: number},
	}
}

func some(v float64) *float64 { return &v }

// replayFigures draw every measure that any tree tells, all trees in one panel.
func (in ReplayInput) replayFigures() []figure {
	x, place := in.against()
	var out []figure
	for _, m := range replayMeasures() {
		if f := in.figure(m, x, place); f.pic != nil {
			out = append(out, f)
		}
	}
	return out
}

// against is what the measures are drawn over: the tree's size where every tree
// that keeps something tells it, else the version.
func (in ReplayInput) against() (string, func(result.Tick) *float64) {
	version := func(t result.Tick) *float64 { return some(float64(t.Tree.Version)) }
	size := func(t result.Tick) *float64 {
		if t.Tree.TreeSize == nil {
			return nil
		}
		return some(float64(*t.Tree.TreeSize))
	}
	for _, of := range in.trees {
		known := 0
		for _, t := range of.ticks {
			if s := size(t); s != nil && *s > 0 {
				known++
			}
		}
		if len(of.ticks) > 0 && known == 0 && of.RootRule != result.NoRoots {
			return "version", version
		}
	}
	return "leaves in the tree", size
}

// figure is one measure: a line per tree and a row per tree below.
func (in ReplayInput) figure(m measureOf, x string, place func(result.Tick) *float64) figure {
	var all []told
	right := 0.0
	nth := -1 // of the tree among those that keep something: it has one look in all charts
	for _, of := range in.trees {
		if of.RootRule == result.NoRoots {
			continue
		}
		nth++
		if t := of.tell(m, place); len(t.xys) > 0 {
			t.look, t.tableOnly = curveStyle(nth), nth >= maxLines
			all = append(all, t)
			right = math.Max(right, highestX(t.xys))
		}
	}
	if len(all) == 0 {
		return figure{}
	}
	if m.bytes {
		m.oneUnit(all)
	}
	panel := newPanel(m.label)
	pic := &picture{about: m.title + " against " + x, panels: []*plot.Plot{panel}, height: pictureHeight}
	t := table{Columns: []column{{Name: "tree", Text: true}, {Name: "seconds measured"}, {Name: "first", Unit: m.unit}, {Name: "lowest", Unit: m.unit}, {Name: "median", Unit: m.unit},
		{Name: "highest", Unit: m.unit}, {Name: "last", Unit: m.unit}}}
	var lines []plotter.XYs
	for _, of := range all {
		t.add(append([]string{of.tree, unit.Count(len(of.values))}, spanned(of.values, m.print)...)...)
		if of.tableOnly {
			m.note += " " + of.tree + " is in the table only."
			continue
		}
		if len(of.xys) > 30 {
			of.look.shape = nil // the points of a long line hide it
		}
		pic.add(of.tree, line(panel, of.xys, of.look)...)
		lines = append(lines, of.xys)
	}
	scaleY(&panel.Y, lines, m.log, m.tick)
	if m.percent {
		percents(&panel.Y)
	}
	panel.X.Min, panel.X.Max = 0, math.Max(right*1.02, 1)
	panel.X.Tick.Marker = steps(0, panel.X.Max, roundStep(panel.X.Max/8), unit.ShortCount)
	panel.X.Label.Text = x
	return figure{title: m.title, note: m.note, method: "replay.md", pic: pic, table: t}
}

// told is what a tree tells of one measure.
type told struct {
	tree   string
	look   style
	xys    plotter.XYs // thinned to what a page can show
	values []float64   // all
	// tableOnly: the picture has as many lines as it can hold.
	tableOnly bool
}

func (of replayed) tell(m measureOf, place func(result.Tick) *float64) told {
	t := told{tree: of.Tree}
	h := new(history)
	for _, tick := range of.ticks {
		v, at := m.value(h, tick), place(tick)
		if v == nil {
			continue
		}
		t.values = append(t.values, *v)
		if at != nil {
			t.xys = append(t.xys, plotter.XY{X: *at, Y: *v})
		}
	}
	t.xys = thin(finite(t.xys, false, m.log))
	return t
}

// oneUnit turns sizes into the unit that suits the largest of them.
func (m *measureOf) oneUnit(all []told) {
	most := 0.0
	for _, t := range all {
		most = math.Max(most, highest(t.xys))
	}
	scale := byteScale([]int64{int64(most)})
	m.label, m.unit = m.label+", "+scale.name, scale.name
	for _, t := range all {
		for i := range t.xys {
			t.xys[i].Y /= scale.size
		}
		for i := range t.values {
			t.values[i] /= scale.size
		}
	}
}

func highestX(xys plotter.XYs) float64 {
	most := 0.0
	for _, p := range xys {
		most = math.Max(most, p.X)
	}
	return most
}
