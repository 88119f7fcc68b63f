package report

import (
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/statelab/statelab/result"
)

// overlay draws one figure of several curves. With more than one sweep the x
// axis is the share of the database, so that databases of any size compare.
func overlay(curves []curve, shares bool, about, y string, value func(result.Figures) *float64, guess bool) *picture {
	panel := newPanel(y)
	pic := &picture{about: about, panels: []*plot.Plot{panel}, height: pictureHeight}
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
		if xys = finite(xys, true, false); len(xys) > 0 && len(drawn) < maxLines {
			lines, drawn = append(lines, xys), append(drawn, c)
		}
	}
	low, high := rangeX(lines)
	if !(high > low) {
		return nil
	}
	if shares {
		decades(&panel.X, low, high, shortPercent)
		panel.X.Label.Text = "cache size as a share of the database"
	} else {
		sizes(&panel.X, low, high, float64(drawn[0].sweep.Database.Bytes))
		pic.marks = &marks{list: inflectionMarks(drawn[0].sweep.Inflection, panel.X.Min, panel.X.Max)}
		panel.Add(pic.marks)
	}
	top := 0.0
	for _, xys := range lines {
		top = math.Max(top, highest(xys))
	}
	if strings.HasSuffix(y, "%") {
		percents(&panel.Y)
	} else {
		linear(&panel.Y, 1.05*top)
	}
	for i, c := range drawn {
		look := curveStyle(i)
		thumb := line(panel, lines[i], look)
		if len(drawn) > 1 {
			pic.add(c.name(sameSweep(drawn)), thumb...)
		}
		if guess {
			var xys plotter.XYs
			for _, g := range c.sweep.Predicted {
				x := float64(g.CacheBytes)
				if shares {
					x = percentOf(g.CacheBytes, c.sweep.Database.Bytes)
				}
				if x >= panel.X.Min && x <= panel.X.Max && g.BlockReadsPerGet <= panel.Y.Max {
					xys = append(xys, plotter.XY{X: x, Y: g.BlockReadsPerGet})
				}
			}
			if thumb := line(panel, finite(xys, true, false), style{color: look.color, dash: dashed(), width: vg.Points(1.2)}); thumb != nil {
				pic.add("  predicted", thumb...)
			}
		}
	}
	return pic
}

// beside is how many curves stand next to each other in a table.
const beside = 3

// overlayTable has the points of a few curves next to each other, of more below
// each other.
func overlayTable(curves []curve, unit string, value func(result.Figures) *float64, print func(float64) string) table {
	cells := func(p Point) []string {
		figure := optional(value(p.Figures), print)
		if p.Status != result.OK {
			figure = "failed"
		}
		return []string{cacheText(p), positive(p.CachePercent, number), figure}
	}
	same := sameSweep(curves)
	if len(curves) > beside {
		t := table{Columns: []column{{Name: "curve", Text: true}, {Name: "cache"}, {Name: "cache", Unit: "% of DB"}, {Name: "measured", Unit: unit}}}
		for _, c := range curves {
			for _, p := range c.pts {
				t.add(append([]string{c.name(same)}, cells(p)...)...)
			}
		}
		return t
	}
	var t table
	rows := 0
	for _, c := range curves {
		t.Columns = append(t.Columns, column{Name: c.name(same), Unit: "cache"}, column{Unit: "% of DB"}, column{Unit: unit})
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
		t.add(line...)
	}
	return t
}

func rangeX(lines []plotter.XYs) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, xys := range lines {
		for _, p := range xys {
			low, high = math.Min(low, p.X), math.Max(high, p.X)
		}
	}
	return low, high
}

func sameSweep(curves []curve) bool {
	for _, c := range curves {
		if c.sweep != curves[0].sweep {
			return false
		}
	}
	return true
}
