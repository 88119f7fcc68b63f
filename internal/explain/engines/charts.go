package engines

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// stackOrder is from the bottom up: what every lookup must pay first.
func stackOrder() []engine.BlockType {
	return []engine.BlockType{engine.Data, engine.Value, engine.Page, engine.Index, engine.SingleIndex, engine.TopIndex, engine.Filter, engine.Meta}
}

// typesIn are the types of which any point has something to show.
func typesIn(pts []Point, of func(result.Figures) map[string]float64) []engine.BlockType {
	return view.Where(stackOrder(), func(kind engine.BlockType) bool {
		return slices.ContainsFunc(pts, func(p Point) bool { return of(p.Figures)[kind.String()] >= least })
	})
}

// least is what a chart can show of a type, in reads per Get or as a share.
const least = 0.0005

func readsByType(f result.Figures) map[string]float64 { return f.BlockReadsPerGetByType }
func hitsByType(f result.Figures) map[string]float64  { return f.HitRate }

// deviceLook is the look of the device's account.
func deviceLook() view.Style {
	return view.Style{Color: typeColor(engine.Page), Dash: view.Dashed(), Shape: view.Pyramid}
}

// sizes is an axis of caches of the sweep's database.
func (s *Sweep) sizes() view.Axis { return view.Sizes(float64(s.Database.Bytes)) }

// markInflection marks the inflection points that are near the caches of a chart: solid
// at the cache that holds them beside reserved bytes of memtables, dashed at their size on
// disk; one where they are the same.
func markInflection(c *view.Chart, i *result.Inflection, reserved int64) {
	if i == nil {
		return
	}
	low, high := c.SpanX()
	mark := func(name string, bytes int64, dashed bool) {
		if v := float64(bytes); v >= low/4 && v <= high*4 {
			c.Marks = append(c.Marks, view.Mark{X: v, Name: name, Color: view.Ink, Dashed: dashed})
		}
	}
	for _, ip := range []struct {
		name string
		size result.Size
	}{{"IP1", i.IP1}, {"IP2", i.IP2}} {
		disk, cache := ip.size.DiskBytes, ip.size.CacheBytes+reserved
		switch {
		case ip.size.CacheBytes == 0:
			mark(ip.name+" (on disk)", disk, true)
		case math.Abs(float64(cache-disk)) < 0.02*float64(cache):
			mark(ip.name, cache, false)
		default:
			mark(ip.name+": cache needed", cache, false)
			mark(ip.name+" on disk", disk, true)
		}
	}
}

var readsPerGet = view.Axis{Label: "block reads per Get"}

// readsChart is the main chart: block reads per Get by cache size, stacked by
// type, with the inflection points, the device's account and the prediction.
func readsChart(c curve) *view.Chart {
	pts := c.withReads()
	if len(pts) < 2 {
		return nil
	}
	chart, panel := view.OnePanel("block reads per Get by cache size, stacked by block type", c.sweep.sizes(), readsPerGet)
	for _, kind := range slices.Backward(typesIn(pts, readsByType)) {
		reads := column{Value: func(p Point) *float64 { return view.Some(p.Figures.BlockReadsPerGetByType[kind.String()]) }}
		panel.Area(typeLabel(kind), reads.Against(cacheBytes, pts), typeColor(kind))
	}
	predicted := predictedIn(c.sweep.Predicted, float64(pts[0].CacheBytes), float64(pts[len(pts)-1].CacheBytes))
	panel.Line("predicted", predicted, view.Style{Color: view.Muted, Dash: view.Dashed(), Band: true})
	panel.Line("device reads", deviceReads.Against(cacheBytes, pts), deviceLook())
	if !panel.Line("measured", spread(pts, cacheBytes, blockReads, "block_reads_per_get"), view.Style{Color: view.Ink, Shape: view.Circle, Width: 1.4}) {
		return nil
	}
	markInflection(chart, c.sweep.Inflection, reservedOf(c.pts))
	labels(panel, pts, func(p Point) string { return view.PerGet(*p.Figures.BlockReadsPerGet) })
	return chart
}

// labels are written above the block reads of points, or above their device reads.
func labels(panel *view.Panel, pts []Point, text func(Point) string) {
	panel.Labels(view.Each(pts, func(p Point) view.XY {
		top := math.Max(*p.Figures.BlockReadsPerGet, result.OrZero(p.Figures.DeviceReadsPerGet))
		return view.XY{X: float64(p.CacheBytes), Y: top, Text: text(p)}
	}))
}

// predictedIn is the predicted line with its range between two cache sizes.
func predictedIn(predicted []result.PredictedPoint, low, high float64) (line view.XYs) {
	for _, g := range predicted {
		if x := float64(g.CacheBytes); x >= low && x <= high {
			line = append(line, view.XY{X: x, Y: g.BlockReadsPerGet, Low: g.Low, High: g.High})
		}
	}
	return line
}

// spread are figures with the range of their repeats.
func spread(pts []Point, x, y column, name string) (xys view.XYs) {
	for _, p := range pts {
		if a, b := x.Value(p), y.Value(p); a != nil && b != nil {
			r := p.Spread[name]
			xys = append(xys, view.XY{X: *a, Y: *b, Low: r.Low, High: r.High})
		}
	}
	return xys
}

// readsColumns are the data of readsChart.
func (c curve) readsColumns() []column {
	types := view.Each(typesIn(c.measured(), readsByType), func(kind engine.BlockType) column { return readsOf(typeLabel(kind), kind) })
	return append(append([]column{blockReads}, types...), repeats("over repeats", "low to high", "block_reads_per_get", " to ", 1, view.PerGet),
		deviceReads, c.sweep.predicted())
}

// typeBars stands for readsChart where the cache does not vary: a stacked bar for each
// value of the axis.
func typeBars(c curve) *view.Chart {
	pts := c.having(func(p Point) bool { return p.Status == result.OK && p.Figures.BlockReadsPerGet != nil })
	return stackedTypes("block reads per Get, stacked by block type", c.x, pts, c.pointName, func(p Point) map[string]float64 { return readsByType(p.Figures) })
}

// stackedTypes has a bar for each row, stacked by what it reads of each block type.
func stackedTypes[R any](about, x string, rows []R, name func(R) string, reads func(R) map[string]float64) *view.Chart {
	bars := view.Bars{About: about, X: x, Stacked: true, Panels: []view.Axis{readsPerGet}, Groups: view.Each(rows, name)}
	for _, kind := range stackOrder() {
		values := view.Each(rows, func(r R) float64 { return reads(r)[kind.String()] })
		if slices.ContainsFunc(values, func(v float64) bool { return v >= least }) {
			bars.Sets = append(bars.Sets, view.BarSet{Name: typeLabel(kind), Color: typeColor(kind), Values: [][]float64{values}})
		}
	}
	return bars.Chart(view.PerGet)
}

// hitRateChart is the hit rate of each block type by cache size.
func hitRateChart(c curve) *view.Chart {
	pts := c.withReads()
	if len(pts) < 2 {
		return nil
	}
	return hitChart("hit rate of each block type by cache size", c.sweep.sizes(), typesIn(pts, hitsByType),
		func(kind engine.BlockType) view.XYs { return hitRate("", kind.String()).Against(cacheBytes, pts) }, c.sweep.Inflection, reservedOf(c.pts))
}

// hitChart has a line for each type of blocks.
func hitChart(about string, x view.Axis, kinds []engine.BlockType, line func(engine.BlockType) view.XYs, i *result.Inflection, reserved int64) *view.Chart {
	chart, panel := view.OnePanel(about, x, view.Percents("hit rate"))
	for n, kind := range kinds { // thinner and thinner: all that is cached has the same rate
		look := typeLook(kind)
		look.Width = view.CurveStyle(n).Width
		panel.Line(typeLabel(kind), line(kind), look)
	}
	markInflection(chart, i, reserved)
	return chart.OrNil()
}

// deviceChart compares the device's account with the engine's.
func deviceChart(c curve) *view.Chart {
	pts := c.withReads()
	device := spread(pts, cacheBytes, deviceReads, "device_reads_per_get")
	if len(device) < 2 {
		return nil
	}
	chart, panel := view.OnePanel("device reads and block reads per Get by cache size", c.sweep.sizes(), view.Axis{Label: "reads per Get"})
	panel.Line("block reads", blockReads.Against(cacheBytes, pts), view.Style{Color: view.Ink, Shape: view.Circle, Width: 2.6})
	panel.Line("device reads", device, deviceLook())
	labels(panel, view.Where(pts, func(p Point) bool { return p.Figures.DeviceReadsPerGet != nil && p.Figures.Agreement != nil }),
		func(p Point) string { return "×" + view.Number(*p.Figures.Agreement) })
	return chart.OrNil()
}

// overlay draws one column of several curves. With more than one sweep the x axis is
// the share of the database, so that databases of any size compare.
func overlay(curves []curve, shares bool, title string, y column, axis view.Axis, guess bool) *view.Chart {
	chart, panel := view.OnePanel(title, view.Decades("cache size as a share of the database", view.AsPercent), axis)
	x := cacheShare
	if !shares {
		x = cacheBytes
		chart.X = view.Sizes(0)
	}
	drawn := 0
	var first curve
	alone := sameSweep(curves)
	for _, c := range curves {
		xys := y.Against(x, c.measured())
		if len(xys) == 0 || drawn == view.MaxLines {
			continue
		}
		name, look := "", view.CurveStyle(drawn)
		if len(curves) > 1 {
			name = c.name(alone)
		}
		if !panel.Line(name, xys, look) {
			continue
		}
		if drawn++; drawn == 1 {
			first = c
		}
		if guess {
			panel.Line("predicted", view.Each(c.sweep.Predicted, func(g result.PredictedPoint) view.XY {
				if shares {
					return view.XY{X: view.PercentOf(g.CacheBytes, c.sweep.Database.Bytes), Y: g.BlockReadsPerGet}
				}
				return view.XY{X: float64(g.CacheBytes), Y: g.BlockReadsPerGet}
			}), view.Style{Color: look.Color, Dash: view.Dashed(), Width: 1.2, Guide: true})
		}
	}
	if low, high := chart.SpanX(); !(high > low) {
		return nil
	}
	if !shares {
		chart.X = first.sweep.sizes()
		markInflection(chart, first.sweep.Inflection, reservedOf(first.pts))
	}
	return chart
}

// ofCurve is a point with its curve.
type ofCurve struct {
	Point
	of curve
}

// curvesTable has the points of all curves below each other, ordered by cache, so that
// those of the same size are next to each other. Folders tell curves of one name apart.
func curvesTable(curves []curve, ys ...column) view.Table {
	alone := sameSweep(curves)
	rows := view.Flat(curves, func(c curve) []ofCurve { return view.Each(c.pts, func(p Point) ofCurve { return ofCurve{p, c} }) })
	of := func(c column) view.Column[ofCurve] {
		return view.Column[ofCurve]{Name: c.Name, Unit: c.Unit, Format: c.Format, Per: c.Per, Key: c.Key, Value: func(o ofCurve) *float64 { return c.Value(o.Point) }}
	}
	slices.SortStableFunc(rows, func(a, b ofCurve) int {
		if alone {
			return cmp.Compare(a.CacheBytes, b.CacheBytes)
		}
		return cmp.Compare(a.CachePercent, b.CachePercent)
	})
	columns := []view.Column[ofCurve]{view.Words("curve", func(o ofCurve) string { return o.of.name(alone) }),
		of(cacheBytes.Suited(pointsOf(curves))), of(cacheShare)}
	columns = append(columns, view.Each(ys, of)...)
	if len(ys) > 1 && !alone {
		columns = append(columns, view.Words("folder", func(o ofCurve) string { return o.of.sweep.Dir }))
	}
	return view.TableOf(rows, func(o ofCurve) string { return failure(o.Point) }, columns...)
}

// latencyLines are as many as can be followed.
const latencyLines = 6

// latencyChart is the percentile curve of each point: x is the percentile, stretched
// towards 100, y the duration.
func latencyChart(c curve, kind string, of func(Point) *hdrhistogram.Histogram) *view.Chart {
	pts := c.having(func(p Point) bool { return p.Status == result.OK && of(p) != nil && of(p).TotalCount() > 0 })
	chart, panel := view.OnePanel("distribution of "+kind+" times by percentile", view.Percentiles(),
		view.Axis{Label: kind + " time", Kind: view.Logs, Format: view.AsNanos})
	most := latencyLines
	if competes(c.x) {
		most = view.MaxLines
	}
	chosen := view.Spaced(len(pts), most)
	for n, i := range chosen {
		look := view.RampStyle(n, len(chosen))
		if competes(c.x) { // engines have no order for a ramp to show; colours as in the other charts
			look.Color = view.CurveStyle(slices.Index(c.stops(), pts[i].Axes[c.x])).Color
		}
		panel.Line(c.pointName(pts[i]), quantiles(of(pts[i])), look)
	}
	return chart.OrNil()
}

// quantiles samples a histogram evenly in -log10(1-q), as far as its count
// reaches.
func quantiles(h *hdrhistogram.Histogram) (xys view.XYs) {
	last := math.Min(8, math.Log10(float64(h.TotalCount())))
	const step = 0.05
	for x := 0.0; x < last; x += step {
		xys = append(xys, view.XY{X: x, Y: float64(h.ValueAtQuantile(100 * (1 - math.Pow(10, -x))))})
	}
	return append(xys, view.XY{X: last, Y: float64(h.Max())})
}

// latencyColumns are the summaries of run.json: they are there even where the histogram
// is not.
func latencyColumns(c curve, of func(result.Figures) *result.Latency) []column {
	s := view.TimeScale(latency("", of, p50Of).Values(c.measured()))
	samples := latency("samples", of, func(l *result.Latency) float64 { return float64(l.N) }).In(view.Scale{Size: 1})
	samples.Format = view.Digits
	return []column{latency("p50", of, p50Of).In(s), latency("p90", of, func(l *result.Latency) float64 { return float64(l.P90) }).In(s),
		latency("p99", of, p99Of).In(s), latency("p99.9", of, func(l *result.Latency) float64 { return float64(l.P999) }).In(s),
		latency("max", of, func(l *result.Latency) float64 { return float64(l.Max) }).In(s), latency("mean", of, meanOf).In(s), samples}
}

// axisFigures are throughput and p99 along every axis that varies. The cache
// comes first: the other axes' figures then have a line for each cache.
func axisFigures(s *Sweep) (out []view.Block) {
	axes := slices.Clone(s.varied)
	if at := slices.Index(axes, "cache"); at > 0 {
		axes = slices.Insert(slices.Delete(axes, at, at+1), 0, "cache")
	}
	for _, x := range axes {
		curves := s.curves(x)
		if s.compares() && s.comparisons()[0].rivals() && (competes(x) || len(curves[0].stops()) < 3) || x == "rate" {
			continue // the chart of engines, and that of latency against load, say it better
		}
		chart, left := axisChart(x, curves)
		if chart == nil {
			continue
		}
		note := "Gets per second and the 99th percentile of service time, by " + x + "."
		if x == "threads" {
			note += " Dashed: the first point of the first line, scaled."
		}
		if slices.Contains(chart.Legend(), diskLimit) {
			note += " Dotted: the most Gets/s that the disk allows (its reads/s with " + inFlight(s.Points) + " / device reads per Get)."
		}
		if left > 0 {
			note += " " + unit.Count(left) + " more lines are in the table only."
		}
		out = append(out, view.Block{Title: "Speed by " + x, Note: note, Method: "reads.md", Chart: chart, Table: axisTable(x, curves)})
	}
	return out
}

// diskLimit is the line of the most Gets a second that the disk allows.
const diskLimit = "disk's limit"

// inFlight says how many reads are in flight in a disk's limit: as many as threads.
func inFlight(pts []Point) string {
	if n := pts[0].threads(); !slices.ContainsFunc(pts, func(p Point) bool { return p.threads() != n }) {
		return fmt.Sprintf("%d in flight", n)
	}
	return "one in flight for each thread"
}

// axisTable has a row per point of every curve.
func axisTable(x string, curves []curve) view.Table {
	var pts []Point
	labels, first := map[string]string{}, map[string]float64{}
	for _, c := range curves {
		for _, p := range c.pts {
			if pts = append(pts, p); first[c.label] == 0 && p.Status == result.OK {
				first[c.label] = p.Figures.GetsPerSecond
			}
			labels[pointLabel(p)] = c.label
		}
	}
	return view.TableOf(pts, failure,
		view.Words("curve", func(p Point) string { return labels[pointLabel(p)] }),
		axis(x), gets,
		column{Name: "x first row", Value: func(p Point) *float64 {
			of := first[labels[pointLabel(p)]]
			return view.When(of > 0, p.Figures.GetsPerSecond/of)
		}},
		latency("p50", service, p50Of), latency("p99", service, p99Of), cpuPercent.Named("CPU", "% of all cores"), cpuTime,
		figure("in flight", "", nil, func(f result.Figures) *float64 { return view.Of(f.InFlight) }))
}

// axisChart draws both panels; left is how many curves found no room.
func axisChart(x string, curves []curve) (chart *view.Chart, left int) {
	p99 := latency("p99", service, p99Of)
	place, places := axisPlaces(x, curves)
	if place == nil {
		return axisBars(x, curves), 0
	}
	along := view.Places(x, places, view.AsCount)
	if x == "cache" {
		along = view.Sizes(0)
	}
	chart = view.NewChart("Gets per second and p99 service time by "+x, along, orLog(getsASecond), orLog(timeOf("p99 service")))
	chart.Beside = true
	speed, slow := chart.Panels[0], chart.Panels[1]
	at := column{Value: place}
	drawn := 0
	for i, c := range curves {
		pts := c.measured()
		xys := spread(pts, at, gets, "gets_per_second")
		if len(xys) == 0 {
			continue
		}
		if drawn == view.MaxLines {
			left++
			continue
		}
		look, name := view.CurveStyle(i), "measured"
		if len(curves) > 1 {
			name = c.name(true)
		}
		if first := xys[0]; x == "threads" && drawn == 0 && len(xys) > 1 {
			last := xys[len(xys)-1]
			speed.Line("scaled", view.XYs{{X: first.X, Y: first.Y}, {X: last.X, Y: first.Y * last.X / first.X}},
				view.Style{Color: view.Muted, Dash: view.Dashed(), Width: 1.2, Guide: true})
		}
		speed.Line(name, xys, look)
		slow.Line(name, p99.Against(at, pts), look)
		speed.Line(diskLimit, c.ceiling(at, 20*slices.Max(gets.Values(pts))), view.Style{Color: look.Color, Dash: view.Dotted(), Width: 1.4})
		drawn++
	}
	return chart.OrNil(), left
}

var getsASecond = view.Axis{Label: "Gets per second", Format: view.AsCount}

func timeOf(what string) view.Axis { return view.Axis{Label: what + " time", Format: view.AsNanos} }

// orLog is the axis, logarithmic where its values span enough for it.
func orLog(a view.Axis) view.Axis {
	a.Kind = view.Logs
	return a
}

// ceiling is the disk's limit along a curve, where it is not above most.
func (c curve) ceiling(x column, most float64) (xys view.XYs) {
	for _, p := range c.measured() {
		if l, ok := c.sweep.limitOf(p); ok && l.getsPerSecond <= most && x.Value(p) != nil {
			xys = append(xys, view.XY{X: *x.Value(p), Y: l.getsPerSecond})
		}
	}
	return xys
}

func pointsOf(curves []curve) []Point {
	return view.Flat(curves, func(c curve) []Point { return c.pts })
}

// axisPlaces says where a point is on x, and all places; nil where its values are not
// positive numbers.
func axisPlaces(x string, curves []curve) (place func(Point) *float64, places []float64) {
	place = func(p Point) *float64 {
		if x == "cache" {
			return view.Of(p.CacheBytes)
		}
		n, err := unit.ParseCount(p.Axes[x])
		return view.When(err == nil && n > 0, float64(n))
	}
	pts := pointsOf(curves)
	if places = (column{Value: place}).Values(pts); len(places) < len(pts) {
		return nil, nil
	}
	return place, places
}

// axisBars draws a group of bars per value of x, a bar per curve.
func axisBars(x string, curves []curve) *view.Chart {
	bars := view.Bars{About: "Gets per second and p99 service time by " + x, X: x, Beside: true,
		Panels: []view.Axis{getsASecond, timeOf("p99 service")}}
	bars.Groups = curve{x: x, pts: pointsOf(curves)}.stops()
	for i, c := range curves {
		set := view.BarSet{Color: view.CurveStyle(i).Color}
		if len(curves) > 1 {
			set.Name = c.name(sameSweep(curves))
		}
		set.Values = valuesAt(bars.Groups, c.x, c.measured(), gets, latency("p99", service, p99Of))
		bars.Sets = append(bars.Sets, set)
	}
	return bars.Chart(nil)
}

// valuesAt are columns of points by the group that they belong to; 0 where there is none.
func valuesAt(groups []string, x string, pts []Point, columns ...column) [][]float64 {
	values := make([][]float64, len(columns))
	for n, c := range columns {
		values[n] = make([]float64, len(groups))
		for _, p := range pts {
			if v := c.Value(p); v != nil && slices.Contains(groups, p.Axes[x]) {
				values[n][slices.Index(groups, p.Axes[x])] = *v
			}
		}
	}
	return values
}

// enginesChart has a group of bars per stop and a bar per entrant, above Gets a
// second, below the mean service time. Across each bar is the disk's limit.
func (c curve) enginesChart() *view.Chart {
	stops := c.stops()
	bars := view.Bars{About: "Gets per second and mean service time by engine", X: c.x, Groups: stops,
		Panels: []view.Axis{getsASecond, timeOf("mean service")}}
	most := slices.Max(append(gets.Values(c.measured()), 0))
	limits := func(of func(limit) float64) column {
		return column{Value: func(p Point) *float64 {
			l, ok := c.sweep.limitOf(p)
			return view.When(ok && l.getsPerSecond <= 20*most, of(l))
		}}
	}
	for i, name := range c.entrants() {
		of := c.of(name)
		set := view.BarSet{Name: name, Color: view.CurveStyle(i).Color, Spans: make([]view.Range, len(stops)), Failed: make([]bool, len(stops))}
		set.Values = valuesAt(stops, c.x, of.measured(), gets, latency("mean", service, meanOf))
		set.Limits = valuesAt(stops, c.x, of.measured(), limits(func(l limit) float64 { return l.getsPerSecond }),
			limits(func(l limit) float64 { return l.nanosPerGet }))
		failed := 0
		for _, p := range of.pts {
			at := slices.Index(stops, p.Axes[c.x])
			set.Spans[at] = view.Range(p.Spread["gets_per_second"])
			if set.Failed[at] = set.Values[0][at] <= 0 || !view.Sane(set.Values[0][at]); set.Failed[at] {
				failed++
			}
		}
		if failed > 0 && failed < len(of.pts) {
			set.Name += fmt.Sprintf(" (%d failed)", failed)
		}
		bars.Sets = append(bars.Sets, set)
	}
	return bars.Chart(nil)
}

// typeColor is a block type's colour, the same in every chart.
func typeColor(kind engine.BlockType) view.Color {
	colors := map[engine.BlockType]view.Color{engine.Filter: view.Blue, engine.TopIndex: view.Sky, engine.Index: view.Orange, engine.Data: view.Green,
		engine.Value: view.Purple, engine.Meta: view.Grey, engine.SingleIndex: view.Yellow}
	return cmp.Or(colors[kind], view.Vermilion) // page
}

// typeLook is a type's line; shapes tell types apart in black and white.
func typeLook(kind engine.BlockType) view.Style {
	shapes := []view.Shape{view.Circle, view.Ring, view.Box, view.Pyramid, view.Plus, view.Cross, view.Triangle, view.Square}
	return view.Style{Color: typeColor(kind), Shape: shapes[int(kind)%len(shapes)]}
}

// typeLabel is a block type in a legend or a header.
func typeLabel(kind engine.BlockType) string {
	labels := map[engine.BlockType]string{engine.TopIndex: "top index", engine.SingleIndex: "single index", engine.Meta: "table open"}
	return cmp.Or(labels[kind], kind.String())
}
