package engines

import (
	"math"

	"github.com/statelab/statelab/internal/explain/view"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// typeBars stands for readsChart where the cache does not vary: a stacked bar
// for each value of the axis.
func typeBars(c curve) *view.Picture {
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
	panel := view.NewPanel("block reads per Get")
	pic := &view.Picture{About: "block reads per Get, stacked by block type", Panels: []*plot.Plot{panel}, Height: view.PictureHeight}
	var texts []string
	top := 0.0
	for _, p := range pts {
		texts = append(texts, pointName(c, p))
		top = math.Max(top, *p.Figures.BlockReadsPerGet)
	}
	view.NameAxis(&panel.X, texts)
	panel.X.Label.Text = c.x
	view.LinearAxis(&panel.Y, 1.08*top)
	width := vg.Points(math.Min(60, 380/float64(len(pts))))
	var below *plotter.BarChart
	var entries []view.LegendEntry
	for _, kind := range kinds {
		bar := &plotter.BarChart{Width: width, Color: view.Faded(typeColor(kind), 0xe0)}
		for _, p := range pts {
			bar.Values = append(bar.Values, p.Figures.BlockReadsPerGetByType[kind.String()])
		}
		if below != nil {
			bar.StackOn(below)
		}
		panel.Add(bar)
		below = bar
		entries = append(entries, view.LegendEntry{Name: typeLabel(kind), Thumb: []plot.Thumbnailer{bar}})
	}
	for i := len(entries) - 1; i >= 0; i-- {
		pic.Add(entries[i].Name, entries[i].Thumb...)
	}
	labels := &view.ValueLabels{}
	for i, p := range pts {
		labels.At = append(labels.At, plotter.XY{X: float64(i), Y: *p.Figures.BlockReadsPerGet})
		labels.Texts = append(labels.Texts, view.PerGet(*p.Figures.BlockReadsPerGet))
	}
	panel.Add(labels)
	view.LinearAxis(&panel.Y, 1.08*top) // adding bars widened the axes
	view.NameAxis(&panel.X, texts)
	return pic
}
