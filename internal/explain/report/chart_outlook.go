package report

import (
	"errors"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/statelab/statelab/engine"
)

// Outlook is a predicted curve with places on it, such as where a node is and
// where it should go.
type Outlook struct {
	DatabaseBytes int64
	Curve         []Spot // by cache size
	Places        []Spot // named
	Measured      []Spot
}

// Spot is a cache size and what a Get costs there.
type Spot struct {
	Name             string
	CacheBytes       int64
	BlockReadsPerGet float64
}

// PNG draws the outlook.
func (o Outlook) PNG(w io.Writer) error {
	pic, err := o.picture()
	if err != nil {
		return err
	}
	return pic.png(w)
}

func (o Outlook) picture() (*picture, error) {
	curve, places, measured := points(o.Curve), points(o.Places), points(o.Measured)
	low, high := rangeX([]plotter.XYs{curve, places, measured})
	if len(curve) < 2 || !(high > low) {
		return nil, errors.New("nothing to draw: the curve has fewer than two points")
	}
	panel := newPanel("block reads per Get")
	pic := &picture{about: "predicted block reads per Get by cache size", panels: []*plot.Plot{panel}, height: pictureHeight, marks: &marks{}}
	sizes(&panel.X, low, high, float64(o.DatabaseBytes))
	linear(&panel.Y, 1.06*math.Max(math.Max(highest(curve), highest(places)), highest(measured)))
	for _, s := range o.Places {
		pic.marks.list = append(pic.marks.list, mark{x: float64(s.CacheBytes), name: fmt.Sprintf("%s: %s", s.Name, shortBytes(s.CacheBytes)), color: ink})
	}
	panel.Add(pic.marks)
	pic.add("predicted", line(panel, curve, style{color: muted, dash: dashed(), width: vg.Points(1.6)})...)
	spots := func(name string, xys plotter.XYs, glyph draw.GlyphStyle) {
		if len(xys) == 0 {
			return
		}
		glyph.Radius = vg.Points(3.5)
		scatter := &plotter.Scatter{XYs: xys, GlyphStyle: glyph}
		panel.Add(scatter)
		if name != "" {
			pic.add(name, scatter)
		}
	}
	spots("", places, draw.GlyphStyle{Color: ink, Shape: draw.CircleGlyph{}})
	spots("measured, at rest", measured, draw.GlyphStyle{Color: typeColor(engine.Page), Shape: draw.BoxGlyph{}})
	labels := &valueLabels{at: places, beside: pic.marks}
	for _, p := range places {
		labels.texts = append(labels.texts, perGet(p.Y))
	}
	panel.Add(labels)
	return pic, nil
}

func points(spots []Spot) plotter.XYs {
	xys := make(plotter.XYs, len(spots))
	for i, s := range spots {
		xys[i] = plotter.XY{X: float64(s.CacheBytes), Y: s.BlockReadsPerGet}
	}
	return finite(xys, true, false)
}
