package view

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
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
	mostTicks     = 9 // labels that have room below a panel
)

// PNG draws the chart on white, for a README.
func (c *Chart) PNG(w io.Writer) error {
	c.fit()
	height := vg.Length(pictureHeight)
	if len(c.Panels) > 1 && !c.Beside {
		height = twoPanels
	}
	canvas := vgimg.NewWith(vgimg.UseWH(PictureWidth, height), vgimg.UseDPI(PictureDPI), vgimg.UseBackgroundColor(paper))
	c.draw(draw.New(canvas))
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("draw %s: %w", c.About, err)
	}
	return nil
}

var paper = Color{light: 0xffffff}.ink(0xff)

func (c *Chart) draw(canvas draw.Canvas) {
	legend := plot.NewLegend()
	legend.TextStyle = styled(Ink, typeSize)
	legend.Top, legend.Left = true, true
	legend.ThumbnailWidth, legend.Padding = vg.Points(18), vg.Points(5)
	right := vg.Length(8)
	if entries := c.legend(); len(entries) > 0 {
		for _, e := range entries {
			legend.Add(Clip(e.name, legendRunes), e)
		}
		width := legend.Rectangle(canvas).Size().X
		right = width + 20
		legend.Draw(draw.Crop(canvas, canvas.Max.X-canvas.Min.X-width-4, -4, 0, -vg.Points(8)))
	}
	area := draw.Crop(canvas, 2, -right, 2, -6)
	tiles := draw.Tiles{Rows: len(c.Panels), Cols: 1, PadY: vg.Points(10)}
	plots := make([][]*plot.Plot, len(c.Panels))
	columns := 1
	if c.Beside {
		columns = len(c.Panels)
		tiles, plots = draw.Tiles{Rows: 1, Cols: columns, PadX: vg.Points(16)}, make([][]*plot.Plot, 1)
	}
	var all []*plot.Plot
	for i, p := range c.Panels {
		one := p.plot(c.X, (area.Max.X-area.Min.X)/vg.Length(columns))
		if c.Beside {
			plots[0] = append(plots[0], one)
		} else {
			plots[i] = []*plot.Plot{one}
		}
		if !c.Beside && i < len(c.Panels)-1 {
			one.X.Label.Text = ""
		}
		all = append(all, one)
	}
	rows := 0
	if len(c.Marks) > 0 {
		data := all[0].DataCanvas(area)
		toX, _ := all[0].Transforms(&data)
		rows = c.markRows(toX, area.Max.X)
		area.Max.Y -= vg.Length(rows)*markRow + 2
	}
	for i, row := range plot.Align(plots, tiles, area) {
		for j, at := range row {
			plots[i][j].Draw(at)
			data := plots[i][j].DataCanvas(at)
			toX, _ := plots[i][j].Transforms(&data)
			c.drawMarks(data, toX, i+j == 0)
		}
	}
}

// plot is a panel for gonum: a light grid, no box, small sans-serif type.
func (p *Panel) plot(x Axis, width vg.Length) *plot.Plot {
	g := plot.New()
	g.BackgroundColor = nil
	grid := draw.LineStyle{Color: Color{light: 0xe4e4e4}.ink(0xff), Width: vg.Points(0.7)}
	g.X.Padding, g.Y.Padding = 0, 0
	for axis, of := range map[*plot.Axis]Axis{&g.X: x, &g.Y: p.Axis} {
		axis.Min, axis.Max = of.Min, of.Max
		if of.logarithmic() {
			axis.Scale = plot.LogScale{}
		}
		axis.LineStyle = draw.LineStyle{Color: Muted.ink(0xff), Width: vg.Points(0.8)}
		axis.Label.Text, axis.Label.TextStyle.Font, axis.Label.TextStyle.Color = of.title(axis == &g.Y), sans(labelSize), Ink.ink(0xff)
		axis.Label.Padding = vg.Points(5)
		axis.Tick.Label.Font, axis.Tick.Label.Color = sans(typeSize), Ink.ink(0xff)
		axis.Tick.LineStyle = draw.LineStyle{Color: Muted.ink(0xff), Width: vg.Points(0.6)}
		axis.Tick.Length = vg.Points(4)
		most := mostTicks
		if axis == &g.X {
			most = int(math.Round(mostTicks * float64(width) / PictureWidth * 1.25))
		}
		ticks := of.ticks(max(2, most))
		var shown plot.ConstantTicks
		for _, t := range ticks {
			label := t.label
			for n := len([]rune(label)); of.Kind == grouped && n > 6 && axis.Tick.Label.Width(label) > (width-60)/vg.Length(len(ticks))-6; n-- {
				label = Clip(t.label, n)
			}
			shown = append(shown, plot.Tick{Value: t.at, Label: label})
		}
		axis.Tick.Marker = shown
		if of.Kind == grouped {
			axis.Tick.Color = nil
			axis.Tick.LineStyle.Width = 0
		}
	}
	g.Y.Tick.Length, g.Y.LineStyle.Width = 0, 0
	lines := plotter.NewGrid()
	lines.Horizontal, lines.Vertical = grid, grid
	g.Add(lines)
	for i := range p.Series {
		g.Add(drawn{p, i})
	}
	return g
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

func styled(c Color, size float64) text.Style {
	return text.Style{Color: c.ink(0xff), Font: sans(size), YAlign: draw.YBottom, Handler: plot.DefaultTextHandler}
}

// drawn is a series of a panel for gonum.
type drawn struct {
	*Panel
	nth int
}

// Plot draws the series.
func (d drawn) Plot(c draw.Canvas, p *plot.Plot) {
	s := &d.Series[d.nth]
	toX, toY := p.Transforms(&c)
	at := func(x, y float64) vg.Point { return vg.Point{X: toX(x), Y: toY(y)} }
	var tops, lower []vg.Point
	for _, xy := range s.Points {
		low, high := xy.Y, xy.Y
		switch {
		case s.stacks():
			low = d.bottom(d.nth, xy.X)
			high += low
		case s.Band:
			low, high = xy.Low, xy.High
		}
		tops, lower = append(tops, at(xy.X, high)), append(lower, at(xy.X, low))
	}
	outline := func() []vg.Point {
		slices.Reverse(lower)
		return c.ClipPolygonXY(append(slices.Clone(tops), lower...))
	}
	switch s.Form {
	case texts:
		d.write(c, s.Points, tops)
	case area:
		c.FillPolygon(s.Color.ink(0xd0), outline())
	case bar, stack:
		half := (toX(s.Breath) - toX(0)) / 2
		for i, top := range tops {
			foot := toY(0)
			if s.Form == stack {
				foot = lower[i].Y
			}
			c.FillPolygon(s.Color.ink(0xe8), box(vg.Point{X: top.X - half, Y: foot}, vg.Point{X: top.X + half, Y: top.Y}))
		}
		for _, limit := range s.Limits {
			seen(c, Red, 1.6, []float64{3, 1.5}, at(limit.X, limit.Y).Add(vg.Point{X: -half}), at(limit.X, limit.Y).Add(vg.Point{X: half}))
		}
		for _, x := range s.Failed {
			s.glyph(&c, at(x, 0).Add(vg.Point{Y: 5}), Cross, 4)
		}
		d.ranges(c, s, at, Muted)
	default:
		if s.Band {
			c.FillPolygon(s.Color.ink(0x40), outline())
			tops = nil
			for _, xy := range s.Points {
				tops = append(tops, at(xy.X, xy.Y))
			}
		}
		if s.Form == aLine {
			c.StrokeLines(s.stroke(), c.ClipLinesXY(tops)...)
		}
		for _, dot := range tops {
			if c.Contains(dot) {
				s.glyph(&c, dot, s.Shape, 3)
			}
		}
		if !s.Band {
			d.ranges(c, s, at, s.Color)
		}
	}
}

func box(low, high vg.Point) []vg.Point {
	return []vg.Point{low, {X: low.X, Y: high.Y}, high, {X: high.X, Y: low.Y}}
}

// ranges draws those of points.
func (d drawn) ranges(c draw.Canvas, s *Series, at func(x, y float64) vg.Point, ink Color) {
	for _, xy := range s.Points {
		if xy.wide() {
			seen(c, ink, 1, nil, at(xy.X, xy.Low), at(xy.X, math.Min(xy.High, d.Max)))
		}
	}
}

// seen is a line that is seen on a bar of its colour.
func seen(c draw.Canvas, ink Color, width float64, dash []float64, points ...vg.Point) {
	c.StrokeLines(draw.LineStyle{Color: paper, Width: vg.Points(width + 1.6)}, points)
	c.StrokeLines(Style{Color: ink, Width: width, Dash: dash}.stroke(), points)
}

func (s Style) stroke() draw.LineStyle {
	line := draw.LineStyle{Color: s.Color.ink(0xff), Width: vg.Points(s.Width)}
	for _, d := range s.Dash {
		line.Dashes = append(line.Dashes, vg.Points(d))
	}
	return line
}

func (s Style) glyph(c *draw.Canvas, at vg.Point, shape Shape, radius float64) {
	shapes := map[Shape]draw.GlyphDrawer{Circle: draw.CircleGlyph{}, Ring: draw.RingGlyph{}, Box: draw.BoxGlyph{}, Square: draw.SquareGlyph{},
		Pyramid: draw.PyramidGlyph{}, Triangle: draw.TriangleGlyph{}, Cross: draw.CrossGlyph{}, Plus: draw.PlusGlyph{}}
	if drawer := shapes[shape]; drawer != nil {
		c.DrawGlyph(draw.GlyphStyle{Color: s.Color.ink(0xff), Radius: vg.Points(radius), Shape: drawer}, at)
	}
}

// Thumbnail draws a series in the legend.
func (e entry) Thumbnail(c *draw.Canvas) {
	middle := c.Center()
	switch {
	case len(e.Points) == 0:
		e.glyph(c, middle, Cross, 4)
	case e.stacks() || e.Form == bar:
		c.FillPolygon(e.Color.ink(0xe0), box(c.Min, c.Max))
	case e.Form == aLine:
		c.StrokeLine2(e.stroke(), c.Min.X, middle.Y, c.Max.X, middle.Y)
		fallthrough
	default:
		e.glyph(c, middle, e.Shape, 3)
	}
}

// markRows gives every mark a row for its name, which is right of its line: above the rows
// of the lines that it lies over. It returns how many rows there are.
func (c *Chart) markRows(toX func(float64) vg.Length, right vg.Length) (rows int) {
	slices.SortStableFunc(c.Marks, func(a, b Mark) int { return cmp.Compare(a.X, b.X) })
	for i := len(c.Marks) - 1; i >= 0; i-- {
		m := &c.Marks[i]
		width := styled(Ink, markSize).Width(m.Name)
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

// drawMarks draws the lines on a panel, with their names above the first.
func (c *Chart) drawMarks(data draw.Canvas, toX func(float64) vg.Length, first bool) {
	for _, m := range c.Marks {
		x, top := toX(m.X), data.Max.Y
		line := Style{Color: m.Color, Width: 1.2}
		if m.Dashed {
			line.Dash = []float64{4, 3}
		}
		if first {
			top += vg.Length(m.row) * markRow
			data.FillText(styled(m.Color, markSize), vg.Point{X: x + m.left, Y: top + 2}, m.Name)
		}
		data.StrokeLine2(line.stroke(), x, data.Min.Y, x, top)
	}
}

// write writes texts beside points, away from each other and from the points, the outermost
// first; one that finds no room is left out: the table under the chart has it.
func (d drawn) write(c draw.Canvas, points XYs, dots []vg.Point) {
	style := styled(Ink, markSize)
	var taken []vg.Rectangle
	for _, dot := range dots {
		taken = append(taken, vg.Rectangle{Min: dot.Sub(vg.Point{X: 3, Y: 3}), Max: dot.Add(vg.Point{X: 3, Y: 3})})
	}
	for low, high := 0, len(points)-1; low <= high; low, high = low+1, high-1 {
		for _, i := range slices.Compact([]int{low, high}) {
			width, height := style.Width(points[i].Text), vg.Length(markSize)
			for _, corner := range []vg.Point{{X: -width / 2, Y: 5}, {X: 2, Y: 4}, {X: -width - 2, Y: 4}, {X: 4, Y: 10}, {X: -width / 2, Y: -height - 5}} {
				room := vg.Rectangle{Min: dots[i].Add(corner), Max: dots[i].Add(corner).Add(vg.Point{X: width, Y: height})}
				if room.Min.X > c.Min.X && room.Min.Y > c.Min.Y && !slices.ContainsFunc(taken, func(t vg.Rectangle) bool { return overlap(t, room) }) {
					taken = append(taken, room)
					c.SetColor(Color{light: 0xffffff}.ink(0xb0)) // readable over lines
					c.Fill(room.Path())
					c.FillText(style, room.Min, points[i].Text)
					break
				}
			}
		}
	}
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
