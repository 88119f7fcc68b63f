package engines

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/view"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
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
	return pic.Png(w)
}

func (o Outlook) picture() (*view.Picture, error) {
	curve, places, measured := points(o.Curve), points(o.Places), points(o.Measured)
	low, high := view.RangeX([]plotter.XYs{curve, places, measured})
	if len(curve) < 2 || !(high > low) {
		return nil, errors.New("nothing to draw: the curve has fewer than two points")
	}
	panel := view.NewPanel("block reads per Get")
	pic := &view.Picture{About: "predicted block reads per Get by cache size", Panels: []*plot.Plot{panel}, Height: view.PictureHeight, Marks: &view.Marks{}}
	view.SizeAxis(&panel.X, low, high, float64(o.DatabaseBytes))
	view.LinearAxis(&panel.Y, 1.06*math.Max(math.Max(view.Highest(curve), view.Highest(places)), view.Highest(measured)))
	for _, s := range o.Places {
		pic.Marks.List = append(pic.Marks.List, view.Mark{X: float64(s.CacheBytes), Name: fmt.Sprintf("%s: %s", s.Name, view.ShortBytes(s.CacheBytes)), Color: view.Ink})
	}
	panel.Add(pic.Marks)
	pic.Add("predicted", view.Line(panel, curve, view.Style{Color: view.Muted, Dash: view.Dashed(), Width: vg.Points(1.6)})...)
	spots := func(name string, xys plotter.XYs, glyph draw.GlyphStyle) {
		if len(xys) == 0 {
			return
		}
		glyph.Radius = vg.Points(3.5)
		scatter := &plotter.Scatter{XYs: xys, GlyphStyle: glyph}
		panel.Add(scatter)
		if name != "" {
			pic.Add(name, scatter)
		}
	}
	spots("", places, draw.GlyphStyle{Color: view.Ink, Shape: draw.CircleGlyph{}})
	spots("measured, at rest", measured, draw.GlyphStyle{Color: typeColor(engine.Page), Shape: draw.BoxGlyph{}})
	labels := &view.ValueLabels{At: places, Beside: pic.Marks}
	for _, p := range places {
		labels.Texts = append(labels.Texts, view.PerGet(p.Y))
	}
	panel.Add(labels)
	return pic, nil
}

func points(spots []Spot) plotter.XYs {
	xys := make(plotter.XYs, len(spots))
	for i, s := range spots {
		xys[i] = plotter.XY{X: float64(s.CacheBytes), Y: s.BlockReadsPerGet}
	}
	return view.Finite(xys, true, false)
}
