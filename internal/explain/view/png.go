package view

import (
	"cmp"
	"fmt"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"
)

// Sizes of a PNG, in points, and of its type.
const (
	PictureWidth  = 760
	PictureDPI    = 144
	pictureHeight = 330
	twoPanels     = 440 // height of two panels, one above the other
	legendRunes   = 24
	labelSize     = 10.5
	typeSize      = 10
	markSize      = 9.5
	markRow       = markSize + 3.5
	thumbnail     = 18
	tickLength    = 4
	mostTicks     = 9 // labels that have room below a panel
)

// PNG draws the chart on white, for a README.
func (c *Chart) PNG(w io.Writer) error {
	c.fit()
	height := pictureHeight
	if len(c.Panels) > 1 && !c.Beside {
		height = twoPanels
	}
	canvas := newCanvas(PictureWidth, height)
	c.draw(canvas)
	if err := png.Encode(w, canvas.image); err != nil {
		return fmt.Errorf("draw %s: %w", c.About, err)
	}
	return nil
}

// draw puts the panels left of the legend, and the names of the marks above the first one.
func (c *Chart) draw(canvas *canvas) {
	room := box{point{2, 6}, point{canvas.all.max.x - 8, canvas.all.max.y - 2}}
	if entries := c.legend(); len(entries) > 0 {
		width := 0.0
		for _, e := range entries {
			width = max(width, textWidth(typeSize, Clip(e.name, legendRunes)))
		}
		left := canvas.all.max.x - width - thumbnail - 9
		for i, e := range entries {
			top := 8 + float64(i)*(typeSize+3.5)
			e.thumbnail(canvas, box{point{left, top + 1}, point{left + thumbnail, top + typeSize}})
			canvas.write(Ink, typeSize, point{left + thumbnail + 5, top + typeSize - 1}, Clip(e.name, legendRunes))
		}
		room.max.x = left - 16
	}
	columns, rows := 1, len(c.Panels)
	if c.Beside {
		columns, rows = rows, columns
	}
	cell := point{(room.max.x - room.min.x - 16*float64(columns-1)) / float64(columns), (room.max.y - room.min.y - 10*float64(rows-1)) / float64(rows)}
	across := max(2, int(math.Round(mostTicks*cell.x/PictureWidth*1.25)))
	left, right := 0.0, 0.0
	for _, p := range c.Panels {
		for _, t := range p.ticks(mostTicks) {
			left = max(left, textWidth(typeSize, t.label))
		}
	}
	left += labelSize + 11
	for _, t := range c.X.ticks(across) { // the last label may reach beyond the axis
		right = max(right, textWidth(typeSize, t.label)/2-(1-c.X.place(t.at))*(cell.x-left))
	}
	for i, p := range c.Panels {
		corner := point{room.min.x, room.min.y + float64(i)*(cell.y+10)}
		if c.Beside {
			corner = point{room.min.x + float64(i)*(cell.x+16), room.min.y}
		}
		f := frame{canvas: canvas, Panel: p, x: c.X, edge: corner.x}
		f.data = box{point{corner.x + left, corner.y + typeSize/2}, point{corner.x + cell.x - right, corner.y + cell.y}}
		if i == 0 || c.Beside {
			if rows := c.markRows(f.toX, room.max.x); rows > 0 {
				f.data.min.y += float64(rows)*markRow + 2
			}
		}
		f.axes(across, c.Beside || i == len(c.Panels)-1)
		for nth := range p.Series {
			f.series(nth)
		}
		f.marks(c.Marks, i == 0)
	}
}

// frame is a panel on paper: data is where values are drawn.
type frame struct {
	*canvas
	*Panel
	x    Axis
	edge float64 // on the left, where the title of the y axis is
	data box
}

func (f *frame) toX(v float64) float64 {
	return f.data.min.x + f.x.place(v)*(f.data.max.x-f.data.min.x)
}

func (f *frame) toY(v float64) float64 { return f.data.max.y - f.place(v)*(f.data.max.y-f.data.min.y) }

func (f *frame) at(x, y float64) point { return point{f.toX(x), f.toY(y)} }

// axes draws a light grid, ticks and labels without a box; it ends the data above the labels.
func (f *frame) axes(across int, named bool) {
	grid, axis := Style{Color: Color{light: 0xe4e4e4}, Width: 0.7}, Style{Color: Muted, Width: 0.8}
	ticks, lines := f.x.ticks(across), 1
	for i, t := range ticks {
		room := (f.data.max.x-f.data.min.x)/float64(len(ticks)) - 6
		for n := len([]rune(t.label)); f.x.Kind == grouped && n > 6 && textWidth(typeSize, ticks[i].label) > room; n-- {
			ticks[i].label = Clip(t.label, n)
		}
		lines = max(lines, 1+strings.Count(t.label, "\n"))
	}
	bottom := f.data.max.y
	f.data.max.y -= tickLength + float64(lines)*(typeSize+2) + 1
	if named {
		f.data.max.y -= labelSize + 5
		title := f.x.title(false)
		f.write(Ink, labelSize, point{(f.data.min.x + f.data.max.x - textWidth(labelSize, title)) / 2, bottom - 2}, title)
	}
	for _, t := range f.ticks(mostTicks) {
		y := f.toY(t.at)
		f.line(grid, point{f.data.min.x, y}, point{f.data.max.x, y})
		f.write(Ink, typeSize, point{f.data.min.x - 5 - textWidth(typeSize, t.label), y + typeSize/3}, t.label)
	}
	for _, t := range ticks {
		x := f.toX(t.at)
		f.line(grid, point{x, f.data.min.y}, point{x, f.data.max.y})
		if f.x.Kind != grouped {
			f.line(axis, point{x, f.data.max.y}, point{x, f.data.max.y + tickLength})
		}
		for n, text := range strings.Split(t.label, "\n") {
			f.write(Ink, typeSize, point{x - textWidth(typeSize, text)/2, f.data.max.y + tickLength + float64(n+1)*(typeSize+2) - 2}, text)
		}
	}
	f.line(axis, point{f.data.min.x, f.data.max.y}, f.data.max)
	f.writeUp(Ink, labelSize, point{f.edge, (f.data.min.y + f.data.max.y) / 2}, f.title(true))
}

// series draws one.
func (f *frame) series(nth int) {
	s := &f.Series[nth]
	var tops, lower []point
	for _, xy := range s.Points {
		low, high := xy.Y, xy.Y
		switch {
		case s.stacks():
			low = f.bottom(nth, xy.X)
			high += low
		case s.Band:
			low, high = xy.Low, xy.High
		}
		tops, lower = append(tops, f.at(xy.X, high)), append(lower, f.at(xy.X, low))
	}
	outline := func() []point {
		back := slices.Clone(lower)
		slices.Reverse(back)
		return slices.Concat(tops, back)
	}
	inside := f.within(f.data)
	switch s.Form {
	case texts:
		f.beside(s.Points, tops)
	case area:
		inside.fill(s.Color.ink(0xd0), outline())
	case bar, stack:
		half := point{x: (f.toX(s.Breath) - f.toX(0)) / 2}
		for i, top := range tops {
			foot := point{top.x, f.toY(0)}
			if s.Form == stack {
				foot = lower[i]
			}
			f.fill(s.Color.ink(0xe8), box{top.minus(half), foot.plus(half)}.corners())
		}
		for _, limit := range s.Limits {
			f.seen(Style{Color: Red, Width: 1.6, Dash: []float64{3, 1.5}}, f.at(limit.X, limit.Y).minus(half), f.at(limit.X, limit.Y).plus(half))
		}
		for _, x := range s.Failed {
			f.glyph(Style{Color: s.Color, Shape: Cross}, f.at(x, 0).minus(point{y: 5}), 4)
		}
		f.ranges(s, Muted)
	default:
		if s.Band {
			inside.fill(s.Color.ink(0x40), outline())
			tops = Each(s.Points, func(xy XY) point { return f.at(xy.X, xy.Y) })
		}
		if s.Form == aLine {
			inside.line(s.Style, tops...)
		}
		for _, dot := range tops {
			if f.data.contains(dot) {
				f.glyph(s.Style, dot, 3)
			}
		}
		if !s.Band {
			f.ranges(s, s.Color)
		}
	}
}

// ranges draws those of points.
func (f *frame) ranges(s *Series, ink Color) {
	for _, xy := range s.Points {
		if xy.wide() {
			f.seen(Style{Color: ink, Width: 1}, f.at(xy.X, xy.Low), f.at(xy.X, math.Min(xy.High, f.Max)))
		}
	}
}

// seen is a line that is seen on a bar of its colour.
func (c *canvas) seen(s Style, from, to point) {
	c.line(Style{Color: white, Width: s.Width + 1.6}, from, to)
	c.line(s, from, to)
}

// thumbnail draws a series in the legend.
func (e entry) thumbnail(c *canvas, place box) {
	middle := point{(place.min.x + place.max.x) / 2, (place.min.y + place.max.y) / 2}
	switch {
	case len(e.Points) == 0:
		c.glyph(Style{Color: e.Color, Shape: Cross}, middle, 4)
	case e.stacks() || e.Form == bar:
		c.fill(e.Color.ink(0xe0), place.corners())
	case e.Form == aLine:
		c.line(e.Style, point{place.min.x, middle.y}, point{place.max.x, middle.y})
		fallthrough
	default:
		c.glyph(e.Style, middle, 3)
	}
}

// markRows gives every mark a row for its name, which is right of its line: above the rows
// of the lines that it lies over. It returns how many rows there are.
func (c *Chart) markRows(toX func(float64) float64, right float64) (rows int) {
	slices.SortStableFunc(c.Marks, func(a, b Mark) int { return cmp.Compare(a.X, b.X) })
	for i := len(c.Marks) - 1; i >= 0; i-- {
		m := &c.Marks[i]
		width := textWidth(markSize, m.Name)
		m.left = min(toX(m.X)+2, right-width) - toX(m.X)
		m.row = 0
		for _, other := range c.Marks[i+1:] {
			if toX(other.X)+min(0, other.left) < toX(m.X)+m.left+width+4 {
				m.row = max(m.row, other.row+1)
			}
		}
		rows = max(rows, m.row+1)
	}
	return rows
}

// marks draws the lines on a panel, with their names above the first.
func (f *frame) marks(marks []Mark, first bool) {
	for _, m := range marks {
		x, top := f.toX(m.X), f.data.min.y
		line := Style{Color: m.Color, Width: 1.2}
		if m.Dashed {
			line.Dash = []float64{4, 3}
		}
		if first {
			top -= float64(m.row) * markRow
			f.write(m.Color, markSize, point{x + m.left, top - 4}, m.Name)
		}
		f.line(line, point{x, f.data.max.y}, point{x, top})
	}
}

// beside writes texts next to points, away from each other and from the points, the outermost
// first; one that finds no room is left out: the table under the chart has it.
func (f *frame) beside(points XYs, dots []point) {
	taken := Each(dots, func(dot point) box { return box{dot.minus(point{3, 3}), dot.plus(point{3, 3})} })
	for low, high := 0, len(points)-1; low <= high; low, high = low+1, high-1 {
		for _, i := range slices.Compact([]int{low, high}) {
			width, height := textWidth(markSize, points[i].Text), float64(markSize)
			for _, corner := range []point{{-width / 2, -5}, {2, -4}, {-width - 2, -4}, {4, -10}, {-width / 2, height + 5}} {
				at := dots[i].plus(corner)
				room := box{at.minus(point{y: height}), at.plus(point{x: width})}
				if room.min.x > f.data.min.x && room.max.y < f.data.max.y && !slices.ContainsFunc(taken, room.overlaps) {
					taken = append(taken, room)
					f.fill(white.ink(0xb0), room.corners()) // readable over lines
					f.write(Ink, markSize, at.minus(point{y: 1.5}), points[i].Text)
					break
				}
			}
		}
	}
}
