package engines

import (
	"math"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// deviceChart holds the device's account against the engine's.
func deviceChart(c curve) *view.Picture {
	pts := c.withReads()
	device := perPoint(pts, func(f result.Figures) *float64 { return f.DeviceReadsPerGet })
	if len(device) < 2 {
		return nil
	}
	panel := view.NewPanel("reads per Get")
	pic := &view.Picture{About: "device reads and block reads per Get by cache size", Panels: []*plot.Plot{panel}, Height: view.PictureHeight}
	cacheAxis(c, panel, pts)
	blocks := perPoint(pts, func(f result.Figures) *float64 { return f.BlockReadsPerGet })
	view.LinearAxis(&panel.Y, 1.08*math.Max(view.Highest(device), view.Highest(blocks)))
	pic.Add("block reads", view.Line(panel, blocks, view.Style{Color: view.Ink, Shape: draw.CircleGlyph{}})...)
	pic.Add("device reads", view.Line(panel, device, view.Style{Color: typeColor(engine.Page), Dash: view.Dashed(), Shape: draw.PyramidGlyph{}})...)
	spread(panel, pts, "device_reads_per_get", func(f result.Figures) *float64 { return f.DeviceReadsPerGet }, typeColor(engine.Page))
	labels := &view.ValueLabels{}
	for _, p := range pts {
		if p.Figures.DeviceReadsPerGet != nil && p.Figures.Agreement != nil {
			labels.At = append(labels.At, plotter.XY{X: float64(p.CacheBytes), Y: math.Max(*p.Figures.DeviceReadsPerGet, *p.Figures.BlockReadsPerGet)})
			labels.Texts = append(labels.Texts, "×"+view.Number(*p.Figures.Agreement))
		}
	}
	panel.Add(labels)
	return pic
}

func deviceTable(c curve) view.Table {
	t := pointColumns(c)
	t.Columns = append(t.Columns, view.Column{Name: "block reads", Unit: "per Get"}, view.Column{Name: "device reads", Unit: "per Get"},
		view.Column{Name: "agreement", Unit: "device / block"}, view.Column{Name: "read by blocks", Unit: "bytes/Get"},
		view.Column{Name: "read from device", Unit: "bytes/Get"})
	c.rows(&t, func(p Point) []string {
		f := p.Figures
		return []string{view.Optional(f.BlockReadsPerGet, view.PerGet), view.Optional(f.DeviceReadsPerGet, view.PerGet), view.Optional(f.Agreement, view.Number),
			view.Optional(f.BlockReadBytesPerGet, view.Number), view.Optional(f.DeviceReadBytesPerGet, view.Number)}
	})
	t.Drop()
	return t
}
