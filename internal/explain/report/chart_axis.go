package report

import (
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// axisFigures are throughput and p99 along every axis that varies. The cache
// comes first: the other axes' figures then have a line for each cache.
func axisFigures(s *Sweep) []figure {
	var out []figure
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
		out = append(out, figure{title: "Speed by " + x, note: note, method: "reads.md", pic: pic, table: axisTable(x, curves)})
	}
	return out
}

// axisChart draws both panels; left is how many curves found no room.
func axisChart(x string, curves []curve) (pic *picture, left int) {
	speed, p99 := newPanel("Gets per second"), newPanel("p99 service time")
	pic = &picture{about: "Gets per second and p99 service time by " + x, panels: []*plot.Plot{speed}, beside: true, height: pictureHeight}
	place, ticks, isNumber := axisPlaces(x, curves)
	var speeds, slows []plotter.XYs
	var drawn []curve
	var looks []style
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
		if a = finite(a, isNumber, true); len(a) == 0 {
			continue
		}
		if len(drawn) == maxLines {
			left++
			continue
		}
		looks = append(looks, curveStyle(i))
		drawn, speeds, slows = append(drawn, c), append(speeds, a), append(slows, finite(b, isNumber, true))
	}
	if len(drawn) == 0 {
		return nil, 0
	}
	if anyPoints(slows) {
		pic.panels = append(pic.panels, p99)
	}
	if !isNumber {
		groupedBars(pic, speed, p99, curves, drawn, speeds, slows)
	} else {
		if x == "threads" {
			if thumb := line(speed, ideal(speeds[0]), style{color: muted, dash: dashed(), width: vg.Points(1.2)}); thumb != nil {
				pic.add("ideal", thumb...)
			}
		}
		for i, c := range drawn {
			look := looks[i]
			thumb := line(speed, speeds[i], look)
			line(p99, slows[i], look)
			if name := c.name(true); len(drawn) > 1 {
				pic.add(name, thumb...)
			} else {
				pic.add("measured", thumb...)
			}
			ceiling := c.ceiling(place, 20*highest(speeds[i]))
			if thumb := line(speed, ceiling, style{color: look.color, dash: dotted(), width: vg.Points(1.4)}); thumb != nil {
				pic.add("  disk's limit", thumb...)
				limits = append(limits, ceiling)
			}
			spreadAt(speed, c, place, "gets_per_second", func(f result.Figures) float64 { return f.GetsPerSecond }, look.color)
		}
	}
	for _, panel := range pic.panels {
		ticks(&panel.X)
		panel.X.Label.Text = x
	}
	scaleY(&speed.Y, append(limits, speeds...), isNumber, unit.ShortCount)
	scaleY(&p99.Y, slows, isNumber, shortNanos)
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
	return finite(xys, true, true)
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
		return func(p Point) float64 { return at[p.Axes[x]] }, func(axis *plot.Axis) { names(axis, texts) }, false
	}
	var places []float64
	for _, v := range at {
		places = append(places, v)
	}
	slices.Sort(places)
	set = func(axis *plot.Axis) { values(axis, places, unit.ShortCount) }
	if x == "cache" {
		set = func(axis *plot.Axis) { sizes(axis, places[0], places[len(places)-1], 0) }
	}
	return func(p Point) float64 { return at[p.Axes[x]] }, set, true
}

// groupedBars draws a group of bars per name, a bar per curve.
func groupedBars(pic *picture, speed, p99 *plot.Plot, all, drawn []curve, speeds, slows []plotter.XYs) {
	width := vg.Points(math.Min(26, 200/float64(len(drawn)*places(speeds))))
	for i, c := range drawn {
		offset := width * vg.Length(float64(i)-float64(len(drawn)-1)/2)
		look := curveStyle(i)
		first := barsAt(speed, speeds[i], width, offset, look)
		barsAt(p99, slows[i], width, offset, look)
		if len(drawn) > 1 {
			pic.add(c.name(sameSweep(all)), first)
		}
	}
}

// barsAt draws a bar at each point's place.
func barsAt(panel *plot.Plot, xys plotter.XYs, width, offset vg.Length, look style) plot.Thumbnailer {
	bar := &plotter.BarChart{Width: width, Offset: offset, Color: look.color}
	for _, p := range xys {
		for len(bar.Values) <= int(p.X) {
			bar.Values = append(bar.Values, 0)
		}
		bar.Values[int(p.X)] = p.Y
	}
	if len(bar.Values) > 0 {
		panel.Add(bar)
	}
	return bar
}

func places(lines []plotter.XYs) int {
	most := 1
	for _, xys := range lines {
		for _, p := range xys {
			most = max(most, int(p.X)+1)
		}
	}
	return most
}

// ideal is the first point scaled by its x.
func ideal(xys plotter.XYs) plotter.XYs {
	if len(xys) < 2 {
		return nil
	}
	first, last := xys[0], xys[len(xys)-1]
	return plotter.XYs{first, {X: last.X, Y: first.Y * last.X / first.X}}
}

// scaleY starts at 0 unless that would press most points together.
func scaleY(axis *plot.Axis, lines []plotter.XYs, log bool, label func(float64) string) {
	low, high := math.Inf(1), 0.0
	for _, xys := range lines {
		for _, p := range xys {
			low, high = math.Min(low, p.Y), math.Max(high, p.Y)
		}
	}
	if math.IsInf(low, 1) {
		return
	}
	if log && high > 4*low {
		if !math.IsInf(axis.Max, 0) {
			high = math.Max(high, axis.Max) // the ideal line
		}
		decades(axis, low/1.2, high*1.2, label)
		return
	}
	linear(axis, 1.05*high)
	step := roundStep(1.05 * high / 7)
	axis.Tick.Marker = steps(0, axis.Max, step, func(v float64) string {
		if v == 0 {
			return "0"
		}
		return label(v)
	})
}

func anyPoints(lines []plotter.XYs) bool {
	return slices.ContainsFunc(lines, func(xys plotter.XYs) bool { return len(xys) > 0 })
}

func spreadAt(panel *plot.Plot, c curve, place func(Point) float64, name string, value func(result.Figures) float64, look color.RGBA) {
	var xys plotter.XYs
	var ranges []struct{ low, high float64 }
	for _, p := range c.measured() {
		r, ok := p.Spread[name]
		if v := value(p.Figures); ok && r.Low > 0 && r.Low <= v && v <= r.High && r.Low < r.High {
			xys = append(xys, plotter.XY{X: place(p), Y: v})
			ranges = append(ranges, struct{ low, high float64 }{r.Low, r.High})
		}
	}
	if len(xys) > 0 {
		bars(panel, xys, ranges, look)
	}
}

// axisTable has a row per point.
func axisTable(x string, curves []curve) table {
	t := table{Columns: []column{{Name: "curve", Text: true}, {Name: x, Text: true}, {Name: "Gets/s"}, {Name: "times the first"},
		{Name: "p50", Unit: "us"}, {Name: "p99", Unit: "us"}, {Name: "CPU", Unit: "% of all cores"}, {Name: "CPU", Unit: "us/Get"}, {Name: "in flight"}}}
	us := scale{"us", 1e3}
	for _, c := range curves {
		first := 0.0
		for _, p := range c.pts {
			label := c.label
			if label == "" {
				label = none
			}
			if p.Status != result.OK {
				t.Rows = append(t.Rows, row{Cells: []string{label, p.Axes[x]}, Failed: true, Note: reason(p)})
				continue
			}
			f := p.Figures
			if first == 0 {
				first = f.GetsPerSecond
			}
			p50, p99 := none, none
			if f.ServiceNanos != nil {
				p50, p99 = us.in(float64(f.ServiceNanos.P50)), us.in(float64(f.ServiceNanos.P99))
			}
			t.add(label, strings.TrimSpace(p.Axes[x]), positive(f.GetsPerSecond, number), number(f.GetsPerSecond/first), p50, p99,
				positive(f.CPUPercent, number), positive(f.CPUNanosPerGet, us.in), positive(f.InFlight, number))
		}
	}
	t.drop()
	return t
}
