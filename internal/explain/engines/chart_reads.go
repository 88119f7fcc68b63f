package engines

import (
	"image/color"
	"math"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
func readsChart(c curve) *view.Picture {
	pts := c.withReads()
	if len(pts) < 2 {
		return nil
	}
	panel := view.NewPanel("block reads per Get")
	pic := &view.Picture{About: "block reads per Get by cache size, stacked by block type", Panels: []*plot.Plot{panel}, Height: view.PictureHeight}
	cacheAxis(c, panel, pts)
	pic.Marks = &view.Marks{List: inflectionMarks(c.sweep.Inflection, panel.X.Min, panel.X.Max)}

	band, predicted := predictedIn(c.sweep.Predicted, panel.X.Min, panel.X.Max)
	device := perPoint(pts, func(f result.Figures) *float64 { return f.DeviceReadsPerGet })
	total := perPoint(pts, func(f result.Figures) *float64 { return f.BlockReadsPerGet })
	view.LinearAxis(&panel.Y, 1.06*math.Max(math.Max(view.Highest(total), view.Highest(device)), math.Max(view.Highest(predicted), view.Highest(band))))

	stack := stackAreas(panel, pts)
	for i := len(stack) - 1; i >= 0; i-- { // the legend reads as the stack does, from the top
		pic.Add(stack[i].Name, stack[i].Thumb...)
	}
	if len(band) > 0 {
		pic.Add("predicted, range", view.Area(panel, band, view.Faded(view.Muted, 0x40)))
	}
	if len(predicted) > 0 {
		pic.Add("predicted", view.Line(panel, predicted, view.Style{Color: view.Muted, Dash: view.Dashed(), Width: vg.Points(1.6)})...)
	}
	if len(device) > 0 {
		pic.Add("device reads", view.Line(panel, device, view.Style{Color: typeColor(engine.Page), Dash: view.Dashed(), Shape: draw.PyramidGlyph{}})...)
	}
	panel.Add(pic.Marks)
	pic.Add("measured", view.Line(panel, total, view.Style{Color: view.Ink, Shape: draw.CircleGlyph{}, Width: vg.Points(1.4)})...)
	spread(panel, pts, "block_reads_per_get", func(f result.Figures) *float64 { return f.BlockReadsPerGet }, view.Ink)
	labels := &view.ValueLabels{Beside: pic.Marks}
	for _, p := range pts {
		top := *p.Figures.BlockReadsPerGet
		if d := p.Figures.DeviceReadsPerGet; d != nil {
			top = math.Max(top, *d)
		}
		labels.At = append(labels.At, plotter.XY{X: float64(p.CacheBytes), Y: top})
		labels.Texts = append(labels.Texts, view.PerGet(*p.Figures.BlockReadsPerGet))
	}
	panel.Add(labels)
	return pic
}

// stackAreas draws one area per type on top of each other.
func stackAreas(panel *plot.Plot, pts []Point) []view.LegendEntry {
	base := make([]float64, len(pts))
	var entries []view.LegendEntry
	for _, kind := range typesIn(pts, readsByType) {
		outline := make(plotter.XYs, 2*len(pts))
		for i, p := range pts {
			top := base[i] + p.Figures.BlockReadsPerGetByType[kind.String()]
			outline[i] = plotter.XY{X: float64(p.CacheBytes), Y: top}
			outline[2*len(pts)-1-i] = plotter.XY{X: float64(p.CacheBytes), Y: base[i]}
			base[i] = top
		}
		if len(view.Finite(outline, true, false)) < len(outline) {
			continue
		}
		entries = append(entries, view.LegendEntry{Name: typeLabel(kind), Thumb: []plot.Thumbnailer{view.Area(panel, outline, view.Faded(typeColor(kind), 0xd0))}})
	}
	return entries
}

// readsTable is the data of readsChart.
func readsTable(c curve) view.Table {
	pts := c.withReads()
	kinds := typesIn(pts, readsByType)
	t := pointColumns(c)
	t.Columns = append(t.Columns, view.Column{Name: "block reads", Unit: "per Get"})
	for _, kind := range kinds {
		t.Columns = append(t.Columns, view.Column{Name: typeLabel(kind), Unit: "per Get"})
	}
	t.Columns = append(t.Columns, view.Column{Name: "over repeats", Unit: "low to high"}, view.Column{Name: "device reads", Unit: "per Get"}, view.Column{Name: "predicted", Unit: "per Get"})
	c.rows(&t, func(p Point) []string {
		f := p.Figures
		cells := []string{view.Optional(f.BlockReadsPerGet, view.PerGet)}
		for _, kind := range kinds {
			cells = append(cells, view.Counted(f.BlockReadsPerGetByType, kind.String()))
		}
		between := view.None
		if r, ok := p.Spread["block_reads_per_get"]; ok {
			between = view.PerGet(r.Low) + " to " + view.PerGet(r.High)
		}
		guess := view.None
		for _, g := range c.sweep.Predicted {
			if g.CacheBytes == p.CacheBytes {
				guess = view.PerGet(g.BlockReadsPerGet)
			}
		}
		return append(cells, between, view.Optional(f.DeviceReadsPerGet, view.PerGet), guess)
	})
	t.Drop()
	return t
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
	view.SizeAxis(&panel.X, low, high, float64(c.sweep.Database.Bytes))
}

// inflectionMarks are solid at what a cache must hold, dashed at what is on
// disk; one where they are the same.
func inflectionMarks(i *result.Inflection, low, high float64) []view.Mark {
	if i == nil {
		return nil
	}
	var list []view.Mark
	add := func(name string, bytes int64, dashed bool) {
		if v := float64(bytes); v >= low && v <= high {
			list = append(list, view.Mark{X: v, Name: name, Color: view.Ink, Dashed: dashed})
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
	if !wide || len(view.Finite(upper, true, false)) < len(upper) || len(middle) < 2 {
		upper = nil
	}
	return upper, view.Finite(middle, true, false)
}

// perPoint is a figure by cache size.
func perPoint(pts []Point, value func(result.Figures) *float64) plotter.XYs {
	var xys plotter.XYs
	for _, p := range pts {
		if v := value(p.Figures); v != nil {
			xys = append(xys, plotter.XY{X: float64(p.CacheBytes), Y: *v})
		}
	}
	return view.Finite(xys, true, false)
}

// spread draws error bars from the least to the greatest repeat.
func spread(panel *plot.Plot, pts []Point, name string, value func(result.Figures) *float64, c color.RGBA) {
	var xys plotter.XYs
	var ranges []view.Range
	for _, p := range pts {
		r, ok := p.Spread[name]
		if v := value(p.Figures); ok && v != nil && r.Low <= *v && *v <= r.High && r.Low < r.High {
			xys = append(xys, plotter.XY{X: float64(p.CacheBytes), Y: *v})
			ranges = append(ranges, view.Range{Low: r.Low, High: r.High})
		}
	}
	if len(xys) > 0 {
		y := panel.Y
		view.ErrorBars(panel, xys, ranges, c)
		panel.Y = y
	}
}
