package layouts

import (
	"math"
	"slices"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// measureOf is one chart over the number of accounts.
type measureOf struct {
	title, note, label string
	log                bool
	value, predicted   func(result.LayoutRow) *float64
	outlook            string // figure carried on to sizes that were not built
	tick               func(float64) string
}

func measures() []measureOf {
	noFormula := func(result.LayoutRow) *float64 { return nil }
	return []measureOf{
		{title: "Nodes per lookup", note: "Trie nodes met on the way to an account, the leaf included; dashed: the formula.", label: "nodes per lookup",
			value: func(r result.LayoutRow) *float64 { return r.Nodes }, predicted: func(r result.LayoutRow) *float64 { return r.PredictedNodes },
			outlook: "nodes_per_lookup", tick: unit.ShortCount},
		{title: "Device bytes per lookup", note: "Fetched from the device, memory held: what an account costs below all caches.", label: "bytes per lookup",
			value: func(r result.LayoutRow) *float64 { return r.DeviceBytes }, predicted: noFormula, tick: unit.ShortCount},
		{title: "Median time of a lookup", note: "Caches warm, memory held, one lookup in flight.", label: "p50", log: true, predicted: noFormula, tick: view.ShortNanos,
			value: func(r result.LayoutRow) *float64 {
				if r.LookupNanos == nil {
					return nil
				}
				return view.Some(float64(r.LookupNanos.P50))
			}},
		{title: "Disk per account", note: "Blocks allocated below the state's folder, over its accounts: slots and updates included.", label: "bytes per account",
			value: func(r result.LayoutRow) *float64 { return view.Some(r.DiskPerAccount) }, predicted: noFormula, tick: unit.ShortCount},
	}
}

// figures are the charts over the size: reads first, in both conditions.
func figures(l *result.Layouts) (figures []view.Figure) {
	for _, f := range []view.Figure{readsFigure(l)} {
		if f.Pic != nil {
			figures = append(figures, f)
		}
	}
	for _, m := range measures() {
		if f := m.figure(l); f.Pic != nil {
			figures = append(figures, f)
		}
	}
	return figures
}

// shortReads prints a tick of reads: 0.5, 1, 20.
func shortReads(v float64) string { return view.WithoutZeros(unit.Significant(v, 1)) }

// styleOf is the look of the i-th layout of a run: beyond the colours there are,
// a thinner line and another shape.
func styleOf(i int) view.Style {
	look := view.CurveStyle(i)
	if i >= view.MaxLines {
		look.Shape, look.Width = view.CurveStyle(i+4).Shape, vg.Points(0.9)
	}
	return look
}

// readsFigure draws the reads of a lookup over the size: above with nothing
// cached, below with memory held.
func readsFigure(l *result.Layouts) view.Figure {
	e := claims.Evidence{Layouts: l}
	first, held := view.NewPanel("reads, nothing cached"), view.NewPanel("reads, memory held")
	pic := &view.Picture{About: "reads per lookup against accounts, with nothing cached and with memory held", Panels: []*plot.Plot{first, held}, Height: readsHeight}
	t := view.Table{Columns: []view.Column{{Name: "layout", Text: true}, {Name: "accounts"}, {Name: "nothing cached", Unit: "reads"}, {Name: "memory held", Unit: "reads"}, {Name: "in memory", Unit: "% of state"}, {Name: "nothing cached", Unit: "formula"}, {Name: "memory held", Unit: "model"}}}
	var firstLines, heldLines []plotter.XYs
	for n, name := range claims.Names(l) {
		var cold, warm, formula, model plotter.XYs
		for _, i := range e.Sizes(name) {
			row := l.Rows[i]
			at := float64(row.Accounts)
			cells := []string{name, unit.ShortCount(at), view.None, view.None, view.Positive(e.Share(i), claims.ShortOrAll), view.Optional(row.PredictedReads, view.Number), view.None}
			if r, ok := e.Reads(i, result.FirstLookups); ok {
				cold, cells[2] = append(cold, plotter.XY{X: at, Y: r.Value}), view.PerGet(r.Value)
			}
			if r, ok := e.Reads(i, result.HeldLookups); ok {
				warm, cells[3] = append(warm, plotter.XY{X: at, Y: r.Value}), view.PerGet(r.Value)
			}
			if row.PredictedDeviceReads != nil && row.DeviceReads != nil {
				model, cells[6] = append(model, plotter.XY{X: at, Y: *row.PredictedDeviceReads}), view.PerGet(*row.PredictedDeviceReads)
			}
			if row.PredictedReads != nil {
				formula = append(formula, plotter.XY{X: at, Y: *row.PredictedReads})
			}
			t.Add(cells...)
		}
		ahead := []string{name, unit.ShortCount(claims.Billion), view.None, view.None, view.None, view.None, view.None}
		if o, _, ok := e.Ahead(name, "reads_per_lookup", claims.Billion, 0); ok && len(formula) > 0 {
			formula, ahead[5] = append(formula, plotter.XY{X: claims.Billion, Y: o.Value}), view.Number(o.Value)
		}
		if o, _, ok := e.AheadAlike(name, "device_reads_per_lookup", claims.Billion); ok && len(model) > 0 {
			model, ahead[6] = append(model, plotter.XY{X: claims.Billion, Y: o.Value}), view.PerGet(o.Value)
		}
		if ahead[5] != view.None || ahead[6] != view.None {
			t.Add(ahead...)
		}
		cold, warm, formula, model = view.Finite(cold, true, true), view.Finite(warm, true, false), view.Finite(formula, true, true), view.Finite(model, true, false)
		look := styleOf(n)
		thumb := view.Line(first, cold, look)
		if below := view.Line(held, warm, look); thumb == nil {
			thumb = below
		}
		if thumb == nil {
			continue
		}
		pic.Add(name, thumb...)
		view.Line(first, formula, view.Style{Color: look.Color, Dash: view.Dashed()})
		view.Line(held, model, view.Style{Color: look.Color, Dash: view.Dashed()})
		firstLines, heldLines = append(firstLines, cold, formula), append(heldLines, warm, model)
	}
	if len(pic.Legend) == 0 {
		return view.Figure{}
	}
	for _, panel := range pic.Panels {
		accountsAxis(&panel.X, slices.Concat(firstLines, heldLines))
	}
	first.X.Label.Text = ""
	view.ScaleY(&first.Y, firstLines, true, shortReads)
	view.ScaleY(&held.Y, heldLines, false, unit.ShortCount)
	return view.Figure{Title: "Reads per lookup", Note: "Above: each the first lookup of a state that was just opened; dashed: without any cache, by a formula. Below: caches warm, memory held; dashed: by a model, with as much memory for each account at 1e9. A state that fits into memory is read little.", Method: method, Pic: pic, Table: t}
}

// readsHeight is the height of a picture with two panels and a legend of many
// layouts.
const readsHeight = 460

// accountsAxis sets a logarithmic axis of accounts that holds all lines.
func accountsAxis(axis *plot.Axis, lines []plotter.XYs) {
	low, high := math.Inf(1), 0.0
	for _, xys := range lines {
		for _, p := range xys {
			low, high = math.Min(low, p.X), math.Max(high, p.X)
		}
	}
	view.DecadeAxis(axis, low, high, unit.ShortCount)
	axis.Label.Text = "accounts"
}

// Figure draws a line per layout, and dashed what a formula says of it, up to sizes
// that nobody built.
func (m measureOf) figure(l *result.Layouts) view.Figure {
	panel := view.NewPanel(m.label)
	pic := &view.Picture{About: m.title + " against accounts", Panels: []*plot.Plot{panel}, Height: view.PictureHeight}
	t := view.Table{Columns: []view.Column{{Name: "layout", Text: true}, {Name: "accounts"}, {Name: "measured"}, {Name: "formula"}}}
	var lines []plotter.XYs
	for i, name := range claims.Names(l) {
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
				t.Add(name, unit.ShortCount(at), view.Optional(value, view.Number), view.Optional(predicted, view.Number))
			}
		}
		for _, o := range l.Outlook {
			if o.Layout == name && o.Figure == m.outlook && m.outlook != "" && len(formula) > 0 {
				formula = append(formula, plotter.XY{X: float64(o.Accounts), Y: o.Value})
				t.Add(name, unit.ShortCount(float64(o.Accounts)), view.None, view.Number(o.Value))
			}
		}
		measured, formula = view.Finite(measured, true, m.log), view.Finite(formula, true, m.log)
		if len(measured) == 0 {
			continue
		}
		look := styleOf(i)
		pic.Add(name, view.Line(panel, measured, look)...)
		view.Line(panel, formula, view.Style{Color: look.Color, Dash: view.Dashed()})
		lines = append(lines, measured, formula)
	}
	if len(lines) == 0 {
		return view.Figure{}
	}
	accountsAxis(&panel.X, lines)
	view.ScaleY(&panel.Y, lines, m.log, m.tick)
	return view.Figure{Title: m.title, Note: m.note, Method: method, Pic: pic, Table: t}
}
