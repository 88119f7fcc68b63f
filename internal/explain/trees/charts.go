package trees

import (
	"math"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
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

// measures in the order of the page.
func measures() []measureOf {
	return []measureOf{
		{title: "Leaves per second", note: "Changes applied in each second over the time in the tree: Set, Remove and Commit.", label: "leaves per second", unit: "leaves/s", log: true,
			value: func(_ *history, t result.Tick) *float64 { return view.Some(t.Tree.LeavesPerSecond) }, tick: unit.ShortCount, print: view.Number},
		{title: "Nodes per second", note: "Nodes written, inner ones included, over the time in the tree.", label: "nodes per second", unit: "nodes/s", log: true,
			value: func(_ *history, t result.Tick) *float64 { return t.Tree.NodesPerSecond }, tick: unit.ShortCount, print: view.Number},
		{title: "Commit time, p99", note: "The 99th percentile of the commits of each second.", label: "p99 of commits", unit: "ms", log: true,
			value: func(_ *history, t result.Tick) *float64 { return view.Some(float64(t.P99)) }, tick: view.ShortNanos, print: view.Scale{Name: "ms", Size: 1e6}.In},
		{title: "Memory", note: "Resident memory of the runner's process.", label: "resident memory", bytes: true,
			value: func(_ *history, t result.Tick) *float64 { return view.Some(float64(t.Tree.RSSBytes)) }, tick: unit.ShortCount, print: view.Number},
		{title: "Disk", note: "Blocks allocated below the tree's folder.", label: "disk", bytes: true,
			value: func(h *history, t result.Tick) *float64 {
				if t.Tree.DiskBytes != nil {
					h.disk = view.Some(float64(*t.Tree.DiskBytes))
				}
				return h.disk
			}, tick: unit.ShortCount, print: view.Number},
		{title: "Write amplification", note: "Bytes the process sent to devices so far, per byte of keys and values. Pages that the kernel still holds are not in it.",
			label: "bytes written per byte changed", unit: "x",
			value: func(h *history, t result.Tick) *float64 {
				h.written, h.user = h.written+float64(t.Tree.WriteBytes), h.user+float64(t.Tree.UserBytes)
				return view.Some(h.written / h.user)
			}, tick: func(v float64) string { return view.Trimmed(v, math.Min(v, 1)) }, print: view.Number},
		{title: "Lookups in the store below", note: "Gets of the database under the tree, over the time in the tree.", label: "db gets per second", unit: "gets/s", log: true,
			value: func(_ *history, t result.Tick) *float64 { return t.Tree.DBGetsPerSecond }, tick: unit.ShortCount, print: view.Number},
		{title: "Node cache hit rate", note: "Share of node lookups that the tree's own cache served, in each second.", label: "hit rate, %", unit: "%", percent: true,
			value: func(_ *history, t result.Tick) *float64 {
				hits, misses := t.Tree.CacheHits, t.Tree.CacheMisses
				if hits == nil || misses == nil || *hits+*misses == 0 {
					return nil
				}
				return view.Some(100 * float64(*hits) / float64(*hits+*misses))
			}, tick: func(v float64) string { return view.Trimmed(v, 10) }, print: view.Number},
	}
}

// replayFigures draw every measure that any tree tells, all trees in one panel.
func (in Input) replayFigures() []view.Figure {
	x, place := in.against()
	var out []view.Figure
	for _, m := range measures() {
		if f := in.figure(m, x, place); f.Pic != nil {
			out = append(out, f)
		}
	}
	return out
}

// against is what the measures are drawn over: the tree's size where every tree
// that keeps something tells it, else the version.
func (in Input) against() (string, func(result.Tick) *float64) {
	version := func(t result.Tick) *float64 { return view.Some(float64(t.Tree.Version)) }
	size := func(t result.Tick) *float64 {
		if t.Tree.TreeSize == nil {
			return nil
		}
		return view.Some(float64(*t.Tree.TreeSize))
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

// Figure is one measure: a line per tree and a row per tree below.
func (in Input) figure(m measureOf, x string, place func(result.Tick) *float64) view.Figure {
	var all []told
	right := 0.0
	nth := -1 // of the tree among those that keep something: it has one look in all charts
	for _, of := range in.trees {
		if of.RootRule == result.NoRoots {
			continue
		}
		nth++
		if t := of.tell(m, place); len(t.xys) > 0 {
			t.look, t.tableOnly = view.CurveStyle(nth), nth >= view.MaxLines
			all = append(all, t)
			right = math.Max(right, view.HighestX(t.xys))
		}
	}
	if len(all) == 0 {
		return view.Figure{}
	}
	if m.bytes {
		m.oneUnit(all)
	}
	panel := view.NewPanel(m.label)
	pic := &view.Picture{About: m.title + " against " + x, Panels: []*plot.Plot{panel}, Height: view.PictureHeight}
	t := view.Table{Columns: []view.Column{{Name: "tree", Text: true}, {Name: "seconds measured"}, {Name: "first", Unit: m.unit}, {Name: "lowest", Unit: m.unit}, {Name: "median", Unit: m.unit},
		{Name: "highest", Unit: m.unit}, {Name: "last", Unit: m.unit}}}
	var lines []plotter.XYs
	for _, of := range all {
		t.Add(append([]string{of.tree, unit.Count(len(of.ValueAxis))}, spanned(of.ValueAxis, m.print)...)...)
		if of.tableOnly {
			m.note += " " + of.tree + " is in the table only."
			continue
		}
		if len(of.xys) > 30 {
			of.look.Shape = nil // the points of a long line hide it
		}
		pic.Add(of.tree, view.Line(panel, of.xys, of.look)...)
		lines = append(lines, of.xys)
	}
	view.ScaleY(&panel.Y, lines, m.log, m.tick)
	if m.percent {
		view.PercentAxis(&panel.Y)
	}
	panel.X.Min, panel.X.Max = 0, math.Max(right*1.02, 1)
	panel.X.Tick.Marker = view.Steps(0, panel.X.Max, view.RoundStep(panel.X.Max/8), unit.ShortCount)
	panel.X.Label.Text = x
	return view.Figure{Title: m.title, Note: m.note, Method: "replay.md", Pic: pic, Table: t}
}

// told is what a tree tells of one measure.
type told struct {
	tree      string
	look      view.Style
	xys       plotter.XYs // thinned to what a page can show
	ValueAxis []float64   // all
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
		t.ValueAxis = append(t.ValueAxis, *v)
		if at != nil {
			t.xys = append(t.xys, plotter.XY{X: *at, Y: *v})
		}
	}
	t.xys = view.Thin(view.Finite(t.xys, false, m.log))
	return t
}

// oneUnit turns sizes into the unit that suits the largest of them.
func (m *measureOf) oneUnit(all []told) {
	most := 0.0
	for _, t := range all {
		most = math.Max(most, view.Highest(t.xys))
	}
	scale := view.ByteScale([]int64{int64(most)})
	m.label, m.unit = m.label+", "+scale.Name, scale.Name
	for _, t := range all {
		for i := range t.xys {
			t.xys[i].Y /= scale.Size
		}
		for i := range t.ValueAxis {
			t.ValueAxis[i] /= scale.Size
		}
	}
}
