package report

import (
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/statelab/statelab/result"
)

// hitRateChart is the hit rate of each block type by cache size.
func hitRateChart(c curve) *picture {
	pts := c.withReads()
	kinds := typesIn(pts, func(f result.Figures) map[string]float64 { return f.HitRate })
	if len(pts) < 2 || len(kinds) == 0 {
		return nil
	}
	panel := newPanel("hit rate, %")
	pic := &picture{about: "hit rate of each block type by cache size", panels: []*plot.Plot{panel}, height: pictureHeight}
	cacheAxis(c, panel, pts)
	percents(&panel.Y)
	pic.marks = &marks{list: inflectionMarks(c.sweep.Inflection, panel.X.Min, panel.X.Max)}
	panel.Add(pic.marks)
	for _, kind := range kinds {
		var xys plotter.XYs
		for _, p := range pts {
			if rate, ok := p.Figures.HitRate[kind.String()]; ok {
				xys = append(xys, plotter.XY{X: float64(p.CacheBytes), Y: 100 * rate})
			}
		}
		pic.add(typeLabel(kind), line(panel, finite(xys, true, false), style{color: typeColor(kind), shape: typeShape(kind)})...)
	}
	return pic
}

func hitRateTable(c curve) table {
	kinds := typesIn(c.withReads(), func(f result.Figures) map[string]float64 { return f.HitRate })
	t := pointColumns(c)
	for _, kind := range kinds {
		t.Columns = append(t.Columns, column{Name: typeLabel(kind), Unit: "%"})
	}
	t.Columns = append(t.Columns, column{Name: "all", Unit: "%"})
	c.rows(&t, func(p Point) []string {
		var cells []string
		for _, kind := range kinds {
			cells = append(cells, typed(p.Figures.HitRate, kind.String(), asPercent))
		}
		return append(cells, typed(p.Figures.HitRate, "all", asPercent))
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
		return number(p)
	}
}
