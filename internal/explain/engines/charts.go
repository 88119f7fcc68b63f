package engines

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// stackOrder is from the bottom up: what every lookup must pay first.
func stackOrder() []engine.BlockType {
	return []engine.BlockType{engine.Data, engine.Value, engine.Page, engine.Index,
		engine.SingleIndex, engine.TopIndex, engine.Filter, engine.Meta}
}

// typesIn are the types of which any point has something to show.
func typesIn(pts []Point, of func(result.Figures) map[string]float64) []engine.BlockType {
	return doc.Where(stackOrder(), func(kind engine.BlockType) bool {
		return slices.ContainsFunc(pts, func(p Point) bool {
			return of(p.Figures)[kind.String()] >= minimum
		})
	})
}

// minimum is what a chart can show of a type, in reads per Get or as a share.
const minimum = 0.0005

func readsByType(f result.Figures) map[string]float64 { return f.BlockReadsPerGetByType }
func hitsByType(f result.Figures) map[string]float64  { return f.HitRate }

// deviceLook is the look of the device's account.
func deviceLook() doc.Style {
	return doc.Style{Color: typeColor(engine.Page), Dash: doc.Dashed(), Shape: doc.Pyramid}
}

// sizes is an axis of caches of the sweep's database.
func (s *Sweep) sizes() doc.Axis { return doc.Sizes(float64(s.Database.Bytes)) }

// markInflection marks the inflection points that are near the caches of a chart: solid
// at the cache that holds them beside reserved bytes of memtables, dashed at their size on
// disk; one where they are the same.
func markInflection(c *doc.Chart, i *result.Inflection, reserved int64) {
	if i == nil {
		return
	}

	low, high := c.SpanX()
	mark := func(name string, bytes int64, dashed bool) {
		if v := float64(bytes); v >= low/4 && v <= high*4 {
			c.Marks = append(c.Marks, doc.Mark{X: v, Name: name, Color: doc.Ink, Dashed: dashed})
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

var readsPerGet = doc.Axis{Label: "block reads per Get"}

// readsChart is the main chart: block reads per Get by cache size, stacked by
// type, with the inflection points, the device's account and the prediction.
func readsChart(c curve) *doc.Chart {
	pts := c.withReads()
	if len(pts) < 2 {
		return nil
	}

	chart, panel := doc.OnePanel("block reads per Get by cache size, stacked by block type",
		c.sweep.sizes(), readsPerGet)
	for _, kind := range slices.Backward(typesIn(pts, readsByType)) {
		reads := column{Value: func(p Point) *float64 {
			return doc.Some(p.Figures.BlockReadsPerGetByType[kind.String()])
		}}
		panel.Area(typeLabel(kind), reads.Against(cacheBytes, pts), typeColor(kind))
	}

	predicted := predictedIn(c.sweep.Predicted, float64(pts[0].CacheBytes),
		float64(pts[len(pts)-1].CacheBytes))
	panel.Line("predicted", predicted, doc.Style{Color: doc.Muted, Dash: doc.Dashed(), Band: true})
	panel.Line("device reads", deviceReads.Against(cacheBytes, pts), deviceLook())
	if !panel.Line("measured", spread(pts, cacheBytes, blockReads, figure.BlockReadsPerGet.Key),
		doc.Style{Color: doc.Ink, Shape: doc.Circle, Width: 1.4}) {
		return nil
	}

	markInflection(chart, c.sweep.Inflection, reservedOf(c.pts))
	labels(panel, pts, func(p Point) string {
		return doc.PerGet(p.Figures.OrZero(figure.BlockReadsPerGet))
	})
	return chart
}

// labels are written above the block reads of points, or above their device reads.
func labels(panel *doc.Panel, pts []Point, text func(Point) string) {
	panel.Labels(doc.Each(pts, func(p Point) doc.XY {
		top := math.Max(p.Figures.OrZero(figure.BlockReadsPerGet),
			p.Figures.OrZero(figure.DeviceReadsPerGet))
		return doc.XY{X: float64(p.CacheBytes), Y: top, Text: text(p)}
	}))
}

// predictedIn is the predicted line with its range between two cache sizes.
func predictedIn(predicted []result.PredictedPoint, low, high float64) (line doc.XYs) {
	for _, g := range predicted {
		if x := float64(g.CacheBytes); x >= low && x <= high {
			line = append(line, doc.XY{X: x, Y: g.BlockReadsPerGet, Low: g.Low, High: g.High})
		}
	}
	return line
}

// spread are figures with the range of their repeats.
func spread(pts []Point, x, y column, name string) (xys doc.XYs) {
	for _, p := range pts {
		if a, b := x.Value(p), y.Value(p); a != nil && b != nil {
			r := p.Spread[name]
			xys = append(xys, doc.XY{X: *a, Y: *b, Low: r.Low, High: r.High})
		}
	}
	return xys
}

// readsColumns are the data of readsChart.
func (c curve) readsColumns() []column {
	types := doc.Each(typesIn(c.measured(), readsByType), func(kind engine.BlockType) column {
		return readsOf(typeLabel(kind), kind)
	})
	return append(append([]column{blockReads}, types...), repeats("over repeats", "low to high",
		figure.BlockReadsPerGet.Key, " to ", 1, doc.PerGet),
		deviceReads, c.sweep.predicted())
}

// typeBars stands for readsChart where the cache does not vary: a stacked bar for each
// value of the axis.
func typeBars(c curve) *doc.Chart {
	pts := c.having(func(p Point) bool {
		return p.Status == result.OK &&
			p.Figures.Has(figure.BlockReadsPerGet)
	})
	return stackedTypes("block reads per Get, stacked by block type", c.x, pts, c.pointName,
		func(p Point) map[string]float64 { return readsByType(p.Figures) })
}

// stackedTypes has a bar for each row, stacked by what it reads of each block type.
func stackedTypes[R any](
	about, x string, rows []R, name func(R) string, reads func(R) map[string]float64,
) *doc.Chart {
	bars := doc.Bars{
		About:   about,
		X:       x,
		Stacked: true,
		Panels:  []doc.Axis{readsPerGet},
		Groups:  doc.Each(rows, name),
	}

	for _, kind := range stackOrder() {
		values := doc.Each(rows, func(r R) float64 { return reads(r)[kind.String()] })
		if slices.ContainsFunc(values, func(v float64) bool { return v >= minimum }) {
			bars.Sets = append(bars.Sets, doc.BarSet{
				Name:   typeLabel(kind),
				Color:  typeColor(kind),
				Values: [][]float64{values},
			})
		}
	}

	return bars.Chart(doc.PerGet)
}

// hitRateChart is the hit rate of each block type by cache size.
func hitRateChart(c curve) *doc.Chart {
	pts := c.withReads()
	if len(pts) < 2 {
		return nil
	}

	return hitChart("hit rate of each block type by cache size", c.sweep.sizes(),
		typesIn(pts, hitsByType),
		func(kind engine.BlockType) doc.XYs {
			return hitRate("", kind.String()).Against(cacheBytes, pts)
		}, c.sweep.Inflection, reservedOf(c.pts))
}

// hitChart has a line for each type of blocks.
func hitChart(
	about string, x doc.Axis, kinds []engine.BlockType, line func(engine.BlockType) doc.XYs,
	i *result.Inflection, reserved int64,
) *doc.Chart {
	chart, panel := doc.OnePanel(about, x, doc.Percents("hit rate"))
	for n, kind := range kinds { // thinner and thinner: all that is cached has the same rate
		look := typeLook(kind)
		look.Width = doc.CurveStyle(n).Width
		panel.Line(typeLabel(kind), line(kind), look)
	}
	markInflection(chart, i, reserved)
	return chart.OrNil()
}

// deviceChart compares the device's account with the engine's.
func deviceChart(c curve) *doc.Chart {
	pts := c.withReads()
	device := spread(pts, cacheBytes, deviceReads, figure.DeviceReadsPerGet.Key)
	if len(device) < 2 {
		return nil
	}

	chart, panel := doc.OnePanel("device reads and block reads per Get by cache size",
		c.sweep.sizes(), doc.Axis{Label: "reads per Get"})
	panel.Line("block reads", blockReads.Against(cacheBytes, pts), doc.Style{
		Color: doc.Ink,
		Shape: doc.Circle,
		Width: 2.6,
	})

	panel.Line("device reads", device, deviceLook())
	labels(panel, doc.Where(pts, func(p Point) bool {
		return p.Figures.Has(figure.DeviceReadsPerGet) &&
			p.Figures.Has(figure.Agreement)
	}),
		func(p Point) string { return "×" + doc.Number(p.Figures.OrZero(figure.Agreement)) })

	return chart.OrNil()
}

// overlay draws one column of several curves. With more than one sweep the x axis is
// the share of the database, so that databases of any size compare.
func overlay(
	curves []curve, shares bool, title string, y column, axis doc.Axis, guess bool,
) *doc.Chart {
	chart, panel := doc.OnePanel(title,
		doc.Decades("cache size as a share of the database", doc.AsPercent), axis)
	x := cacheShare
	if !shares {
		x = cacheBytes
		chart.X = doc.Sizes(0)
	}

	drawn := 0
	var first curve
	alone := sameSweep(curves)
	for _, c := range curves {
		xys := y.Against(x, c.measured())
		if len(xys) == 0 || drawn == doc.MaxLines {
			continue
		}

		name, look := "", doc.CurveStyle(drawn)
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
			panel.Line(
				"predicted",
				doc.Each(c.sweep.Predicted, func(g result.PredictedPoint) doc.XY {
					if shares {
						return doc.XY{
							X: doc.PercentOf(g.CacheBytes, c.sweep.Database.Bytes),
							Y: g.BlockReadsPerGet,
						}
					}

					return doc.XY{X: float64(g.CacheBytes), Y: g.BlockReadsPerGet}
				}),
				doc.Style{Color: look.Color, Dash: doc.Dashed(), Width: 1.2, Guide: true},
			)
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
func curvesTable(curves []curve, ys ...column) doc.Table {
	alone := sameSweep(curves)
	rows := doc.Flat(curves, func(c curve) []ofCurve {
		return doc.Each(c.pts, func(p Point) ofCurve { return ofCurve{p, c} })
	})
	of := func(c column) doc.Column[ofCurve] {
		return doc.Column[ofCurve]{
			Name:   c.Name,
			Unit:   c.Unit,
			Format: c.Format,
			Per:    c.Per,
			Key:    c.Key,
			Value:  func(o ofCurve) *float64 { return c.Value(o.Point) },
		}
	}

	slices.SortStableFunc(rows, func(a, b ofCurve) int {
		if alone {
			return cmp.Compare(a.CacheBytes, b.CacheBytes)
		}
		return cmp.Compare(a.CachePercent, b.CachePercent)
	})

	columns := []doc.Column[ofCurve]{doc.Words("curve", func(o ofCurve) string {
		return o.of.name(alone)
	}),
		of(cacheBytes.Suited(pointsOf(curves))), of(cacheShare)}

	columns = append(columns, doc.Each(ys, of)...)
	if len(ys) > 1 && !alone {
		columns = append(columns,
			doc.Words("folder", func(o ofCurve) string { return o.of.sweep.Dir }))
	}

	return doc.TableOf(rows, func(o ofCurve) string { return failure(o.Point) }, columns...)
}

// latencyLines are as many as can be followed.
const latencyLines = 6

// latencyChart is the percentile curve of each point: x is the percentile, stretched
// towards 100, y the duration.
func latencyChart(c curve, kind string, of func(Point) *hdrhistogram.Histogram) *doc.Chart {
	pts := c.having(func(p Point) bool {
		return p.Status == result.OK && of(p) != nil && of(p).TotalCount() > 0
	})
	chart, panel := doc.OnePanel("distribution of "+kind+" times by percentile", doc.Percentiles(),
		doc.Axis{Label: kind + " time", Kind: doc.Logs, Format: doc.AsNanos})
	maximum := latencyLines
	if competes(c.x) {
		maximum = doc.MaxLines
	}

	chosen := doc.Spaced(len(pts), maximum)
	for n, i := range chosen {
		look := doc.RampStyle(n, len(chosen))
		// engines have no order for a ramp to show; colours as in the other charts
		if competes(c.x) {
			look.Color = doc.CurveStyle(slices.Index(c.stops(), pts[i].Axes[c.x])).Color
		}

		panel.Line(c.pointName(pts[i]), quantiles(of(pts[i])), look)
	}

	return chart.OrNil()
}

// quantiles samples a histogram evenly in -log10(1-q), as far as its count
// reaches.
func quantiles(h *hdrhistogram.Histogram) (xys doc.XYs) {
	last := math.Min(8, math.Log10(float64(h.TotalCount())))
	const step = 0.05
	for x := 0.0; x < last; x += step {
		xys = append(xys, doc.XY{X: x, Y: float64(h.ValueAtQuantile(100 * (1 - math.Pow(10, -x))))})
	}
	return append(xys, doc.XY{X: last, Y: float64(h.Max())})
}

// latencyColumns are the summaries of run.json: they are there even where the histogram
// is not.
func latencyColumns(c curve, of func(result.Figures) *result.Latency) []column {
	s := doc.TimeScale(latency("", of, p50Of).Values(c.measured()))
	samples := latency("samples", of, func(l *result.Latency) float64 { return float64(l.N) }).
		In(doc.Scale{
			Size: 1,
		})

	samples.Format = doc.Digits
	return []column{latency("p50", of, p50Of).In(s),
		latency("p90", of, func(l *result.Latency) float64 { return float64(l.P90) }).In(s),
		latency("p99", of, p99Of).In(s),
		latency("p99.9", of, func(l *result.Latency) float64 { return float64(l.P999) }).In(s),
		latency("max", of, func(l *result.Latency) float64 { return float64(l.Max) }).In(s),
		latency("mean", of, meanOf).In(s), samples}
}

// axisFigures are throughput and p99 along every axis that varies. The cache
// comes first: the other axes' figures then have a line for each cache.
func axisFigures(s *Sweep) (out []doc.Block) {
	axes := slices.Clone(s.varied)
	if at := slices.Index(axes, "cache"); at > 0 {
		axes = slices.Insert(slices.Delete(axes, at, at+1), 0, "cache")
	}

	for _, x := range axes {
		curves := s.curves(x)
		if s.compares() && s.comparisons()[0].comparesEngines() &&
			(competes(x) || len(curves[0].stops()) < 3) || x == "rate" {
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
			note += " Dotted: the most Gets/s that the disk allows (its reads/s with " +
				inFlight(s.Points) + " / device reads per Get)."
		}

		if left > 0 {
			note += " " + unit.Count(left) + " more lines are in the table only."
		}

		out = append(out, doc.Block{
			Title:  "Speed by " + x,
			Note:   note,
			Method: "figures.md",
			Chart:  chart,
			Table:  axisTable(x, curves),
		})
	}

	return out
}

// diskLimit is the line of the most Gets a second that the disk allows.
const diskLimit = "disk's limit"

// inFlight says how many reads are in flight in a disk's limit: as many as threads.
func inFlight(pts []Point) string {
	if n := pts[0].threads(); !slices.ContainsFunc(pts, func(p Point) bool {
		return p.threads() != n
	}) {
		return fmt.Sprintf("%d in flight", n)
	}
	return "one in flight for each thread"
}

// axisTable has a row per point of every curve.
func axisTable(x string, curves []curve) doc.Table {
	var pts []Point
	labels, first := map[string]string{}, map[string]float64{}
	for _, c := range curves {
		for _, p := range c.pts {
			if pts = append(pts, p); first[c.label] == 0 && p.Status == result.OK {
				first[c.label] = p.Figures.OrZero(figure.GetsPerSecond)
			}
			labels[pointLabel(p)] = c.label
		}
	}

	return doc.TableOf(
		pts,
		failure,
		doc.Words("curve", func(p Point) string { return labels[pointLabel(p)] }),
		axis(x),
		gets,
		column{Name: "x first row", Value: func(p Point) *float64 {
			of := first[labels[pointLabel(p)]]
			return doc.When(of > 0, p.Figures.OrZero(figure.GetsPerSecond)/of)
		}},
		latency("p50", service, p50Of),
		latency("p99", service, p99Of),
		cpuPercent.Named("CPU", "% of all cores"),
		cpuTime,
		columnOf(figure.InFlight),
	)
}

// axisChart draws both panels; left is how many curves found no room.
func axisChart(x string, curves []curve) (chart *doc.Chart, left int) {
	p99 := latency("p99", service, p99Of)
	place, places := axisPlaces(x, curves)
	if place == nil {
		return axisBars(x, curves), 0
	}

	along := doc.Places(x, places, doc.AsCount)
	if x == "cache" {
		along = doc.Sizes(0)
	}

	chart = doc.NewChart("Gets per second and p99 service time by "+x, along, orLog(getsASecond),
		orLog(timeOf("p99 service")))
	chart.Beside = true
	speed, slow := chart.Panels[0], chart.Panels[1]
	at := column{Value: place}
	drawn := 0
	for i, c := range curves {
		pts := c.measured()
		xys := spread(pts, at, gets, figure.GetsPerSecond.Key)
		if len(xys) == 0 {
			continue
		}

		if drawn == doc.MaxLines {
			left++
			continue
		}

		look, name := doc.CurveStyle(i), "measured"
		if len(curves) > 1 {
			name = c.name(true)
		}

		if first := xys[0]; x == "threads" && drawn == 0 && len(xys) > 1 {
			last := xys[len(xys)-1]
			speed.Line(
				"scaled",
				doc.XYs{{X: first.X, Y: first.Y}, {X: last.X, Y: first.Y * last.X / first.X}},
				doc.Style{Color: doc.Muted, Dash: doc.Dashed(), Width: 1.2, Guide: true},
			)
		}

		speed.Line(name, xys, look)
		slow.Line(name, p99.Against(at, pts), look)
		speed.Line(diskLimit, c.ceiling(at, 20*slices.Max(gets.Values(pts))), doc.Style{
			Color: look.Color,
			Dash:  doc.Dotted(),
			Width: 1.4,
		})

		drawn++
	}

	return chart.OrNil(), left
}

var getsASecond = doc.Axis{Label: "Gets per second", Format: doc.AsCount}

func timeOf(what string) doc.Axis { return doc.Axis{Label: what + " time", Format: doc.AsNanos} }

// orLog is the axis, logarithmic where its values span enough for it.
func orLog(a doc.Axis) doc.Axis {
	a.Kind = doc.Logs
	return a
}

// ceiling is the disk's limit along a curve, where it is not above most.
func (c curve) ceiling(x column, maximum float64) (xys doc.XYs) {
	for _, p := range c.measured() {
		if l, ok := c.sweep.limitOf(p); ok && l.getsPerSecond <= maximum && x.Value(p) != nil {
			xys = append(xys, doc.XY{X: *x.Value(p), Y: l.getsPerSecond})
		}
	}
	return xys
}

func pointsOf(curves []curve) []Point {
	return doc.Flat(curves, func(c curve) []Point { return c.pts })
}

// axisPlaces says where a point is on x, and all places; nil where its values are not
// positive numbers.
func axisPlaces(x string, curves []curve) (place func(Point) *float64, places []float64) {
	place = func(p Point) *float64 {
		if x == "cache" {
			return doc.When(p.CacheBytes > 0, float64(p.CacheBytes))
		}
		n, err := unit.ParseCount(p.Axes[x])
		return doc.When(err == nil && n > 0, float64(n))
	}

	pts := pointsOf(curves)
	if places = (column{Value: place}).Values(pts); len(places) < len(pts) {
		return nil, nil
	}

	return place, places
}

// axisBars draws a group of bars per value of x, a bar per curve.
func axisBars(x string, curves []curve) *doc.Chart {
	bars := doc.Bars{About: "Gets per second and p99 service time by " + x, X: x, Beside: true,
		Panels: []doc.Axis{getsASecond, timeOf("p99 service")}}
	bars.Groups = curve{x: x, pts: pointsOf(curves)}.stops()
	for i, c := range curves {
		set := doc.BarSet{Color: doc.CurveStyle(i).Color}
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
func (c curve) enginesChart() *doc.Chart {
	stops := c.stops()
	bars := doc.Bars{
		About:  "Gets per second and mean service time by engine",
		X:      c.x,
		Groups: stops,
		Panels: []doc.Axis{getsASecond, timeOf("mean service")},
	}

	maximum := slices.Max(append(gets.Values(c.measured()), 0))
	limits := func(of func(limit) float64) column {
		return column{Value: func(p Point) *float64 {
			l, ok := c.sweep.limitOf(p)
			return doc.When(ok && l.getsPerSecond <= 20*maximum, of(l))
		}}
	}

	for i, name := range c.entrants() {
		of := c.of(name)
		set := doc.BarSet{
			Name:   name,
			Color:  doc.CurveStyle(i).Color,
			Spans:  make([]doc.Range, len(stops)),
			Failed: make([]bool, len(stops)),
		}

		set.Values = valuesAt(stops, c.x, of.measured(), gets, latency("mean", service, meanOf))
		set.Limits = valuesAt(
			stops,
			c.x,
			of.measured(),
			limits(func(l limit) float64 { return l.getsPerSecond }),
			limits(func(l limit) float64 { return l.nanosPerGet }),
		)

		failed := 0
		for _, p := range of.pts {
			at := slices.Index(stops, p.Axes[c.x])
			set.Spans[at] = doc.Range(p.Spread[figure.GetsPerSecond.Key])
			if set.Failed[at] = set.Values[0][at] <= 0 ||
				!doc.Sane(set.Values[0][at]); set.Failed[at] {
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
func typeColor(kind engine.BlockType) doc.Color {
	colors := map[engine.BlockType]doc.Color{
		engine.Filter:      doc.Blue,
		engine.TopIndex:    doc.Sky,
		engine.Index:       doc.Orange,
		engine.Data:        doc.Green,
		engine.Value:       doc.Purple,
		engine.Meta:        doc.Grey,
		engine.SingleIndex: doc.Yellow,
	}

	return cmp.Or(colors[kind], doc.Vermilion) // page
}

// typeLook is a type's line; shapes tell types apart in black and white.
func typeLook(kind engine.BlockType) doc.Style {
	shapes := []doc.Shape{doc.Circle, doc.Ring, doc.Box, doc.Pyramid, doc.Plus, doc.Cross,
		doc.Triangle, doc.Square}
	return doc.Style{Color: typeColor(kind), Shape: shapes[int(kind)%len(shapes)]}
}

// typeLabel is a block type in a legend or a header.
func typeLabel(kind engine.BlockType) string {
	labels := map[engine.BlockType]string{
		engine.TopIndex:    "top index",
		engine.SingleIndex: "single index",
		engine.Meta:        "table open",
	}
	return cmp.Or(labels[kind], kind.String())
}
