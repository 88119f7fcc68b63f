package view

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// BarsAt draws a bar at each point's place.
func BarsAt(panel *plot.Plot, xys plotter.XYs, width, offset vg.Length, look Style) plot.Thumbnailer {
	bar := &plotter.BarChart{Width: width, Offset: offset, Color: look.Color}
	for _, p := range xys {
		for len(bar.Values) <= int(p.X) {
			bar.Values = append(bar.Values, 0)
		}
		bar.Values[int(p.X)] = p.Y
	}
	if len(bar.Values) > 0 {
		panel.Add(bar)
	}
	return bar
}

func Places(lines []plotter.XYs) int {
	most := 1
	for _, xys := range lines {
		for _, p := range xys {
			most = max(most, int(p.X)+1)
		}
	}
	return most
}

var LimitColor = color.RGBA{0xb0, 0x00, 0x20, 0xff}

// place on a bar chart: the group, and the bar's offset from its middle.
type barPlace struct {
	group  int
	offset vg.Length
	y      float64
}

// BarTicks draws a short line across the place of a bar; those above the panel
// are left out.
type BarTicks struct {
	Width  vg.Length
	Color  color.RGBA
	Dashed bool
	At     []barPlace
}

func (b *BarTicks) Add(group int, offset vg.Length, y float64) {
	b.At = append(b.At, barPlace{group, offset, y})
}

func (b *BarTicks) Values() (ys []float64) {
	for _, p := range b.At {
		ys = append(ys, p.y)
	}
	return ys
}

func (b *BarTicks) style() draw.LineStyle {
	s := draw.LineStyle{Color: b.Color, Width: vg.Points(1.6)}
	if b.Dashed {
		s.Dashes = []vg.Length{vg.Points(3), vg.Points(1.5)}
	}
	return s
}

func (b *BarTicks) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, at := range b.At {
		if at.y <= p.Y.Max {
			x, y := toX(float64(at.group))+at.offset, toY(at.y)
			edge := draw.LineStyle{Color: paper, Width: vg.Points(3.2)} // seen on a bar of its colour
			c.StrokeLine2(edge, x-b.Width/2, y, x+b.Width/2, y)
			c.StrokeLine2(b.style(), x-b.Width/2, y, x+b.Width/2, y)
		}
	}
}

// TickThumb is a barTicks in a legend.
type TickThumb struct{ Of *BarTicks }

func (t TickThumb) Thumbnail(c *draw.Canvas) {
	c.StrokeLine2(t.Of.style(), c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
}

// BarSpans draws the range over repeats of a bar.
type BarSpans struct {
	at     []barPlace
	ranges []Range
}

func (b *BarSpans) Add(group int, offset vg.Length, r Range) {
	b.at, b.ranges = append(b.at, barPlace{group: group, offset: offset}), append(b.ranges, r)
}

func (b *BarSpans) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	look := draw.LineStyle{Color: Muted, Width: vg.Points(1)}
	for i, at := range b.at {
		x := toX(float64(at.group)) + at.offset
		c.StrokeLine2(look, x, toY(b.ranges[i].Low), x, toY(math.Min(b.ranges[i].High, p.Y.Max)))
	}
}

// BarCrosses mark where a bar is missing since its point failed.
type BarCrosses struct {
	at     []barPlace
	colors []color.RGBA
}

func (b *BarCrosses) Add(group int, offset vg.Length, look color.RGBA) {
	b.at, b.colors = append(b.at, barPlace{group: group, offset: offset}), append(b.colors, look)
}

func (b *BarCrosses) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for i, at := range b.at {
		c.DrawGlyph(draw.GlyphStyle{Color: b.colors[i], Radius: vg.Points(4), Shape: draw.CrossGlyph{}}, vg.Point{X: toX(float64(at.group)) + at.offset, Y: toY(0) + 5})
	}
}

// EmptyThumb is a cross in a legend: nothing was measured.
type EmptyThumb struct{ Color color.RGBA }

func (e EmptyThumb) Thumbnail(c *draw.Canvas) {
	c.DrawGlyph(draw.GlyphStyle{Color: e.Color, Radius: vg.Points(4), Shape: draw.CrossGlyph{}}, c.Center())
}
