package engines

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// latencyLines are as many as can be followed.
const latencyLines = 6

// latencyChart is the percentile curve of each point: x is the percentile,
// stretched towards 100, y the duration.
func latencyChart(c curve, kind string, of func(Point) *hdrhistogram.Histogram) *view.Picture {
	var pts []Point
	for _, p := range c.measured() {
		if h := of(p); h != nil && h.TotalCount() > 0 {
			pts = append(pts, p)
		}
	}
	if len(pts) == 0 {
		return nil
	}
	panel := view.NewPanel(kind + " time")
	pic := &view.Picture{About: "distribution of " + kind + " times by percentile", Panels: []*plot.Plot{panel}, Height: view.PictureHeight}
	most := latencyLines
	if competes(c.x) {
		most = view.MaxLines
	}
	chosen := view.Spaced(len(pts), most)
	low, high, nines := math.Inf(1), 0.0, 1.0
	for n, i := range chosen {
		xys := view.Finite(quantiles(of(pts[i])), false, true)
		if len(xys) == 0 {
			continue
		}
		low, high = math.Min(low, xys[0].Y), math.Max(high, xys[len(xys)-1].Y)
		nines = math.Max(nines, xys[len(xys)-1].X)
		look := view.RampStyle(n, len(chosen))
		if competes(c.x) { // engines have no order for a ramp to show
			look.Color = view.CurveStyle(c.place(pts[i])).Color
		}
		pic.Add(pointName(c, pts[i]), view.Line(panel, xys, look)...)
	}
	if high == 0 {
		return nil
	}
	panel.X.Min, panel.X.Max = 0, nines*1.02
	panel.X.Label.Text = "percentile"
	ticks := view.FixedTicks{{Value: 0, Label: "0"}, {Value: -math.Log10(0.5), Label: "50"}}
	for i, label := range []string{"90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"} {
		ticks = append(ticks, plot.Tick{Value: float64(i + 1), Label: label})
	}
	panel.X.Tick.Marker = view.Inside(ticks, &panel.X)
	view.DecadeAxis(&panel.Y, low, high, view.ShortNanos)
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
func latencyTable(c curve, of func(result.Figures) *result.Latency) view.Table {
	var nanos []float64
	for _, p := range c.measured() {
		if l := of(p.Figures); l != nil {
			nanos = append(nanos, float64(l.P50))
		}
	}
	s := view.TimeScale(nanos)
	t := pointColumns(c)
	for _, name := range []string{"p50", "p90", "p99", "p99.9", "max", "mean"} {
		t.Columns = append(t.Columns, view.Column{Name: name, Unit: s.Name})
	}
	t.Columns = append(t.Columns, view.Column{Name: "samples"})
	c.rows(&t, func(p Point) []string {
		l := of(p.Figures)
		if l == nil {
			return []string{view.None, view.None, view.None, view.None, view.None, view.None, view.None}
		}
		in := func(n int64) string { return s.In(float64(n)) }
		return []string{in(l.P50), in(l.P90), in(l.P99), in(l.P999), in(l.Max), s.In(l.Mean), unit.Count(l.N)}
	})
	return t
}
