package report

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// latencyLines are as many as can be followed.
const latencyLines = 6

// latencyChart is the percentile curve of each point: x is the percentile,
// stretched towards 100, y the duration.
func latencyChart(c curve, kind string, of func(Point) *hdrhistogram.Histogram) *picture {
	var pts []Point
	for _, p := range c.measured() {
		if h := of(p); h != nil && h.TotalCount() > 0 {
			pts = append(pts, p)
		}
	}
	if len(pts) == 0 {
		return nil
	}
	panel := newPanel(kind + " time")
	pic := &picture{about: "distribution of " + kind + " times by percentile", panels: []*plot.Plot{panel}, height: pictureHeight}
	most := latencyLines
	if competes(c.x) {
		most = maxLines
	}
	chosen := spaced(len(pts), most)
	low, high, nines := math.Inf(1), 0.0, 1.0
	for n, i := range chosen {
		xys := finite(quantiles(of(pts[i])), false, true)
		if len(xys) == 0 {
			continue
		}
		low, high = math.Min(low, xys[0].Y), math.Max(high, xys[len(xys)-1].Y)
		nines = math.Max(nines, xys[len(xys)-1].X)
		look := rampStyle(n, len(chosen))
		if competes(c.x) { // engines have no order for a ramp to show
			look.color = curveStyle(c.place(pts[i])).color
		}
		pic.add(pointName(c, pts[i]), line(panel, xys, look)...)
	}
	if high == 0 {
		return nil
	}
	panel.X.Min, panel.X.Max = 0, nines*1.02
	panel.X.Label.Text = "percentile"
	ticks := fixedTicks{{Value: 0, Label: "0"}, {Value: -math.Log10(0.5), Label: "50"}}
	for i, label := range []string{"90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"} {
		ticks = append(ticks, plot.Tick{Value: float64(i + 1), Label: label})
	}
	panel.X.Tick.Marker = inside(ticks, &panel.X)
	decades(&panel.Y, low, high, shortNanos)
	return pic
}

// quantiles samples a histogram evenly in -log10(1-q), as far as its count
// reaches.
func quantiles(h *hdrhistogram.Histogram) plotter.XYs {
	last := math.Min(8, math.Log10(float64(h.TotalCount())))
	var xys plotter.XYs
	const step = 0.05
	for x := 0.0; x < last; x += step {
		xys = append(xys, plotter.XY{X: x, Y: float64(h.ValueAtQuantile(100 * (1 - math.Pow(10, -x))))})
	}
	return append(xys, plotter.XY{X: last, Y: float64(h.Max())})
}

// latencyTable takes the summaries from run.json: they are there even where the
// histogram is not.
func latencyTable(c curve, of func(result.Figures) *result.Latency) table {
	var nanos []float64
	for _, p := range c.measured() {
		if l := of(p.Figures); l != nil {
			nanos = append(nanos, float64(l.P50))
		}
	}
	s := timeScale(nanos)
	t := pointColumns(c)
	for _, name := range []string{"p50", "p90", "p99", "p99.9", "max", "mean"} {
		t.Columns = append(t.Columns, column{Name: name, Unit: s.name})
	}
	t.Columns = append(t.Columns, column{Name: "samples"})
	c.rows(&t, func(p Point) []string {
		l := of(p.Figures)
		if l == nil {
			return []string{none, none, none, none, none, none, none}
		}
		in := func(n int64) string { return s.in(float64(n)) }
		return []string{in(l.P50), in(l.P90), in(l.P99), in(l.P999), in(l.Max), s.in(l.Mean), unit.Count(l.N)}
	})
	return t
}

// spaced picks at most k of n places, evenly, with the first and the last.
func spaced(n, k int) []int {
	if n <= k {
		k = n
	}
	var picked []int
	for i := range k {
		if k == 1 {
			return []int{0}
		}
		picked = append(picked, i*(n-1)/(k-1))
	}
	return picked
}
