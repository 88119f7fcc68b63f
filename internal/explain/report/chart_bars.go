package report

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

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
