package engines

import (
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// axisFigures are throughput and p99 along every axis that varies. The cache
// comes first: the other axes' figures then have a line for each cache.
func axisFigures(s *Sweep) []view.Figure {
	var out []view.Figure
	axes := s.varying()
	slices.SortStableFunc(axes, func(a, b string) int {
		switch {
		case a == "cache" && b != "cache":
			return -1
		case b == "cache" && a != "cache":
			return 1
		}
		return 0
	})
	for _, x := range axes {
		if s.compares() && s.arenas()[0].rivals() && (competes(x) || len(s.order(x)) < 3) || x == "rate" {
			continue // the chart of engines, and that of latency against load, say it better
		}
		curves := s.curves(x)
		pic, left := axisChart(x, curves)
		if pic == nil {
			continue
		}
		note := "Gets per second and the 99th percentile of service time, by " + x + "."
		if x == "threads" {
			note += " The dashed line is ideal: the first point of the first line, scaled."
		}
		if s.Disk != nil {
			note += " Dotted: what the disk leaves, its reads a second at that number in flight / device reads per Get, where device reads are known and the limit is near."
		}
		if left > 0 {
			note += " " + unit.Count(left) + " more lines are in the table only."
		}
		out = append(out, view.Figure{Title: "Speed by " + x, Note: note, Method: "reads.md", Pic: pic, Table: axisTable(x, curves)})
	}
	return out
}

// axisChart draws both panels; left is how many curves found no room.
func axisChart(x string, curves []curve) (pic *view.Picture, left int) {
	speed, p99 := view.NewPanel("Gets per second"), view.NewPanel("p99 service time")
	pic = &view.Picture{About: "Gets per second and p99 service time by " + x, Panels: []*plot.Plot{speed}, Beside: true, Height: view.PictureHeight}
	place, ticks, isNumber := axisPlaces(x, curves)
	var speeds, slows []plotter.XYs
	var drawn []curve
	var looks []view.Style
	var limits []plotter.XYs
	for i, c := range curves {
		var a, b plotter.XYs
		for _, p := range c.measured() {
			at := place(p)
			a = append(a, plotter.XY{X: at, Y: p.Figures.GetsPerSecond})
			if l := p.Figures.ServiceNanos; l != nil {
				b = append(b, plotter.XY{X: at, Y: float64(l.P99)})
			}
		}
		if a = view.Finite(a, isNumber, true); len(a) == 0 {
			continue
		}
		if len(drawn) == view.MaxLines {
			left++
			continue
		}
		looks = append(looks, view.CurveStyle(i))
		drawn, speeds, slows = append(drawn, c), append(speeds, a), append(slows, view.Finite(b, isNumber, true))
	}
	if len(drawn) == 0 {
		return nil, 0
	}
	if view.AnyPoints(slows) {
		pic.Panels = append(pic.Panels, p99)
	}
	if !isNumber {
		groupedBars(pic, speed, p99, curves, drawn, speeds, slows)
	} else {
		if x == "threads" {
			if thumb := view.Line(speed, ideal(speeds[0]), view.Style{Color: view.Muted, Dash: view.Dashed(), Width: vg.Points(1.2)}); thumb != nil {
				pic.Add("ideal", thumb...)
			}
		}
		for i, c := range drawn {
			look := looks[i]
			thumb := view.Line(speed, speeds[i], look)
			view.Line(p99, slows[i], look)
			if name := c.name(true); len(drawn) > 1 {
				pic.Add(name, thumb...)
			} else {
				pic.Add("measured", thumb...)
			}
			ceiling := c.ceiling(place, 20*view.Highest(speeds[i]))
			if thumb := view.Line(speed, ceiling, view.Style{Color: look.Color, Dash: view.Dotted(), Width: vg.Points(1.4)}); thumb != nil {
				pic.Add("  disk's limit", thumb...)
				limits = append(limits, ceiling)
			}
			spreadAt(speed, c, place, "gets_per_second", func(f result.Figures) float64 { return f.GetsPerSecond }, look.Color)
		}
	}
	for _, panel := range pic.Panels {
		ticks(&panel.X)
		panel.X.Label.Text = x
	}
	view.ScaleY(&speed.Y, append(limits, speeds...), isNumber, unit.ShortCount)
	view.ScaleY(&p99.Y, slows, isNumber, view.ShortNanos)
	return pic, left
}

// ceiling is the disk's limit along a curve, where it is not above most.
func (c curve) ceiling(place func(Point) float64, most float64) plotter.XYs {
	var xys plotter.XYs
	for _, p := range c.measured() {
		if l, ok := c.sweep.limitOf(p); ok && l.getsPerSecond <= most {
			xys = append(xys, plotter.XY{X: place(p), Y: l.getsPerSecond})
		}
	}
	return view.Finite(xys, true, true)
}

// axisPlaces says where a point stands on x, how to set the axis, and whether
// its values are numbers (then the axes are logarithmic).
func axisPlaces(x string, curves []curve) (place func(Point) float64, set func(*plot.Axis), isNumber bool) {
	var texts []string
	at := map[string]float64{}
	isNumber = true
	for _, c := range curves {
		for _, p := range c.pts {
			value := p.Axes[x]
			if _, known := at[value]; known {
				continue
			}
			texts = append(texts, value)
			n, err := unit.ParseCount(value)
			at[value] = float64(n)
			if x == "cache" {
				at[value] = float64(p.CacheBytes)
				isNumber = isNumber && p.CacheBytes > 0
			} else {
				isNumber = isNumber && err == nil && n > 0
			}
		}
	}
	if !isNumber {
		for i, value := range texts {
			at[value] = float64(i)
		}
		return func(p Point) float64 { return at[p.Axes[x]] }, func(axis *plot.Axis) { view.NameAxis(axis, texts) }, false
	}
	var places []float64
	for _, v := range at {
		places = append(places, v)
	}
	slices.Sort(places)
	set = func(axis *plot.Axis) { view.ValueAxis(axis, places, unit.ShortCount) }
	if x == "cache" {
		set = func(axis *plot.Axis) { view.SizeAxis(axis, places[0], places[len(places)-1], 0) }
	}
	return func(p Point) float64 { return at[p.Axes[x]] }, set, true
}

// groupedBars draws a group of bars per name, a bar per curve.
func groupedBars(pic *view.Picture, speed, p99 *plot.Plot, all, drawn []curve, speeds, slows []plotter.XYs) {
	width := vg.Points(math.Min(26, 200/float64(len(drawn)*view.Places(speeds))))
	for i, c := range drawn {
		offset := width * vg.Length(float64(i)-float64(len(drawn)-1)/2)
		look := view.CurveStyle(i)
		first := view.BarsAt(speed, speeds[i], width, offset, look)
		view.BarsAt(p99, slows[i], width, offset, look)
		if len(drawn) > 1 {
			pic.Add(c.name(sameSweep(all)), first)
		}
	}
}

// ideal is the first point scaled by its x.
func ideal(xys plotter.XYs) plotter.XYs {
	if len(xys) < 2 {
		return nil
	}
	first, last := xys[0], xys[len(xys)-1]
	return plotter.XYs{first, {X: last.X, Y: first.Y * last.X / first.X}}
}

func spreadAt(panel *plot.Plot, c curve, place func(Point) float64, name string, value func(result.Figures) float64, look color.RGBA) {
	var xys plotter.XYs
	var ranges []view.Range
	for _, p := range c.measured() {
		r, ok := p.Spread[name]
		if v := value(p.Figures); ok && r.Low > 0 && r.Low <= v && v <= r.High && r.Low < r.High {
			xys = append(xys, plotter.XY{X: place(p), Y: v})
			ranges = append(ranges, view.Range{Low: r.Low, High: r.High})
		}
	}
	if len(xys) > 0 {
		view.ErrorBars(panel, xys, ranges, look)
	}
}

// axisTable has a row per point.
func axisTable(x string, curves []curve) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "curve", Text: true}, {Name: x, Text: true}, {Name: "Gets/s"}, {Name: "times the first"},
		{Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}, {Name: "CPU", Unit: "% of all cores"}, {Name: "CPU", Unit: "us/Get"}, {Name: "in flight"}}}
	us := view.Scale{Name: "us", Size: 1e3}
	for _, c := range curves {
		first := 0.0
		for _, p := range c.pts {
			label := c.label
			if label == "" {
				label = view.None
			}
			if p.Status != result.OK {
				t.Rows = append(t.Rows, view.Row{Cells: []string{label, p.Axes[x]}, Failed: true, Note: reason(p)})
				continue
			}
			f := p.Figures
			if first == 0 {
				first = f.GetsPerSecond
			}
			p50, p99 := view.None, view.None
			if f.ServiceNanos != nil {
				p50, p99 = us.In(float64(f.ServiceNanos.P50)), us.In(float64(f.ServiceNanos.P99))
			}
			t.Add(label, strings.TrimSpace(p.Axes[x]), view.Positive(f.GetsPerSecond, view.Number), view.Number(f.GetsPerSecond/first), p50, p99,
				view.Positive(f.CPUPercent, view.Number), view.Positive(f.CPUNanosPerGet, us.In), view.Positive(f.InFlight, view.Number))
		}
	}
	t.Drop()
	return t
}
