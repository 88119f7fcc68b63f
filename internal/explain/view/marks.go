package view

import (
	"cmp"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Mark is a vertical line with its name above the data.
type Mark struct {
	X      float64
	Name   string
	Color  color.RGBA
	Dashed bool
}

// marks draws vertical lines. Their names stand above the data, centred on the
// line where there is room, else beside it, else a row higher.
type marks struct {
	list  []Mark
	names []placed // of each mark
	size  float64  // of their type, in points
}

// placed is where a name stands: left of its box relative to the line, and its
// row, 0 next to the data.
type placed struct {
	left vg.Length
	row  int
}

const markRows = 4

// row is the height of a row of names.
func (m *marks) row() vg.Length { return vg.Points(m.size + 3.5) }

// place finds room for the names. area is where the panel is going to be drawn.
func (m *marks) place(p *plot.Plot, area draw.Canvas) {
	m.list = slices.DeleteFunc(slices.Clone(m.list), func(k Mark) bool { return !(k.X >= p.X.Min && k.X <= p.X.Max) })
	slices.SortStableFunc(m.list, func(a, b Mark) int { return cmp.Compare(a.X, b.X) })
	data := p.DataCanvas(area)
	toX, _ := p.Transforms(&data)
	m.names = make([]placed, len(m.list))
	var taken []vg.Rectangle // X in points, Y in rows
	for i, k := range m.list {
		width := markStyle(Ink, m.size).Width(k.Name)
		box := func(at placed) vg.Rectangle {
			x := toX(k.X) + at.left
			return vg.Rectangle{Min: vg.Point{X: x - 3, Y: vg.Length(at.row)}, Max: vg.Point{X: x + width + 3, Y: vg.Length(at.row) + 1}}
		}
		free := func(at placed) bool {
			b := box(at)
			if b.Min.X+3 < data.Min.X || b.Max.X-3 > area.Max.X {
				return false
			}
			for j, other := range m.list { // a line ends below its own name
				x := toX(other.X)
				under := at.row == 0 || j < i && m.names[j].row > at.row
				if j != i && under && x > b.Min.X && x < b.Max.X {
					return false
				}
			}
			for j := range i { // this one's line through the names below
				if x := toX(k.X); m.names[j].row < at.row && x > taken[j].Min.X && x < taken[j].Max.X {
					return false
				}
			}
			return !slices.ContainsFunc(taken, func(t vg.Rectangle) bool { return overlap(t, b) })
		}
		m.names[i] = placed{row: -1}
	search:
		for row := range markRows {
			for _, left := range []vg.Length{-width / 2, 0, -width} {
				if at := (placed{left, row}); free(at) {
					m.names[i] = at
					break search
				}
			}
		}
		if m.names[i].row < 0 {
			m.stairs(toX, area)
			return
		}
		taken = append(taken, box(m.names[i]))
	}
}

// stairs gives every name a row of its own, so that it crosses no line that ends below it:
// right of its line, the leftmost highest, or all of them left of it.
func (m *marks) stairs(toX func(float64) vg.Length, area draw.Canvas) {
	width := func(k Mark) vg.Length { return markStyle(Ink, m.size).Width(k.Name) }
	left := slices.ContainsFunc(m.list, func(k Mark) bool { return toX(k.X)+2+width(k) > area.Max.X })
	for i, k := range m.list {
		m.names[i] = placed{left: 2, row: len(m.list) - 1 - i}
		if left {
			m.names[i] = placed{left: -width(k) - 2, row: i}
		}
	}
}

// height is what the names need above the data.
func (m *marks) height() vg.Length {
	rows := 0
	for _, at := range m.names {
		rows = max(rows, at.row+1)
	}
	return vg.Length(rows)*m.row() + 2
}

// draw draws the lines on a panel, with their names above the first.
func (m *marks) draw(c draw.Canvas, p *plot.Plot, first bool) {
	toX, _ := p.Transforms(&c)
	for i, k := range m.list {
		x, top := toX(k.X), c.Max.Y
		if first {
			top += vg.Length(m.names[i].row) * m.row()
			c.FillText(markStyle(k.Color, m.size), vg.Point{X: x + m.names[i].left, Y: top + 2}, k.Name)
		}
		sty := draw.LineStyle{Color: k.Color, Width: vg.Points(1.2)}
		if k.Dashed {
			sty.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		c.StrokeLine2(sty, x, c.Min.Y, x, top)
	}
}

func markStyle(c color.RGBA, size float64) text.Style {
	return text.Style{Color: c, Font: sans(size), YAlign: draw.YBottom, Handler: plot.DefaultTextHandler}
}

// valueLabels writes figures beside points, away from each other, from the
// points and from vertical lines; one that finds no room is left out: the table
// under the chart has it.
type valueLabels struct {
	at     XYs
	texts  []string
	beside *Picture // with lines to keep clear of
}

// Plot writes the labels, the outermost first.
func (v *valueLabels) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	sty := markStyle(Ink, v.beside.form.mark)
	var taken, lines []vg.Rectangle
	for _, k := range v.beside.Marks {
		lines = append(lines, vg.Rectangle{Min: vg.Point{X: toX(k.X) - 1, Y: c.Min.Y}, Max: vg.Point{X: toX(k.X) + 1, Y: c.Max.Y}})
	}
	for _, xy := range v.at {
		dot := vg.Point{X: toX(xy.X), Y: toY(xy.Y)}
		taken = append(taken, vg.Rectangle{Min: dot.Sub(vg.Point{X: 3, Y: 3}), Max: dot.Add(vg.Point{X: 3, Y: 3})})
	}
	h := vg.Points(v.beside.form.mark + 0.5)
	for _, i := range outermostFirst(len(v.at)) {
		dot := vg.Point{X: toX(v.at[i].X), Y: toY(v.at[i].Y)}
		if !c.ContainsX(dot.X) {
			continue
		}
		w := sty.Width(v.texts[i])
		place := func(keepOff []vg.Rectangle) (box vg.Rectangle, found bool) {
			for _, low := range []vg.Point{{X: -w / 2, Y: 5}, {X: 2, Y: 4}, {X: -w - 2, Y: 4}, {X: 4, Y: 10}, {X: -w / 2, Y: -h - 5}, {X: 2, Y: -h - 4}} {
				box = vg.Rectangle{Min: dot.Add(low), Max: dot.Add(low).Add(vg.Point{X: w, Y: h})}
				if box.Min.X > c.Min.X && box.Min.Y > c.Min.Y && !slices.ContainsFunc(keepOff, func(t vg.Rectangle) bool { return overlap(t, box) }) {
					return box, true
				}
			}
			return box, false
		}
		box, found := place(slices.Concat(taken, lines))
		if !found { // better over a line than not at all
			box, found = place(taken)
		}
		if found {
			taken = append(taken, box)
			c.SetColor(Faded(paper, 0xb0)) // readable over other lines
			c.Fill(box.Path())
			c.FillText(sty, box.Min, v.texts[i])
		}
	}
}

func outermostFirst(n int) []int {
	var order []int
	for low, high := 0, n-1; low <= high; low, high = low+1, high-1 {
		order = append(order, low, high)
	}
	return slices.Compact(order) // the middle one twice
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
