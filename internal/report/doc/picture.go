package doc

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Sizes of a picture, in units of its viewBox: pixels of a page. A file is as wide as one column of
// a paper, and has as many units as make its type paperType high.
const (
	pictureWidth = 440.0
	columnWidth  = 3.5 // of a paper, in inches
	paperType    = 8.0 // in points, of which an inch has 72
	paperWidth   = columnWidth * 72 / paperType * typeSize
	typeSize     = 12.0
	lineHeight   = 15.0
	pictureEdge  = 4.0
	onlyPanel    = 220.0 // height of the data of one panel
	eachPanel    = 150.0 // of one of several, which are above each other
	panelGap     = 12.0
	tickLength   = 4.0
	yTicks       = 8
	xTicks       = 9
	turnedName   = 110.0 // most that a turned name of a group takes
	dotSize      = 3.5   // of points: half of their width
)

// sampleSize is that of a series in the legend, which the page's script knows, too.
var sampleSize = point{22, 12}

// SVG writes the chart as a file of its own: on white, in the colours of paper, one column of a
// paper wide, with type of 8 points. caption is added to its description.
func (c *Chart) SVG(w io.Writer, caption string) error {
	d := &drawing{ink: Color.hex, width: paperWidth}
	text := c.picture(d, inches, caption, "xmlns", "http://www.w3.org/2000/svg")
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the chart %q: %w", c.About, err)
	}
	return nil
}

// Inline is the same picture as a part of a page, in the colours of the page (PaletteStyle).
func (c *Chart) Inline() template.HTML {
	d := &drawing{ink: Color.variable, width: pictureWidth}

	return template.HTML(c.picture(d, coordinate, ""))
}

// inches is a length in a file for papers.
func inches(units float64) string {
	return strconv.FormatFloat(units*columnWidth/paperWidth, 'f', 3, 64) + "in"
}

// picture lays out the panels above each other on d, and the legend below them. length prints the
// width and the height. The root element has the attributes, its description ends with the caption.
func (c *Chart) picture(
	d *drawing, length func(units float64) string, caption string, attributes ...string,
) string {
	c.fit()
	d.depth = 1

	left := 0.0
	for _, p := range c.Panels {
		for _, t := range p.ticks(yTicks) {
			left = max(left, textWidth(t.label))
		}
	}

	left += pictureEdge + 6

	foot := pictureEdge
	for i, p := range c.Panels {
		if i > 0 {
			foot += panelGap
		}

		f := frame{drawing: d, Panel: p, x: c.X}
		f.data.min.x, f.data.max.x = left, d.width-pictureEdge-2
		foot = f.panel(c, i, foot)
	}

	foot = d.legend(c.legend(), foot+6)
	foot += pictureEdge

	root := &drawing{ink: d.ink}
	root.open("svg", append(attributes, "class", "picture", "role", "img",
		"width", length(d.width), "height", length(foot),
		"viewBox", coordinates(0, 0, d.width, foot),
		"font-family", "Helvetica, Arial, Liberation Sans, sans-serif",
		"font-size", coordinate(typeSize), "fill", d.ink(Ink))...)

	root.node("title", Upper(c.About))
	root.node("desc", strings.TrimSpace(c.description()+" "+caption))
	root.element("rect", "width", "100%", "height", "100%", "fill", d.ink(paper))
	root.WriteString(d.String())
	root.close("svg")
	return root.String()
}

// description says what the axes are and what is drawn, for readers who cannot see it.
func (c *Chart) description() string {
	names := Each(c.Panels, func(p *Panel) string { return p.title(true) })
	text := Upper(strings.Join(Without(names), "; "))
	if c.X.Label != "" {
		text += " by " + c.X.title(false)
	}

	text += "."
	if legend := c.Legend(); len(legend) > 0 {
		text += " Series: " + strings.Join(legend, ", ") + "."
	}

	if c.Omitted > 0 {
		text += fmt.Sprintf(" Not drawn: %d %s figures.", c.Omitted, Absurd)
	}

	return text
}

// frame is a panel on paper: data is where values are drawn.
type frame struct {
	*drawing
	*Panel
	x    Axis
	data box
}

func (f *frame) toX(v float64) float64 {
	return f.data.min.x + f.x.place(v)*(f.data.max.x-f.data.min.x)
}

func (f *frame) toY(v float64) float64 {
	return f.data.max.y - f.place(v)*(f.data.max.y-f.data.min.y)
}

func (f *frame) at(x, y float64) point { return point{f.toX(x), f.toY(y)} }

// panel draws the i-th panel below top: its title, names of marks, data and labels. It returns
// where the panel ends.
func (f *frame) panel(c *Chart, i int, top float64) (foot float64) {
	f.open("g", "class", "panel")
	title := f.title(true)
	if title != "" {
		top += lineHeight
		f.text(point{pictureEdge, top - 3}, "start", title)
	}

	labels := f.labelsBelow()
	f.data.max.x -= labels.beyond
	marks, rows := c.marksIn(f)
	if i == 0 && rows > 0 {
		top += lineHeight * float64(rows)
	}

	height := onlyPanel
	if len(c.Panels) > 1 {
		height = eachPanel
	}

	f.data.min.y = top + 6
	f.data.max.y = f.data.min.y + height

	f.axes(labels)
	foot = f.data.max.y + tickLength + labels.height
	if named := c.Beside || i == len(c.Panels)-1; named && f.x.title(false) != "" {
		foot += lineHeight + 2
		f.text(point{(f.data.min.x + f.data.max.x) / 2, foot - 4}, "middle", f.x.title(false))
	}

	f.openWindow(f.data, dotSize+1)
	for nth := range f.Series {
		f.series(nth)
	}

	f.closeWindow()
	names := f.marks(marks, i == 0)
	for _, s := range f.Series {
		if s.Form == texts {
			f.beside(s.Points, names)
		}
	}

	f.close("g")
	return foot
}

// labelsOfX are the labels below a panel.
type labelsOfX struct {
	ticks  []tick
	height float64
	beyond float64 // how far the last one reaches beyond the data
	turned bool    // names of groups that have no room side by side
}

// labelsBelow picks as many labels as do not touch.
func (f *frame) labelsBelow() (l labelsOfX) {
	wide := f.data.max.x - f.data.min.x
	if f.x.Kind == grouped {
		return groupLabels(f.x.ticks(xTicks), wide/float64(len(f.x.Names))-6)
	}

	for maximum := xTicks; ; maximum-- {
		l.ticks = f.x.ticks(maximum)
		last, touch := math.Inf(-1), false
		for _, t := range l.ticks {
			half := textWidth(t.label) / 2
			touch = touch || f.toX(t.at)-half < last+8
			last = f.toX(t.at) + half
		}

		if !touch || maximum == 2 {
			l.beyond = max(0, last-f.width+pictureEdge)
			break
		}
	}

	l.height = lineHeight
	for _, t := range l.ticks {
		l.height = max(l.height, lineHeight*float64(1+strings.Count(t.label, "\n")))
	}

	return l
}

// groupLabels are names that have some room side by side, or are turned and cut.
func groupLabels(ticks []tick, room float64) labelsOfX {
	l := labelsOfX{ticks: ticks, height: lineHeight}
	for _, t := range ticks {
		l.turned = l.turned || textWidth(t.label) > room
	}

	if !l.turned {
		return l
	}

	for i, t := range ticks {
		l.ticks[i].label = clipToWidth(t.label, turnedName)
		l.height = max(l.height, textWidth(l.ticks[i].label)+4)
	}

	return l
}

// axes draws a light grid, ticks and labels without a box.
func (f *frame) axes(labels labelsOfX) {
	var lines path
	f.open("g", "class", "axes")
	ticks := f.ticks(yTicks)
	for _, t := range ticks {
		lines.line(point{f.data.min.x, f.toY(t.at)}, point{f.data.max.x, f.toY(t.at)})
	}

	if f.x.Kind != grouped {
		for _, t := range labels.ticks {
			lines.line(
				point{f.toX(t.at), f.data.min.y},
				point{f.toX(t.at), f.data.max.y + tickLength},
			)
		}
	}

	f.element("path", "d", string(lines), "fill", "none", "stroke", f.ink(grid))
	for _, t := range ticks {
		f.text(point{f.data.min.x - 5, f.toY(t.at) + typeSize/3}, "end", t.label)
	}

	for _, t := range labels.ticks {
		at := point{f.toX(t.at), f.data.max.y + tickLength}
		if labels.turned {
			f.turnedText(point{at.x + typeSize/3, at.y}, t.label)
			continue
		}

		for n, line := range strings.Split(t.label, "\n") {
			f.text(point{at.x, at.y + lineHeight*float64(n+1) - 4}, "middle", line)
		}
	}

	var axis path
	axis.line(point{f.data.min.x, f.data.max.y}, f.data.max)
	f.element("path", "d", string(axis), "fill", "none", "stroke", f.ink(Muted))
	f.close("g")
}

// series draws one: its band or bars, its line, its points, their ranges.
func (f *frame) series(nth int) {
	s := &f.Series[nth]
	if s.Form == texts {
		return // above all others
	}

	f.open("g", "class", string(s.Form))
	if s.Name != "" {
		f.node("title", s.Name)
	}

	var tops, feet []point
	for _, xy := range s.Points {
		low, high := 0.0, xy.Y
		if s.stacks() {
			low = f.bottom(nth, xy.X)
			high += low
		}

		tops, feet = append(tops, f.at(xy.X, high)), append(feet, f.at(xy.X, low))
	}

	switch s.Form {
	case area:
		var outline path
		outline.between(tops, feet)
		f.fill(outline, s.Color, "stroke", f.ink(paper), "stroke-width", ".6")
	case bar, stack:
		f.bars(s, tops, feet)
	default:
		f.lineOf(s, tops)
	}

	f.close("g")
}

// bars draws those of a series, with their ranges, limits, and crosses where there is none.
func (f *frame) bars(s *Series, tops, feet []point) {
	half := point{x: (f.toX(s.Breath) - f.toX(0)) / 2}
	var bars, ranges, limits, failed path
	for i := range tops {
		bars.box(box{tops[i].minus(half), feet[i].plus(half)})
	}

	f.fill(bars, s.Color)
	for _, xy := range s.Points {
		if xy.wide() {
			ranges.line(f.at(xy.X, xy.Low), f.at(xy.X, xy.High))
		}
	}

	f.onBars(ranges, Muted, 1.2)
	for _, limit := range s.Limits {
		at := f.at(limit.X, limit.Y)
		limits.line(at.minus(half), at.plus(half))
	}

	f.onBars(limits, Red, 1.6, "stroke-dasharray", "3 1.5")
	for _, x := range s.Failed {
		failed.shape(Cross, f.at(x, 0).minus(point{y: 6}))
	}

	f.points(failed, Style{Color: s.Color, Shape: Cross})
}

// onBars draws lines that are seen on bars of their colour.
func (f *frame) onBars(lines path, c Color, width float64, more ...string) {
	f.stroke(lines, paper, width+1.6)
	f.stroke(lines, c, width, more...)
}

// lineOf draws a line and its points, with their ranges as a band or as bars with ends.
func (f *frame) lineOf(s *Series, at []point) {
	var line, ranges, dots path
	if s.Band {
		var band path
		var highs, lows []point
		for _, xy := range s.Points {
			if xy.wide() {
				highs, lows = append(highs, f.at(xy.X, xy.High)), append(lows, f.at(xy.X, xy.Low))
			}
		}

		band.between(highs, lows)
		f.fill(band, s.Color, "fill-opacity", ".25")
	}

	if s.Form == aLine {
		line.through(at)
		f.stroke(line, s.Color, s.Width, dashes(s.Dash)...)
	}

	for i, xy := range s.Points {
		if xy.wide() && !s.Band {
			high, low, end := f.at(xy.X, xy.High), f.at(xy.X, xy.Low), point{x: 3}
			ranges.line(high, low)
			ranges.line(high.minus(end), high.plus(end))
			ranges.line(low.minus(end), low.plus(end))
		}

		if f.data.contains(at[i]) {
			dots.shape(s.Shape, at[i])
		}
	}

	f.stroke(ranges, s.Color, 1.2)
	f.points(dots, s.Style)
}

// placedMark is a mark with the place of its line and of its name.
type placedMark struct {
	Mark
	at, left float64
	row      int // of the name, 0 next to the data
}

// marksIn gives every mark a row for its name, which is right of its line: above the rows of
// the lines that it lies over. It returns how many rows there are.
func (c *Chart) marksIn(f *frame) (marks []placedMark, rows int) {
	marks = Each(c.Marks, func(m Mark) placedMark { return placedMark{Mark: m, at: f.toX(m.X)} })
	slices.SortStableFunc(marks, func(a, b placedMark) int { return cmp.Compare(a.at, b.at) })
	for i := len(marks) - 1; i >= 0; i-- {
		m := &marks[i]
		width := textWidth(m.Name)
		m.left = max(0, min(m.at+3, f.width-pictureEdge-width))
		for _, other := range marks[i+1:] {
			if min(other.at, other.left) < m.left+width+4 {
				m.row = max(m.row, other.row+1)
			}
		}

		if m.Name != "" {
			rows = max(rows, m.row+1)
		}
	}

	return marks, rows
}

// marks draws the lines on a panel, with their names above the first. It returns where these are.
func (f *frame) marks(marks []placedMark, first bool) (names []box) {
	for _, m := range marks {
		top := f.data.min.y
		if first {
			top -= float64(m.row) * lineHeight
		}

		var dash []float64
		if m.Dashed {
			dash = []float64{4, 3}
		}

		f.open("g", "class", "mark")
		var line path
		line.line(point{m.at, f.data.max.y}, point{m.at, top})
		f.stroke(line, m.Color, 1.2, dashes(dash)...)
		if first && m.Name != "" {
			f.text(point{m.left, top - 3}, "start", m.Name, "fill", f.ink(m.Color))
			room := point{textWidth(m.Name), lineHeight}
			names = append(names, box{point{m.left, top - room.y}, point{m.left + room.x, top}})
		}

		f.close("g")
	}

	return names
}

// beside writes texts next to points, away from each other, from the points and from what is
// taken already, the outermost first; one that finds no room is left out: the table under the
// chart has it.
func (f *frame) beside(points XYs, taken []box) {
	dots := Each(points, func(xy XY) point { return f.at(xy.X, xy.Y) })
	for _, dot := range dots {
		taken = append(taken, box{dot.minus(point{4, 4}), dot.plus(point{4, 4})})
	}

	f.open("g", "class", "text")
	for low, high := 0, len(points)-1; low <= high; low, high = low+1, high-1 {
		for _, i := range slices.Compact([]int{low, high}) {
			size := point{textWidth(points[i].Text), typeSize}
			half := size.x / 2
			for _, corner := range []point{
				{-half, -5}, {3, -4}, {-size.x - 3, -4}, {5, -11}, {-half, size.y + 5},
			} {
				foot := dots[i].plus(corner)
				room := box{foot.minus(point{y: size.y}), foot.plus(point{x: size.x})}
				inside := room.min.x > f.data.min.x && room.max.x < f.width &&
					room.max.y < f.data.max.y
				if !inside || slices.ContainsFunc(taken, room.overlaps) {
					continue
				}

				taken = append(taken, room)
				var under path
				under.box(room)
				f.fill(under, paper, "fill-opacity", ".7") // readable over lines
				f.text(foot.minus(point{y: 2}), "start", points[i].Text)
				break
			}
		}
	}

	f.close("g")
}

// legend writes the names of series below top, in rows. It returns where it ends. The page's
// script takes what each series looks like from here.
func (d *drawing) legend(entries []entry, top float64) (foot float64) {
	if len(entries) == 0 {
		return top
	}

	d.open("g", "class", "legend")
	at := point{pictureEdge, top}
	for _, e := range entries {
		name := clipToWidth(strings.TrimSpace(e.name), d.width-2*pictureEdge-sampleSize.x-5)
		width := sampleSize.x + 5 + textWidth(name)
		if at.x > pictureEdge && at.x+width > d.width-pictureEdge {
			at = point{pictureEdge, at.y + lineHeight}
		}

		d.open("g", "transform", "translate("+coordinates(at.x, at.y)+")")
		d.open("g", "class", "look")
		d.sample(e)
		d.close("g")
		d.text(point{sampleSize.x + 5, typeSize - 1.5}, "start", name)
		d.close("g")
		at.x += width + 14
	}

	d.close("g")
	return at.y + lineHeight
}

// sample draws what a series looks like, in a box of sampleSize.
func (d *drawing) sample(e entry) {
	middle := point{sampleSize.x / 2, sampleSize.y / 2}
	var form, dot, band path
	switch {
	case len(e.Points) == 0:
		dot.shape(Cross, middle)
		d.points(dot, Style{Color: e.Color, Shape: Cross})
		return
	case e.stacks() || e.Form == bar:
		form.box(box{point{3, 1}, point{sampleSize.x - 3, sampleSize.y - 1}})
		d.fill(form, e.Color)
		return
	}

	if e.Band {
		band.box(box{point{0, 1}, point{sampleSize.x, sampleSize.y - 1}})
		d.fill(band, e.Color, "fill-opacity", ".25")
	}

	if e.Form == aLine {
		form.line(point{0, middle.y}, point{sampleSize.x, middle.y})
		d.stroke(form, e.Color, e.Width, dashes(e.Dash)...)
	}

	dot.shape(e.Shape, middle)
	d.points(dot, e.Style)
}
