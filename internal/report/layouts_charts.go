package report

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/statelab/statelab/internal/unit"
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
		{title: "Reads per lookup", note: "Reads below the layout's caches, memory held; dashed: where a formula gives them.", label: "reads per lookup",
			value: func(r result.LayoutRow) *float64 { return r.BlockReads }, predicted: func(r result.LayoutRow) *float64 { return r.PredictedReads },
			outlook: "reads_per_lookup", tick: unit.ShortCount},
		{title: "Device bytes per lookup", note: "Fetched from the device, memory held: what an account costs below all caches.", label: "bytes per lookup",
			value: func(r result.LayoutRow) *float64 { return r.DeviceBytes }, predicted: noFormula, tick: unit.ShortCount},
		{title: "Median time of a lookup", label: "p50", log: true, predicted: noFormula, tick: shortNanos,
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

func layoutFigures(l *result.Layouts) (figures []figure) {
	for _, m := range layoutMeasures() {
		if f := m.figure(l); f.pic != nil {
			figures = append(figures, f)
		}
	}
	return figures
}

// figure draws a line per layout, and dashed what a formula says of it, up to sizes
// that nobody built.
func (m layoutMeasure) figure(l *result.Layouts) figure {
	panel := newPanel(m.label)
	pic := &picture{about: m.title + " against accounts", panels: []*plot.Plot{panel}, height: pictureHeight}
	t := table{Columns: []column{{Name: "layout", Text: true}, {Name: "accounts"}, {Name: "measured"}, {Name: "formula"}}}
	var lines []plotter.XYs
	var places []float64
	drawn := 0
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
		if len(measured) == 0 || drawn == maxLines {
			continue
		}
		drawn++
		look := curveStyle(i)
		pic.add(name, line(panel, measured, look)...)
		line(panel, formula, style{color: look.color, dash: dashed()})
		lines = append(lines, measured, formula)
		for _, p := range append(append(plotter.XYs{}, measured...), formula...) {
			places = append(places, p.X)
		}
	}
	if drawn == 0 {
		return figure{}
	}
	low, high := math.Inf(1), 0.0
	for _, v := range places {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	decades(&panel.X, low, high, unit.ShortCount)
	panel.X.Label.Text = "accounts"
	scaleY(&panel.Y, lines, m.log, m.tick)
	return figure{title: m.title, note: m.note, method: layoutsMethod, pic: pic, table: t}
}
