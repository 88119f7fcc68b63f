package engines

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

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
	return slices.DeleteFunc(stackOrder(), func(kind engine.BlockType) bool {
		return !slices.ContainsFunc(pts, func(p Point) bool { return of(p.Figures)[kind.String()] >= 0.0005 })
	})
}

func readsByType(f result.Figures) map[string]float64 { return f.BlockReadsPerGetByType }
func hitsByType(f result.Figures) map[string]float64  { return f.HitRate }

// deviceLook is the look of the device's account.
func deviceLook() view.Style {
	return view.Style{Color: typeColor(engine.Page), Dash: view.Dashed(), Shape: draw.PyramidGlyph{}, Says: "device reads per Get"}
}

// onCaches sets the x axis to the points' caches and, where they are near, the
// inflection points.
func (c curve) onCaches(pic *view.Picture) {
	pic.Sizes(float64(c.sweep.Database.Bytes), markInflection(pic, c.sweep.Inflection, reservedOf(c.pts))...)
}

// markInflection marks the inflection points that are near the caches of a picture: solid
// at the cache that holds them beside reserved bytes of memtables, dashed at their size on
// disk; one where they are the same. It returns their places.
func markInflection(pic *view.Picture, i *result.Inflection, reserved int64) (also []float64) {
	if i == nil {
		return nil
	}
	low, high := pic.SpanX()
	mark := func(name string, bytes int64, dashed bool) {
		if v := float64(bytes); v >= low/4 && v <= high*4 {
			also = append(also, v)
			pic.Marks = append(pic.Marks, view.Mark{X: v, Name: name, Color: view.Ink, Dashed: dashed})
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
	return also
}

// logChart is a picture of one panel over a logarithmic x axis.
func logChart(about, y string) (*view.Picture, *view.Panel) {
	pic := view.NewPicture(about, y)
	pic.LogX = true
	return pic, pic.Panels[0]
}

// readsChart is the main chart: block reads per Get by cache size, stacked by
// type, with the inflection points, the device's account and the prediction.
func readsChart(c curve) *view.Picture {
	pts := c.withReads()
	if len(pts) < 2 {
		return nil
	}
	pic, panel := logChart("block reads per Get by cache size, stacked by block type", "block reads per Get")
	base := make([]float64, len(pts))
	kinds := typesIn(pts, readsByType)
	var areas []func()
	for _, kind := range kinds {
		outline := make(view.XYs, 2*len(pts))
		for i, p := range pts {
			top := base[i] + p.Figures.BlockReadsPerGetByType[kind.String()]
			outline[i] = view.XY{X: float64(p.CacheBytes), Y: top}
			outline[2*len(pts)-1-i] = view.XY{X: float64(p.CacheBytes), Y: base[i]}
			base[i] = top
		}
		areas = append(areas, func() { panel.Area(typeLabel(kind), outline, view.Faded(typeColor(kind), 0xd0)) })
	}
	for _, area := range slices.Backward(areas) { // the legend reads as the stack does, from the top
		area()
	}
	band, middle := predictedIn(c.sweep.Predicted, float64(pts[0].CacheBytes), float64(pts[len(pts)-1].CacheBytes))
	panel.Area("predicted, range", band, view.Faded(view.Muted, 0x40))
	panel.Line("predicted", middle, view.Style{Color: view.Muted, Dash: view.Dashed(), Width: vg.Points(1.6)})
	device, total := deviceReads.Against(cacheBytes, pts), blockReads.Against(cacheBytes, pts)
	panel.Line("device reads", device, deviceLook())
	if !panel.Line("measured", total, view.Style{Color: view.Ink, Shape: draw.CircleGlyph{}, Width: vg.Points(1.4)}) {
		return nil
	}
	c.onCaches(pic)
	panel.FitY(nil)
	spread(panel, pts, cacheBytes, blockReads, "block_reads_per_get", view.Ink)
	labels(panel, pts, func(p Point) string { return view.PerGet(*p.Figures.BlockReadsPerGet) })
	return pic
}

// labels are written above the block reads of points, or above their device reads.
func labels(panel *view.Panel, pts []Point, text func(Point) string) {
	var at view.XYs
	var texts []string
	for _, p := range pts {
		top := *p.Figures.BlockReadsPerGet
		if d := p.Figures.DeviceReadsPerGet; d != nil {
			top = math.Max(top, *d)
		}
		at, texts = append(at, view.XY{X: float64(p.CacheBytes), Y: top}), append(texts, text(p))
	}
	panel.Labels(at, texts)
}

// predictedIn is the predicted line and the outline of its band between two cache
// sizes; no band where low and high are the same.
func predictedIn(predicted []result.PredictedPoint, low, high float64) (band, middle view.XYs) {
	var lower view.XYs
	wide := false
	for _, g := range predicted {
		x := float64(g.CacheBytes)
		if x < low || x > high {
			continue
		}
		middle, band, lower = append(middle, view.XY{X: x, Y: g.BlockReadsPerGet}), append(band, view.XY{X: x, Y: g.High}), append(lower, view.XY{X: x, Y: g.Low})
		wide = wide || g.High > g.Low
	}
	slices.Reverse(lower)
	if !wide || len(middle) < 2 {
		return nil, middle
	}
	return append(band, lower...), middle
}

// spread draws error bars from the least to the greatest repeat.
func spread(panel *view.Panel, pts []Point, x, y column, name string, c color.RGBA) {
	var at view.XYs
	var ranges []view.Range
	for _, p := range pts {
		if r, ok := p.Spread[name]; ok && x.Value(p) != nil && y.Value(p) != nil {
			at, ranges = append(at, view.XY{X: *x.Value(p), Y: *y.Value(p)}), append(ranges, view.Range(r))
		}
	}
	axes := [2]struct{ low, high float64 }{{panel.X.Min, panel.X.Max}, {panel.Y.Min, panel.Y.Max}}
	panel.Spread(at, ranges, c)
	panel.X.Min, panel.X.Max, panel.Y.Min, panel.Y.Max = axes[0].low, axes[0].high, axes[1].low, axes[1].high
}

// readsColumns are the data of readsChart.
func (c curve) readsColumns() []column {
	columns := []column{blockReads}
	for _, kind := range typesIn(c.measured(), readsByType) {
		columns = append(columns, readsOf(typeLabel(kind), kind))
	}
	return append(columns, repeats("over repeats", "low to high", "block_reads_per_get", " to ", 1, view.PerGet), deviceReads, c.sweep.predicted())
}

// typeBars stands for readsChart where the cache does not vary: a stacked bar for each
// value of the axis.
func typeBars(c curve) *view.Picture {
	pts := c.having(func(p Point) bool { return p.Status == result.OK && p.Figures.BlockReadsPerGet != nil })
	bars := view.Bars{About: "block reads per Get, stacked by block type", X: c.x, Stacked: true, Panels: []view.BarPanel{{Y: "block reads per Get"}}}
	for _, p := range pts {
		bars.Groups = append(bars.Groups, c.pointName(p))
	}
	for _, kind := range typesIn(pts, readsByType) {
		set := view.BarSet{Name: typeLabel(kind), Color: typeColor(kind), Values: [][]float64{nil}}
		for _, p := range pts {
			set.Values[0] = append(set.Values[0], p.Figures.BlockReadsPerGetByType[kind.String()])
		}
		bars.Sets = append(bars.Sets, set)
	}
	return bars.Picture(view.PerGet)
}

// hitRateChart is the hit rate of each block type by cache size.
func hitRateChart(c curve) *view.Picture {
	pts := c.withReads()
	if len(pts) < 2 {
		return nil
	}
	pic, panel := logChart("hit rate of each block type by cache size", "hit rate, %")
	for _, kind := range typesIn(pts, hitsByType) {
		look := view.Style{Color: typeColor(kind), Shape: typeShape(kind)}
		panel.Line(typeLabel(kind), hitRate("", kind.String()).Against(cacheBytes, pts), look)
	}
	if !pic.Drawn() {
		return nil
	}
	c.onCaches(pic)
	panel.FitPercents()
	return pic
}

// deviceChart compares the device's account with the engine's.
func deviceChart(c curve) *view.Picture {
	pts := c.withReads()
	device := deviceReads.Against(cacheBytes, pts)
	if len(device) < 2 {
		return nil
	}
	pic, panel := logChart("device reads and block reads per Get by cache size", "reads per Get")
	panel.Line("block reads", blockReads.Against(cacheBytes, pts), view.Style{Color: view.Ink, Shape: draw.CircleGlyph{}, Says: "block reads per Get"})
	panel.Line("device reads", device, deviceLook())
	if !pic.Drawn() {
		return nil
	}
	pic.Sizes(float64(c.sweep.Database.Bytes))
	panel.FitY(nil)
	spread(panel, pts, cacheBytes, deviceReads, "device_reads_per_get", typeColor(engine.Page))
	labels(panel, slices.DeleteFunc(pts, func(p Point) bool { return p.Figures.DeviceReadsPerGet == nil || p.Figures.Agreement == nil }),
		func(p Point) string { return "×" + view.Number(*p.Figures.Agreement) })
	return pic
}

// overlay draws one column of several curves. With more than one sweep the x axis is
// the share of the database, so that databases of any size compare. A line that another
// covers is seen: later ones are thinner.
func overlay(curves []curve, shares bool, title string, y column, axis string, guess bool) *view.Picture {
	pic, panel := logChart(title, axis)
	x := cacheBytes
	if shares {
		x = cacheShare
	}
	var drawn []curve
	alone := sameSweep(curves)
	for _, c := range curves {
		xys := y.Against(x, c.measured())
		if len(xys) == 0 || len(drawn) == view.MaxLines {
			continue
		}
		name, look := "", view.CurveStyle(len(drawn))
		if len(curves) > 1 {
			name = c.name(alone)
		}
		look.Width = vg.Points(math.Max(1.2, 3-0.6*float64(len(drawn))))
		if !panel.Line(name, xys, look) {
			continue
		}
		drawn = append(drawn, c)
		var guesses view.XYs
		for _, g := range c.sweep.Predicted {
			at := view.XY{X: float64(g.CacheBytes), Y: g.BlockReadsPerGet}
			if shares {
				at.X = view.PercentOf(g.CacheBytes, c.sweep.Database.Bytes)
			}
			guesses = append(guesses, at)
		}
		if guess {
			panel.Line("  predicted", guesses, view.Style{Color: look.Color, Dash: view.Dashed(), Width: vg.Points(1.2), Guide: true})
		}
	}
	if low, high := pic.SpanX(); !(high > low) {
		return nil
	}
	if shares {
		pic.Decades("cache size as a share of the database", view.ShortPercent)
	} else {
		drawn[0].onCaches(pic)
	}
	if panel.FitY(nil); strings.HasSuffix(axis, "%") {
		panel.FitPercents()
	}
	return pic
}

// ofCurve is a point with its curve.
type ofCurve struct {
	Point
	of curve
}

// curvesTable has the points of all curves below each other, ordered by cache, so that
// those of the same size are next to each other. Folders tell curves of one name apart.
func curvesTable(curves []curve, ys ...column) view.Table {
	var rows []ofCurve
	alone := sameSweep(curves)
	for _, c := range curves {
		for _, p := range c.pts {
			rows = append(rows, ofCurve{p, c})
		}
	}
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
	for _, y := range ys {
		columns = append(columns, of(y))
	}
	if len(ys) > 1 && !alone {
		columns = append(columns, view.Words("folder", func(o ofCurve) string { return o.of.sweep.Dir }))
	}
	return view.TableOf(rows, func(o ofCurve) string { return failure(o.Point) }, columns...)
}

// latencyLines are as many as can be followed.
const latencyLines = 6

// latencyChart is the percentile curve of each point: x is the percentile, stretched
// towards 100, y the duration.
func latencyChart(c curve, kind string, of func(Point) *hdrhistogram.Histogram) *view.Picture {
	pts := c.having(func(p Point) bool { return p.Status == result.OK && of(p) != nil && of(p).TotalCount() > 0 })
	pic := view.NewPicture("distribution of "+kind+" times by percentile", kind+" time")
	panel := pic.Panels[0]
	panel.LogY = true
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
	if !pic.Drawn() {
		return nil
	}
	pic.Percentiles()
	panel.FitY(view.ShortNanos)
	return pic
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
		pic, left := axisChart(x, curves)
		if pic == nil {
			continue
		}
		note := "Gets per second and the 99th percentile of service time, by " + x + "."
		if x == "threads" {
			note += " Dashed: the first point of the first line, scaled."
		}
		if slices.Contains(pic.Legend(), diskLimit) {
			note += " Dotted: the most Gets/s that the disk allows (its reads/s with " + inFlight(s.Points) + " / device reads per Get)."
		}
		if left > 0 {
			note += " " + unit.Count(left) + " more lines are in the table only."
		}
		out = append(out, view.Block{Title: "Speed by " + x, Note: note, Method: "reads.md", Picture: pic, Table: axisTable(x, curves)})
	}
	return out
}

// diskLimit is the line of the most Gets a second that the disk allows.
const diskLimit = "  disk's limit"

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
			if of := first[labels[pointLabel(p)]]; of > 0 {
				return view.Some(p.Figures.GetsPerSecond / of)
			}
			return nil
		}},
		latency("p50", service, p50Of), latency("p99", service, p99Of), cpuPercent.Named("CPU", "% of all cores"), cpuTime,
		figure("in flight", "", nil, func(f result.Figures) *float64 { return view.Of(f.InFlight) }))
}

// axisChart draws both panels; left is how many curves found no room.
func axisChart(x string, curves []curve) (pic *view.Picture, left int) {
	p99 := latency("p99", service, p99Of)
	place, places := axisPlaces(x, curves)
	if place == nil {
		return axisBars(x, curves), 0
	}
	pic = view.NewPicture("Gets per second and p99 service time by "+x, "Gets per second", "p99 service time")
	pic.Beside, pic.LogX = true, true
	speed, slow := pic.Panels[0], pic.Panels[1]
	speed.LogY, slow.LogY = true, true
	at := column{Value: place}
	drawn := 0
	for i, c := range curves {
		pts := c.measured()
		xys := gets.Against(at, pts)
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
			speed.Line("scaled", view.XYs{first, {X: last.X, Y: first.Y * last.X / first.X}},
				view.Style{Color: view.Muted, Dash: view.Dashed(), Width: vg.Points(1.2), Guide: true})
		}
		speed.Line(name, xys, look)
		slow.Line("", p99.Against(at, pts), look)
		speed.Line(diskLimit, c.ceiling(at, 20*slices.Max(gets.Values(pts))), view.Style{Color: look.Color, Dash: view.Dotted(), Width: vg.Points(1.4)})
		spread(speed, pts, at, gets, "gets_per_second", look.Color)
		drawn++
	}
	if drawn == 0 {
		return nil, 0
	}
	speed.FitY(view.ShortCount)
	slow.FitY(view.ShortNanos)
	if !pic.Drawn() {
		return nil, 0
	}
	if x == "cache" {
		pic.Sizes(0)
	} else {
		pic.Places(x, places, view.ShortCount)
	}
	return pic, left
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

func pointsOf(curves []curve) (all []Point) {
	for _, c := range curves {
		all = append(all, c.pts...)
	}
	return all
}

// axisPlaces says where a point is on x, and all places; nil where its values are not
// positive numbers.
func axisPlaces(x string, curves []curve) (place func(Point) *float64, places []float64) {
	place = func(p Point) *float64 {
		if x == "cache" {
			return view.Of(p.CacheBytes)
		}
		n, err := unit.ParseCount(p.Axes[x])
		if err != nil {
			return nil
		}
		return view.Of(n)
	}
	pts := pointsOf(curves)
	if places = (column{Value: place}).Values(pts); len(places) < len(pts) {
		return nil, nil
	}
	return place, places
}

// axisBars draws a group of bars per value of x, a bar per curve.
func axisBars(x string, curves []curve) *view.Picture {
	bars := view.Bars{About: "Gets per second and p99 service time by " + x, X: x, Beside: true,
		Panels: []view.BarPanel{{Y: "Gets per second", Tick: view.ShortCount}, {Y: "p99 service time", Tick: view.ShortNanos}}}
	bars.Groups = curve{x: x, pts: pointsOf(curves)}.stops()
	for i, c := range curves {
		set := view.BarSet{Color: view.CurveStyle(i).Color}
		if len(curves) > 1 {
			set.Name = c.name(sameSweep(curves))
		}
		set.Values = valuesAt(bars.Groups, c.x, c.measured(), gets, latency("p99", service, p99Of))
		bars.Sets = append(bars.Sets, set)
	}
	return bars.Picture(nil)
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
func (c curve) enginesChart() *view.Picture {
	stops := c.stops()
	bars := view.Bars{About: "Gets per second and mean service time by engine", X: c.x, Groups: stops,
		Panels: []view.BarPanel{{Y: "Gets per second", Tick: view.ShortCount}, {Y: "mean service time", Tick: view.ShortNanos}}}
	most := slices.Max(append(gets.Values(c.measured()), 0))
	limits := func(of func(limit) float64) column {
		return column{Value: func(p Point) *float64 {
			if l, ok := c.sweep.limitOf(p); ok && l.getsPerSecond <= 20*most {
				return view.Of(of(l))
			}
			return nil
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
	return bars.Picture(nil)
}

// typeColor is a block type's colour, the same in every picture. Eight colours
// that readers with any kind of colour vision can tell apart (Okabe and Ito,
// "Color Universal Design", 2008), with a darker yellow.
func typeColor(kind engine.BlockType) color.RGBA {
	colors := map[engine.BlockType]color.RGBA{
		engine.Filter:      {0x00, 0x72, 0xb2, 0xff}, // blue
		engine.TopIndex:    {0x56, 0xb4, 0xe9, 0xff}, // sky
		engine.Index:       {0xe6, 0x9f, 0x00, 0xff}, // orange
		engine.Data:        {0x00, 0x9e, 0x73, 0xff}, // green
		engine.Value:       {0xcc, 0x79, 0xa7, 0xff}, // purple
		engine.Meta:        {0x99, 0x99, 0x99, 0xff}, // grey
		engine.SingleIndex: {0xc9, 0xb8, 0x00, 0xff}, // yellow
	}
	return cmp.Or(colors[kind], color.RGBA{0xd5, 0x5e, 0x00, 0xff}) // vermilion: page
}

// typeShape tells types apart in black and white.
func typeShape(kind engine.BlockType) draw.GlyphDrawer {
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{},
		draw.TriangleGlyph{}, draw.SquareGlyph{}}
	return shapes[int(kind)%len(shapes)]
}

// typeLabel is a block type in a legend or a header.
func typeLabel(kind engine.BlockType) string {
	labels := map[engine.BlockType]string{engine.TopIndex: "top index", engine.SingleIndex: "single index", engine.Meta: "table open"}
	return cmp.Or(labels[kind], kind.String())
}
