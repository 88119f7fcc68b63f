package view

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bars are groups of bars, in panels above or beside each other.
type Bars struct {
	About, X string
	Groups   []string
	Panels   []BarPanel
	Sets     []BarSet
	Stacked  bool // the sets stand on each other, not side by side
	Beside   bool // the panels
}

// BarPanel is the y axis of one panel.
type BarPanel struct {
	Y    string
	Tick func(float64) string // nil: with the decimals that the steps need
}

// BarSet is a bar of each group.
type BarSet struct {
	Name   string
	Color  color.RGBA
	Values [][]float64 // by panel, by group; 0: no bar
	Failed []bool      // by group: a cross stands there
	Spans  []Range     // by group, over the first panel's bars
	Limits [][]float64 // by panel, by group: a dashed line across the bar's place; 0: none
}

// nearLimit is how far above the bars a limit may be and still be drawn.
const nearLimit = 1.6

// Picture draws the bars; nil if there is none. Over stacked bars stands their sum.
func (b Bars) Picture(sum func(float64) string) *Picture {
	pic := NewPicture(b.About)
	pic.Beside = b.Beside
	for n := range b.Panels {
		if panel, top := b.panel(pic, n, sum); top > 0 || n == 0 {
			pic.Panels = append(pic.Panels, panel)
		}
	}
	if len(pic.bars) == 0 {
		return nil
	}
	if b.Stacked { // the legend reads as the stack does, from the top
		slices.Reverse(pic.legend)
	}
	if len(pic.Panels) > 1 && !b.Beside {
		pic.Height = 1.2 * twoPanels
	}
	for _, panel := range pic.Panels { // adding bars widened the axes
		y := panel.Y
		pic.names(b.X, b.Groups)
		panel.Y = y
	}
	return pic
}

// columns is how many bars stand side by side in a group.
func (b Bars) columns() int {
	if b.Stacked {
		return 1
	}
	return len(b.Sets)
}

// panel draws the n-th panel; top is where its highest bar ends.
func (b Bars) panel(pic *Picture, n int, sum func(float64) string) (panel *Panel, top float64) {
	panel = &Panel{Plot: newPanel(b.Panels[n].Y), of: pic}
	width := vg.Points(math.Min(60, 470/float64(max(1, len(b.Groups)*(b.columns()+1)))))
	marks := &barMarks{width: width, of: pic}
	sums := make([]float64, len(b.Groups))
	var below *plotter.BarChart
	for i, set := range b.Sets {
		offset := vg.Length(0)
		if !b.Stacked {
			offset = width * vg.Length(float64(i)-float64(b.columns()-1)/2)
		}
		bar := &plotter.BarChart{Width: width, Offset: offset, Color: Faded(set.Color, 0xe8), Values: make(plotter.Values, len(b.Groups))}
		told := series{name: set.Name, shift: offset, color: set.Color}
		for g, v := range set.Values[n] {
			top = math.Max(top, marks.at(set, n, g, offset))
			if !Sane(v) {
				pic.Omitted++
				continue
			}
			if v <= 0 {
				continue
			}
			bar.Values[g] = v
			sums[g] += v
			told.xys, told.labels = append(told.xys, XY{X: float64(g), Y: v}), append(told.labels, b.Groups[g])
			if top = math.Max(top, v); b.Stacked {
				top = math.Max(top, sums[g])
			}
		}
		drawn := len(told.xys) > 0
		if drawn {
			if b.Stacked && below != nil {
				bar.StackOn(below)
			}
			panel.Plot.Add(bar)
			pic.bars = append(pic.bars, bar)
			if !b.Stacked { // the ends of stacked bars are sums
				panel.series = append(panel.series, told)
			}
			below = bar
		}
		switch {
		case n == 0 && drawn:
			pic.name(set.Name, nil, bar)
		case n == 0 && set.Name != "":
			pic.Failed(set.Name, set.Color)
		}
	}
	panel.Plot.Add(marks)
	if n == 0 {
		top = marks.withLimits(top)
	}
	panel.atY = b.Panels[n].Tick
	fromZero(&panel.Y, 1.06*top, panel.atY)
	if n == 0 && len(marks.limits) > 0 {
		below := func(m barMark) bool { return m.span.High <= panel.Y.Max }
		pic.name("disk's limit", func() bool { return slices.ContainsFunc(marks.limits, below) }, limitThumb{})
	}
	if b.Stacked {
		panel.sums(sums, sum)
	}
	return panel, top
}

// sums writes above every stack what it sums to.
func (p *Panel) sums(sums []float64, text func(float64) string) {
	var at XYs
	var texts []string
	for g, v := range sums {
		at, texts = append(at, XY{X: float64(g), Y: v}), append(texts, text(v))
	}
	p.Labels(at, texts)
}

var limitColor = color.RGBA{0xb0, 0x00, 0x20, 0xff}

// barMarks draws what stands at the places of bars: the range over repeats, a line
// across the place, a cross where a point failed.
type barMarks struct {
	width                  vg.Length
	of                     *Picture
	spans, limits, crosses []barMark
}

// barMark is a place on a bar chart: the group, and the bar's offset from its middle.
type barMark struct {
	group  int
	offset vg.Length
	span   Range
	color  color.RGBA
}

// at notes what stands at the place of a set's bar in a group of the n-th panel, and returns how high
// that reaches.
func (b *barMarks) at(set BarSet, n, group int, offset vg.Length) (top float64) {
	if set.Failed != nil && set.Failed[group] {
		b.crosses = append(b.crosses, barMark{group, offset, Range{}, set.Color})
	}
	if v := set.Values[n][group]; !Sane(v) || v <= 0 {
		return 0
	}
	if n == 0 && set.Spans != nil {
		if r := set.Spans[group]; Sane(r.High) && r.Low > 0 && r.High > r.Low {
			b.spans = append(b.spans, barMark{group, offset, r, Muted})
			top = r.High
		}
	}
	if set.Limits != nil && set.Limits[n][group] > 0 && Sane(set.Limits[n][group]) {
		b.limits = append(b.limits, barMark{group, offset, Range{High: set.Limits[n][group]}, limitColor})
	}
	return top
}

// withLimits is how high the limits reach that are near enough to bars that end at top.
func (b *barMarks) withLimits(top float64) float64 {
	for _, l := range b.limits {
		if l.span.High < nearLimit*top {
			top = math.Max(top, l.span.High)
		}
	}
	return top
}

func limitStyle() draw.LineStyle {
	return draw.LineStyle{Color: limitColor, Width: vg.Points(1.6), Dashes: []vg.Length{vg.Points(3), vg.Points(1.5)}}
}

// Plot draws them; a line above the panel is left out.
func (b *barMarks) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	scale := b.of.barScale(b.of.form)
	half := b.width * scale / 2
	edge := draw.LineStyle{Color: paper, Width: vg.Points(3.2)} // seen on a bar of its colour
	for _, m := range b.spans {
		x, low, high := toX(float64(m.group))+m.offset*scale, toY(m.span.Low), toY(math.Min(m.span.High, p.Y.Max))
		c.StrokeLine2(edge, x, low, x, high)
		c.StrokeLine2(draw.LineStyle{Color: m.color, Width: vg.Points(1)}, x, low, x, high)
	}
	for _, m := range b.limits {
		if m.span.High <= p.Y.Max {
			x, y := toX(float64(m.group))+m.offset*scale, toY(m.span.High)
			c.StrokeLine2(edge, x-half, y, x+half, y)
			c.StrokeLine2(limitStyle(), x-half, y, x+half, y)
		}
	}
	for _, m := range b.crosses {
		c.DrawGlyph(crossOf(m.color), vg.Point{X: toX(float64(m.group)) + m.offset*scale, Y: toY(0) + 5})
	}
}

func crossOf(c color.RGBA) draw.GlyphStyle {
	return draw.GlyphStyle{Color: c, Radius: vg.Points(4), Shape: draw.CrossGlyph{}}
}

// limitThumb is a limit in a legend.
type limitThumb struct{}

func (limitThumb) Thumbnail(c *draw.Canvas) {
	c.StrokeLine2(limitStyle(), c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
}

// emptyThumb is a cross in a legend: nothing was measured.
type emptyThumb struct{ color color.RGBA }

func (e emptyThumb) Thumbnail(c *draw.Canvas) { c.DrawGlyph(crossOf(e.color), c.Center()) }
