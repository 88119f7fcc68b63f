package report

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// figure is one chart of the page with what belongs to it.
type figure struct {
	title  string
	note   string // how to read it
	method string // the page that defines its numbers
	pic    *picture
	table  table
}

// stackOrder is from the bottom up: what every lookup must pay first.
func stackOrder() []engine.BlockType {
	return []engine.BlockType{engine.Data, engine.Value, engine.Page, engine.Index, engine.SingleIndex, engine.TopIndex, engine.Filter, engine.Meta}
}

// typesIn are the types of which any point has something to show.
func typesIn(pts []Point, of func(result.Figures) map[string]float64) []engine.BlockType {
	var found []engine.BlockType
	for _, kind := range stackOrder() {
		for _, p := range pts {
			if of(p.Figures)[kind.String()] >= 0.0005 {
				found = append(found, kind)
				break
			}
		}
	}
	return found
}

func readsByType(f result.Figures) map[string]float64 { return f.BlockReadsPerGetByType }

// withReads are the measured points that can stand on a cache axis.
func (c curve) withReads() []Point {
	var ok []Point
	for _, p := range c.measured() {
		if p.Figures.BlockReadsPerGet != nil && p.CacheBytes > 0 {
			ok = append(ok, p)
		}
	}
	return ok
}

// readsChart is the main chart: block reads per Get by cache size, stacked by
// type, with the inflection points, the device's account and the prediction.
func readsChart(c curve) *picture {
	pts := c.withReads()
	if len(pts) < 2 {
		return nil
	}
	panel := newPanel("block reads per Get")
	pic := &picture{about: "block reads per Get by cache size, stacked by block type", panels: []*plot.Plot{panel}, height: pictureHeight}
	cacheAxis(c, panel, pts)
	pic.marks = &marks{list: inflectionMarks(c.sweep.Inflection, panel.X.Min, panel.X.Max)}

	band, predicted := predictedIn(c.sweep.Predicted, panel.X.Min, panel.X.Max)
	device := perPoint(pts, func(f result.Figures) *float64 { return f.DeviceReadsPerGet })
	total := perPoint(pts, func(f result.Figures) *float64 { return f.BlockReadsPerGet })
	linear(&panel.Y, 1.06*math.Max(math.Max(highest(total), highest(device)), math.Max(highest(predicted), highest(band))))

	stack := stackAreas(panel, pts)
	for i := len(stack) - 1; i >= 0; i-- { // the legend reads as the stack does, from the top
		pic.add(stack[i].name, stack[i].thumb...)
	}
	if len(band) > 0 {
		pic.add("predicted, range", area(panel, band, faded(muted, 0x40)))
	}
	if len(predicted) > 0 {
		pic.add("predicted", line(panel, predicted, style{color: muted, dash: dashed(), width: vg.Points(1.6)})...)
	}
	if len(device) > 0 {
		pic.add("device reads", line(panel, device, style{color: typeColor(engine.Page), dash: dashed(), shape: draw.PyramidGlyph{}})...)
	}
	panel.Add(pic.marks)
	pic.add("measured", line(panel, total, style{color: ink, shape: draw.CircleGlyph{}, width: vg.Points(1.4)})...)
	spread(panel, pts, "block_reads_per_get", func(f result.Figures) *float64 { return f.BlockReadsPerGet }, ink)
	labels := &valueLabels{beside: pic.marks}
	for _, p := range pts {
		top := *p.Figures.BlockReadsPerGet
		if d := p.Figures.DeviceReadsPerGet; d != nil {
			top = math.Max(top, *d)
		}
		labels.at = append(labels.at, plotter.XY{X: float64(p.CacheBytes), Y: top})
		labels.texts = append(labels.texts, perGet(*p.Figures.BlockReadsPerGet))
	}
	panel.Add(labels)
	return pic
}

// stackAreas draws one area per type on top of each other.
func stackAreas(panel *plot.Plot, pts []Point) []legendEntry {
	base := make([]float64, len(pts))
	var entries []legendEntry
	for _, kind := range typesIn(pts, readsByType) {
		outline := make(plotter.XYs, 2*len(pts))
		for i, p := range pts {
			top := base[i] + p.Figures.BlockReadsPerGetByType[kind.String()]
			outline[i] = plotter.XY{X: float64(p.CacheBytes), Y: top}
			outline[2*len(pts)-1-i] = plotter.XY{X: float64(p.CacheBytes), Y: base[i]}
			base[i] = top
		}
		if len(finite(outline, true, false)) < len(outline) {
			continue
		}
		entries = append(entries, legendEntry{typeLabel(kind), []plot.Thumbnailer{area(panel, outline, faded(typeColor(kind), 0xd0))}})
	}
	return entries
}

// readsTable is the data of readsChart.
func readsTable(c curve) table {
	pts := c.withReads()
	kinds := typesIn(pts, readsByType)
	t := pointColumns(c)
	t.Columns = append(t.Columns, column{Name: "block reads", Unit: "per Get"})
	for _, kind := range kinds {
		t.Columns = append(t.Columns, column{Name: typeLabel(kind), Unit: "per Get"})
	}
	t.Columns = append(t.Columns, column{Name: "over repeats", Unit: "low to high"}, column{Name: "device reads", Unit: "per Get"}, column{Name: "predicted", Unit: "per Get"})
	c.rows(&t, func(p Point) []string {
		f := p.Figures
		cells := []string{optional(f.BlockReadsPerGet, perGet)}
		for _, kind := range kinds {
			cells = append(cells, counted(f.BlockReadsPerGetByType, kind.String()))
		}
		between := none
		if r, ok := p.Spread["block_reads_per_get"]; ok {
			between = perGet(r.Low) + " to " + perGet(r.High)
		}
		guess := none
		for _, g := range c.sweep.Predicted {
			if g.CacheBytes == p.CacheBytes {
				guess = perGet(g.BlockReadsPerGet)
			}
		}
		return append(cells, between, optional(f.DeviceReadsPerGet, perGet), guess)
	})
	t.drop()
	return t
}

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

// deviceChart holds the device's account against the engine's.
func deviceChart(c curve) *picture {
	pts := c.withReads()
	device := perPoint(pts, func(f result.Figures) *float64 { return f.DeviceReadsPerGet })
	if len(device) < 2 {
		return nil
	}
	panel := newPanel("reads per Get")
	pic := &picture{about: "device reads and block reads per Get by cache size", panels: []*plot.Plot{panel}, height: pictureHeight}
	cacheAxis(c, panel, pts)
	blocks := perPoint(pts, func(f result.Figures) *float64 { return f.BlockReadsPerGet })
	linear(&panel.Y, 1.08*math.Max(highest(device), highest(blocks)))
	pic.add("block reads", line(panel, blocks, style{color: ink, shape: draw.CircleGlyph{}})...)
	pic.add("device reads", line(panel, device, style{color: typeColor(engine.Page), dash: dashed(), shape: draw.PyramidGlyph{}})...)
	spread(panel, pts, "device_reads_per_get", func(f result.Figures) *float64 { return f.DeviceReadsPerGet }, typeColor(engine.Page))
	labels := &valueLabels{}
	for _, p := range pts {
		if p.Figures.DeviceReadsPerGet != nil && p.Figures.Agreement != nil {
			labels.at = append(labels.at, plotter.XY{X: float64(p.CacheBytes), Y: math.Max(*p.Figures.DeviceReadsPerGet, *p.Figures.BlockReadsPerGet)})
			labels.texts = append(labels.texts, "×"+number(*p.Figures.Agreement))
		}
	}
	panel.Add(labels)
	return pic
}

func deviceTable(c curve) table {
	t := pointColumns(c)
	t.Columns = append(t.Columns, column{Name: "block reads", Unit: "per Get"}, column{Name: "device reads", Unit: "per Get"},
		column{Name: "agreement", Unit: "device / block"}, column{Name: "read by blocks", Unit: "bytes/Get"},
		column{Name: "read from device", Unit: "bytes/Get"})
	c.rows(&t, func(p Point) []string {
		f := p.Figures
		return []string{optional(f.BlockReadsPerGet, perGet), optional(f.DeviceReadsPerGet, perGet), optional(f.Agreement, number),
			optional(f.BlockReadBytesPerGet, number), optional(f.DeviceReadBytesPerGet, number)}
	})
	t.drop()
	return t
}

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

// typeBars stands for readsChart where the cache does not vary: a stacked bar
// for each value of the axis.
func typeBars(c curve) *picture {
	var pts []Point
	for _, p := range c.measured() {
		if p.Figures.BlockReadsPerGet != nil {
			pts = append(pts, p)
		}
	}
	kinds := typesIn(pts, readsByType)
	if len(pts) == 0 || len(kinds) == 0 {
		return nil
	}
	panel := newPanel("block reads per Get")
	pic := &picture{about: "block reads per Get, stacked by block type", panels: []*plot.Plot{panel}, height: pictureHeight}
	var texts []string
	top := 0.0
	for _, p := range pts {
		texts = append(texts, pointName(c, p))
		top = math.Max(top, *p.Figures.BlockReadsPerGet)
	}
	names(&panel.X, texts)
	panel.X.Label.Text = c.x
	linear(&panel.Y, 1.08*top)
	width := vg.Points(math.Min(60, 380/float64(len(pts))))
	var below *plotter.BarChart
	var entries []legendEntry
	for _, kind := range kinds {
		bar := &plotter.BarChart{Width: width, Color: faded(typeColor(kind), 0xe0)}
		for _, p := range pts {
			bar.Values = append(bar.Values, p.Figures.BlockReadsPerGetByType[kind.String()])
		}
		if below != nil {
			bar.StackOn(below)
		}
		panel.Add(bar)
		below = bar
		entries = append(entries, legendEntry{typeLabel(kind), []plot.Thumbnailer{bar}})
	}
	for i := len(entries) - 1; i >= 0; i-- {
		pic.add(entries[i].name, entries[i].thumb...)
	}
	labels := &valueLabels{}
	for i, p := range pts {
		labels.at = append(labels.at, plotter.XY{X: float64(i), Y: *p.Figures.BlockReadsPerGet})
		labels.texts = append(labels.texts, perGet(*p.Figures.BlockReadsPerGet))
	}
	panel.Add(labels)
	linear(&panel.Y, 1.08*top) // adding bars widened the axes
	names(&panel.X, texts)
	return pic
}

// cacheAxis sets the x axis to the points' caches and, where they are near, the
// inflection points.
func cacheAxis(c curve, panel *plot.Plot, pts []Point) {
	low, high := float64(pts[0].CacheBytes), float64(pts[len(pts)-1].CacheBytes)
	if i := c.sweep.Inflection; i != nil {
		for _, size := range []int64{i.IP1.DiskBytes, i.IP1.CacheBytes, i.IP2.DiskBytes, i.IP2.CacheBytes} {
			if v := float64(size); v >= low/4 && v <= high*4 {
				low, high = math.Min(low, v), math.Max(high, v)
			}
		}
	}
	sizes(&panel.X, low, high, float64(c.sweep.Database.Bytes))
}

// inflectionMarks are solid at what a cache must hold, dashed at what is on
// disk; one where they are the same.
func inflectionMarks(i *result.Inflection, low, high float64) []mark {
	if i == nil {
		return nil
	}
	var list []mark
	add := func(name string, bytes int64, dashed bool) {
		if v := float64(bytes); v >= low && v <= high {
			list = append(list, mark{x: v, name: name, color: ink, dashed: dashed})
		}
	}
	for _, ip := range []struct {
		name string
		size result.Size
	}{{"IP1", i.IP1}, {"IP2", i.IP2}} {
		disk, cache := ip.size.DiskBytes, ip.size.CacheBytes
		switch {
		case cache == 0:
			add(ip.name+" (on disk)", disk, true)
		case math.Abs(float64(cache-disk)) < 0.02*float64(cache):
			add(ip.name, cache, false)
		default:
			add(ip.name+" in cache", cache, false)
			add(ip.name+" on disk", disk, true)
		}
	}
	return list
}

// predictedIn is the predicted line and the outline of its band within the
// x axis; no band where low and high are the same.
func predictedIn(predicted []result.PredictedPoint, low, high float64) (band, middle plotter.XYs) {
	var upper, lower plotter.XYs
	wide := false
	for _, g := range predicted {
		x := float64(g.CacheBytes)
		if x < low || x > high {
			continue
		}
		middle = append(middle, plotter.XY{X: x, Y: g.BlockReadsPerGet})
		upper = append(upper, plotter.XY{X: x, Y: g.High})
		lower = append(lower, plotter.XY{X: x, Y: g.Low})
		wide = wide || g.High > g.Low
	}
	for i := len(lower) - 1; i >= 0; i-- {
		upper = append(upper, lower[i])
	}
	if !wide || len(finite(upper, true, false)) < len(upper) || len(middle) < 2 {
		upper = nil
	}
	return upper, finite(middle, true, false)
}

// perPoint is a figure by cache size.
func perPoint(pts []Point, value func(result.Figures) *float64) plotter.XYs {
	var xys plotter.XYs
	for _, p := range pts {
		if v := value(p.Figures); v != nil {
			xys = append(xys, plotter.XY{X: float64(p.CacheBytes), Y: *v})
		}
	}
	return finite(xys, true, false)
}

// spread draws error bars from the least to the greatest repeat.
func spread(panel *plot.Plot, pts []Point, name string, value func(result.Figures) *float64, c color.RGBA) {
	var xys plotter.XYs
	var ranges []struct{ low, high float64 }
	for _, p := range pts {
		r, ok := p.Spread[name]
		if v := value(p.Figures); ok && v != nil && r.Low <= *v && *v <= r.High && r.Low < r.High {
			xys = append(xys, plotter.XY{X: float64(p.CacheBytes), Y: *v})
			ranges = append(ranges, struct{ low, high float64 }{r.Low, r.High})
		}
	}
	if len(xys) > 0 {
		y := panel.Y
		bars(panel, xys, ranges, c)
		panel.Y = y
	}
}

func highest(xys plotter.XYs) float64 {
	top := 0.0
	for _, p := range xys {
		top = math.Max(top, p.Y)
	}
	return top
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

// pointColumns are the columns that say which point a row is.
func pointColumns(c curve) table {
	var t table
	if c.x != "" && c.x != "cache" {
		t.Columns = append(t.Columns, column{Name: c.x, Text: true})
	}
	t.Columns = append(t.Columns, column{Name: "cache", Unit: c.cacheScale().name}, column{Name: "cache", Unit: "% of DB"}, column{Name: "phase"})
	return t
}

// rows adds a row for every point, the failed ones with their reason.
func (c curve) rows(t *table, figures func(Point) []string) {
	scale := c.cacheScale()
	for _, p := range c.pts {
		var cells []string
		if c.x != "" && c.x != "cache" {
			cells = append(cells, p.Axes[c.x])
		}
		phase := none
		if p.Phase > 0 {
			phase = fmt.Sprint(p.Phase)
		}
		cells = append(cells, positive(float64(p.CacheBytes), scale.in), positive(p.CachePercent, number), phase)
		if p.Status != result.OK {
			t.Rows = append(t.Rows, row{Cells: cells, Failed: true, Note: reason(p)})
			continue
		}
		t.Rows = append(t.Rows, row{Cells: append(cells, figures(p)...)})
	}
}

func (c curve) cacheScale() scale {
	var all []int64
	for _, p := range c.pts {
		all = append(all, p.CacheBytes)
	}
	return byteScale(all)
}
