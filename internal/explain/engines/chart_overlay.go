package engines

import (
	"math"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// overlay draws one figure of several curves. With more than one sweep the x
// axis is the share of the database, so that databases of any size compare.
func overlay(curves []curve, shares bool, about, y string, value func(result.Figures) *float64, guess bool) *view.Picture {
	panel := view.NewPanel(y)
	pic := &view.Picture{About: about, Panels: []*plot.Plot{panel}, Height: view.PictureHeight}
	var lines []plotter.XYs
	var drawn []curve
	for _, c := range curves {
		var xys plotter.XYs
		for _, p := range c.measured() {
			x := float64(p.CacheBytes)
			if shares {
				x = p.CachePercent
			}
			if v := value(p.Figures); v != nil {
				xys = append(xys, plotter.XY{X: x, Y: *v})
			}
		}
		if xys = view.Finite(xys, true, false); len(xys) > 0 && len(drawn) < view.MaxLines {
			lines, drawn = append(lines, xys), append(drawn, c)
		}
	}
	low, high := view.RangeX(lines)
	if !(high > low) {
		return nil
	}
	if shares {
		view.DecadeAxis(&panel.X, low, high, view.ShortPercent)
		panel.X.Label.Text = "cache size as a share of the database"
	} else {
		view.SizeAxis(&panel.X, low, high, float64(drawn[0].sweep.Database.Bytes))
		pic.Marks = &view.Marks{List: inflectionMarks(drawn[0].sweep.Inflection, panel.X.Min, panel.X.Max)}
		panel.Add(pic.Marks)
	}
	top := 0.0
	for _, xys := range lines {
		top = math.Max(top, view.Highest(xys))
	}
	if strings.HasSuffix(y, "%") {
		view.PercentAxis(&panel.Y)
	} else {
		view.LinearAxis(&panel.Y, 1.05*top)
	}
	for i, c := range drawn {
		look := view.CurveStyle(i)
		thumb := view.Line(panel, lines[i], look)
		if len(drawn) > 1 {
			pic.Add(c.name(sameSweep(drawn)), thumb...)
		}
		if guess {
			var xys plotter.XYs
			for _, g := range c.sweep.Predicted {
				x := float64(g.CacheBytes)
				if shares {
					x = view.PercentOf(g.CacheBytes, c.sweep.Database.Bytes)
				}
				if x >= panel.X.Min && x <= panel.X.Max && g.BlockReadsPerGet <= panel.Y.Max {
					xys = append(xys, plotter.XY{X: x, Y: g.BlockReadsPerGet})
				}
			}
			if thumb := view.Line(panel, view.Finite(xys, true, false), view.Style{Color: look.Color, Dash: view.Dashed(), Width: vg.Points(1.2)}); thumb != nil {
				pic.Add("  predicted", thumb...)
			}
		}
	}
	return pic
}

// beside is how many curves stand next to each other in a table.
const beside = 3

// overlayTable has the points of a few curves next to each other, of more below
// each other.
func overlayTable(curves []curve, unit string, value func(result.Figures) *float64, print func(float64) string) view.Table {
	cells := func(p Point) []string {
		figure := view.Optional(value(p.Figures), print)
		if p.Status != result.OK {
			figure = "failed"
		}
		return []string{cacheText(p), view.Positive(p.CachePercent, view.Number), figure}
	}
	same := sameSweep(curves)
	if len(curves) > beside {
		t := view.Table{Columns: []view.Column{{Name: "curve", Text: true}, {Name: "cache"}, {Name: "cache", Unit: "% of DB"}, {Name: "measured", Unit: unit}}}
		for _, c := range curves {
			for _, p := range c.pts {
				t.Add(append([]string{c.name(same)}, cells(p)...)...)
			}
		}
		return t
	}
	var t view.Table
	rows := 0
	for _, c := range curves {
		t.Columns = append(t.Columns, view.Column{Name: c.name(same), Unit: "cache"}, view.Column{Unit: "% of DB"}, view.Column{Unit: unit})
		rows = max(rows, len(c.pts))
	}
	for i := range rows {
		var line []string
		for _, c := range curves {
			if i < len(c.pts) {
				line = append(line, cells(c.pts[i])...)
			} else {
				line = append(line, "", "", "")
			}
		}
		t.Add(line...)
	}
	return t
}

func sameSweep(curves []curve) bool {
	for _, c := range curves {
		if c.sweep != curves[0].sweep {
			return false
		}
	}
	return true
}
