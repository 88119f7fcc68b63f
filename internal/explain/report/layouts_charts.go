package report

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// layoutMeasure is one chart over the number of accounts.
type layoutMeasure struct {
	title, note, label string
	log                bool
	value, predicted   func(result.LayoutRow) *float64
	outlook            string // figure carried on to sizes that were not built
	tick               func(float64) string
}

func layoutMeasures() []layoutMeasure {
	noFormula := func(result.LayoutRow) *float64 { return nil }
	return []layoutMeasure{
		{title: "Nodes per lookup", note: "Trie nodes met on the way to an account, the leaf included; dashed: the formula.", label: "nodes per lookup",
			value: func(r result.LayoutRow) *float64 { return r.Nodes }, predicted: func(r result.LayoutRow) *float64 { return r.PredictedNodes },
			outlook: "nodes_per_lookup", tick: unit.ShortCount},
		{title: "Device bytes per lookup", note: "Fetched from the device, memory held: what an account costs below all caches.", label: "bytes per lookup",
			value: func(r result.LayoutRow) *float64 { return r.DeviceBytes }, predicted: noFormula, tick: unit.ShortCount},
		{title: "Median time of a lookup", note: "Caches warm, memory held, one lookup in flight.", label: "p50", log: true, predicted: noFormula, tick: shortNanos,
			value: func(r result.LayoutRow) *float64 {
				if r.LookupNanos == nil {
					return nil
				}
				return some(float64(r.LookupNanos.P50))
			}},
		{title: "Disk per account", note: "Blocks allocated below the state's folder, over its accounts: slots and updates included.", label: "bytes per account",
			value: func(r result.LayoutRow) *float64 { return some(r.DiskPerAccount) }, predicted: noFormula, tick: unit.ShortCount},
	}
}

// layoutFigures are the charts over the size: reads first, in both conditions.
func layoutFigures(l *result.Layouts) (figures []figure) {
	for _, f := range []figure{layoutReadsFigure(l)} {
		if f.pic != nil {
			figures = append(figures, f)
		}
	}
	for _, m := range layoutMeasures() {
		if f := m.figure(l); f.pic != nil {
			figures = append(figures, f)
		}
	}
	return figures
}

// shortReads prints a tick of reads: 0.5, 1, 20.
func shortReads(v float64) string { return withoutZeros(unit.Significant(v, 1)) }

// layoutStyle is the look of the i-th layout of a run: beyond the colours there are,
// a thinner line and another shape.
func layoutStyle(i int) style {
	look := curveStyle(i)
	if i >= maxLines {
		look.shape, look.width = curveStyle(i+4).shape, vg.Points(0.9)
	}
	return look
}

// layoutReadsFigure draws the reads of a lookup over the size: above with nothing
// cached, below with memory held.
func layoutReadsFigure(l *result.Layouts) figure {
	e := evidence{l}
	first, held := newPanel("reads, nothing cached"), newPanel("reads, memory held")
	pic := &picture{about: "reads per lookup against accounts, with nothing cached and with memory held", panels: []*plot.Plot{first, held}, height: layoutReadsHeight}
	t := table{Columns: []column{{Name: "layout", Text: true}, {Name: "accounts"}, {Name: "nothing cached", Unit: "reads"}, {Name: "memory held", Unit: "reads"}, {Name: "in memory", Unit: "% of state"}, {Name: "nothing cached", Unit: "formula"}, {Name: "memory held", Unit: "model"}}}
	var firstLines, heldLines []plotter.XYs
	for n, name := range layoutNames(l) {
		var cold, warm, formula, model plotter.XYs
		for _, i := range e.sizes(name) {
			row := l.Rows[i]
			at := float64(row.Accounts)
			cells := []string{name, unit.ShortCount(at), none, none, positive(e.share(i), shortOrAll), optional(row.PredictedReads, number), none}
			if r, ok := e.reads(i, result.FirstLookups); ok {
				cold, cells[2] = append(cold, plotter.XY{X: at, Y: r.value}), perGet(r.value)
			}
			if r, ok := e.reads(i, result.HeldLookups); ok {
				warm, cells[3] = append(warm, plotter.XY{X: at, Y: r.value}), perGet(r.value)
			}
			if row.PredictedDeviceReads != nil && row.DeviceReads != nil {
				model, cells[6] = append(model, plotter.XY{X: at, Y: *row.PredictedDeviceReads}), perGet(*row.PredictedDeviceReads)
			}
			if row.PredictedReads != nil {
				formula = append(formula, plotter.XY{X: at, Y: *row.PredictedReads})
			}
			t.add(cells...)
		}
		ahead := []string{name, unit.ShortCount(billion), none, none, none, none, none}
		if o, _, ok := e.ahead(name, "reads_per_lookup", billion, 0); ok && len(formula) > 0 {
			formula, ahead[5] = append(formula, plotter.XY{X: billion, Y: o.Value}), number(o.Value)
		}
		if o, _, ok := e.aheadAlike(name, "device_reads_per_lookup", billion); ok && len(model) > 0 {
			model, ahead[6] = append(model, plotter.XY{X: billion, Y: o.Value}), perGet(o.Value)
		}
		if ahead[5] != none || ahead[6] != none {
			t.add(ahead...)
		}
		cold, warm, formula, model = finite(cold, true, true), finite(warm, true, false), finite(formula, true, true), finite(model, true, false)
		look := layoutStyle(n)
		thumb := line(first, cold, look)
		if below := line(held, warm, look); thumb == nil {
			thumb = below
		}
		if thumb == nil {
			continue
		}
		pic.add(name, thumb...)
		line(first, formula, style{color: look.color, dash: dashed()})
		line(held, model, style{color: look.color, dash: dashed()})
		firstLines, heldLines = append(firstLines, cold, formula), append(heldLines, warm, model)
	}
	if len(pic.legend) == 0 {
		return figure{}
	}
	for _, panel := range pic.panels {
		accountsAxis(&panel.X, slices.Concat(firstLines, heldLines))
	}
	first.X.Label.Text = ""
	scaleY(&first.Y, firstLines, true, shortReads)
	scaleY(&held.Y, heldLines, false, unit.ShortCount)
	return figure{title: "Reads per lookup", note: "Above: each the first lookup of a state that was just opened; dashed: without any cache, by a formula. Below: caches warm, memory held; dashed: by a model, with as much memory for each account at 1e9. A state that fits into memory is read little.", method: layoutsMethod, pic: pic, table: t}
}

// layoutReadsHeight is the height of a picture with two panels and a legend of many
// layouts.
const layoutReadsHeight = 460

// shortOrAll prints a share of a state that memory holds.
func shortOrAll(share float64) string {
	if share >= 1 {
		return "all"
	}
	return number(100 * share)
}

// accountsAxis sets a logarithmic axis of accounts that holds all lines.
func accountsAxis(axis *plot.Axis, lines []plotter.XYs) {
	low, high := math.Inf(1), 0.0
	for _, xys := range lines {
		for _, p := range xys {
			low, high = math.Min(low, p.X), math.Max(high, p.X)
		}
	}
	decades(axis, low, high, unit.ShortCount)
	axis.Label.Text = "accounts"
}

// figure draws a line per layout, and dashed what a formula says of it, up to sizes
// that nobody built.
func (m layoutMeasure) figure(l *result.Layouts) figure {
	panel := newPanel(m.label)
	pic := &picture{about: m.title + " against accounts", panels: []*plot.Plot{panel}, height: pictureHeight}
	t := table{Columns: []column{{Name: "layout", Text: true}, {Name: "accounts"}, {Name: "measured"}, {Name: "formula"}}}
	var lines []plotter.XYs
	for i, name := range layoutNames(l) {
		var measured, formula plotter.XYs
		for _, row := range l.Rows {
			if row.Layout != name || row.Status != result.OK {
				continue
			}
			value, predicted := m.value(row), m.predicted(row)
			at := float64(row.Accounts)
			if value != nil {
				measured = append(measured, plotter.XY{X: at, Y: *value})
			}
			if predicted != nil {
				formula = append(formula, plotter.XY{X: at, Y: *predicted})
			}
			if value != nil || predicted != nil {
				t.add(name, unit.ShortCount(at), optional(value, number), optional(predicted, number))
			}
		}
		for _, o := range l.Outlook {
			if o.Layout == name && o.Figure == m.outlook && m.outlook != "" && len(formula) > 0 {
				formula = append(formula, plotter.XY{X: float64(o.Accounts), Y: o.Value})
				t.add(name, unit.ShortCount(float64(o.Accounts)), none, number(o.Value))
			}
		}
		measured, formula = finite(measured, true, m.log), finite(formula, true, m.log)
		if len(measured) == 0 {
			continue
		}
		look := layoutStyle(i)
		pic.add(name, line(panel, measured, look)...)
		line(panel, formula, style{color: look.color, dash: dashed()})
		lines = append(lines, measured, formula)
	}
	if len(lines) == 0 {
		return figure{}
	}
	accountsAxis(&panel.X, lines)
	scaleY(&panel.Y, lines, m.log, m.tick)
	return figure{title: m.title, note: m.note, method: layoutsMethod, pic: pic, table: t}
}
