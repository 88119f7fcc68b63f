package report

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

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
