package engines

import (
	"strconv"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// hitRateChart is the hit rate of each block type by cache size.
func hitRateChart(c curve) *view.Picture {
	pts := c.withReads()
	kinds := typesIn(pts, func(f result.Figures) map[string]float64 { return f.HitRate })
	if len(pts) < 2 || len(kinds) == 0 {
		return nil
	}
	panel := view.NewPanel("hit rate, %")
	pic := &view.Picture{About: "hit rate of each block type by cache size", Panels: []*plot.Plot{panel}, Height: view.PictureHeight}
	cacheAxis(c, panel, pts)
	view.PercentAxis(&panel.Y)
	pic.Marks = &view.Marks{List: inflectionMarks(c.sweep.Inflection, panel.X.Min, panel.X.Max)}
	panel.Add(pic.Marks)
	for _, kind := range kinds {
		var xys plotter.XYs
		for _, p := range pts {
			if rate, ok := p.Figures.HitRate[kind.String()]; ok {
				xys = append(xys, plotter.XY{X: float64(p.CacheBytes), Y: 100 * rate})
			}
		}
		pic.Add(typeLabel(kind), view.Line(panel, view.Finite(xys, true, false), view.Style{Color: typeColor(kind), Shape: typeShape(kind)})...)
	}
	return pic
}

func hitRateTable(c curve) view.Table {
	kinds := typesIn(c.withReads(), func(f result.Figures) map[string]float64 { return f.HitRate })
	t := pointColumns(c)
	for _, kind := range kinds {
		t.Columns = append(t.Columns, view.Column{Name: typeLabel(kind), Unit: "%"})
	}
	t.Columns = append(t.Columns, view.Column{Name: "all", Unit: "%"})
	c.rows(&t, func(p Point) []string {
		var cells []string
		for _, kind := range kinds {
			cells = append(cells, view.Typed(p.Figures.HitRate, kind.String(), asPercent))
		}
		return append(cells, view.Typed(p.Figures.HitRate, "all", asPercent))
	})
	return t
}

// asPercent prints a share in percent, nothing finer than 0.01.
func asPercent(share float64) string {
	switch p := 100 * share; {
	case p > 0 && p < 0.005:
		return "<0.01"
	case p < 10:
		return strconv.FormatFloat(p, 'f', 2, 64)
	default:
		return view.Number(p)
	}
}
