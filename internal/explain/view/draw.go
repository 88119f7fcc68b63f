package view

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of pictures, in points. The page scales them to its width.
const (
	PictureWidth  = 760
	pictureHeight = 330
	twoPanels     = 400 // height of two panels, one above the other
	legendRunes   = 24
	PictureDPI    = 144
)

var (
	Ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	Muted = color.RGBA{0x66, 0x66, 0x66, 0xff}
	grid  = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	paper = color.RGBA{0xff, 0xff, 0xff, 0xff}
)

// XY is a point of a chart, XYs are those of a line.
type (
	XY  = plotter.XY
	XYs = plotter.XYs
)

// Range is from the least to the greatest.
type Range struct{ Low, High float64 }

// Picture is one or two panels with one legend to their right.
type Picture struct {
	about   string // for readers who cannot see it
	Panels  []*Panel
	Beside  bool // panels left and right instead of above each other
	Height  vg.Length
	LogX    bool
	Marks   []Mark // vertical lines, named above the first panel
	Omitted int    // figures that no machine measures: they are not drawn
	legend  []legendEntry
	marks   *marks
	bars    []*plotter.BarChart
	form    form  // that is drawn now, or was last
	hits    []hit // what was drawn last
	atX     valueWords
}

// valueWords is a value on an axis as a reader of that axis would say it, with its unit; nil: a
// number.
type valueWords func(v float64) string

func (w valueWords) of(v float64) string {
	if w == nil {
		return Number(v)
	}
	return w(v)
}

// hit is a place of a picture that tells its value to a mouse that is over it.
type hit struct {
	at    vg.Point
	name  string // of its series
	text  string
	color color.RGBA
}

// series are points that tell their values.
type series struct {
	name   string
	says   string // see Style
	xys    XYs
	shift  vg.Length // of bars that stand beside each other
	color  color.RGBA
	labels []string // of x, for each; nil: values
}

// Panel is a plot that remembers its lines: they decide how far its axes reach.
type Panel struct {
	*plot.Plot
	LogY  bool // where the lines span enough for it
	of    *Picture
	lines []XYs
	atY   valueWords

	series []series
}

type legendEntry struct {
	name  string
	thumb []plot.Thumbnailer
	seen  func() bool // nil: always; else whether any of it is inside the axes
}

// Style is how a line and its points look.
type Style struct {
	Color color.RGBA
	Shape draw.GlyphDrawer // nil: no points
	Dash  []vg.Length
	Width vg.Length
	Guide bool   // a line to compare with: it does not stretch the axes
	Says  string // what its values are, to a mouse; "": its name, and what the axis says
}

// NewPicture has a panel for every y axis.
func NewPicture(about string, ys ...string) *Picture {
	p := &Picture{about: about, Height: pictureHeight, marks: &marks{}, form: wideForm}
	for _, y := range ys {
		p.Panels = append(p.Panels, &Panel{Plot: newPanel(y), of: p})
	}
	if len(ys) > 1 {
		p.Height = twoPanels
	}
	return p
}

// Drawn drops the panels without a line and reports whether any is left.
func (p *Picture) Drawn() bool {
	p.Panels = slices.DeleteFunc(p.Panels, func(panel *Panel) bool { return len(panel.lines) == 0 })
	if len(p.Panels) == 1 {
		p.Height = pictureHeight
	}
	return len(p.Panels) > 0
}

// shown are the entries of the legend of which any is inside the axes.
func (p *Picture) shown() []legendEntry {
	return slices.DeleteFunc(slices.Clone(p.legend), func(e legendEntry) bool { return e.seen != nil && !e.seen() })
}

// Legend are the names that the legend shows.
func (p *Picture) Legend() (names []string) {
	for _, e := range p.shown() {
		names = append(names, e.name)
	}
	return names
}

func (p *Picture) name(name string, seen func() bool, thumb ...plot.Thumbnailer) {
	if name != "" {
		p.legend = append(p.legend, legendEntry{name, thumb, seen})
	}
}

// Failed names what has nothing to draw.
func (p *Picture) Failed(name string, c color.RGBA) { p.name(name+" (failed)", nil, emptyThumb{c}) }

// sane leaves out what cannot be drawn, and counts what no machine measures.
func (p *Panel) sane(xys XYs) (ok XYs) {
	for _, at := range xys {
		switch {
		case !Sane(at.X) || !Sane(at.Y):
			p.of.Omitted++
		case p.of.LogX && at.X <= 0 || p.LogY && at.Y <= 0:
		default:
			ok = append(ok, at)
		}
	}
	return ok
}

// Line adds a line with its points, named in the legend. It reports whether there was
// anything to draw.
func (p *Panel) Line(name string, xys XYs, s Style) bool {
	if xys = p.sane(xys); len(xys) == 0 {
		return false
	}
	if s.Width == 0 {
		s.Width = vg.Points(1.8)
	}
	l := &plotter.Line{XYs: xys, LineStyle: draw.LineStyle{Color: s.Color, Width: s.Width, Dashes: s.Dash}}
	thumbs := []plot.Thumbnailer{l}
	p.Add(l)
	if s.Shape != nil {
		thumbs = append(thumbs, p.points(xys, s, 3))
	}
	p.keep(name, xys, s.Guide, thumbs...)
	p.series = append(p.series, series{name: name, says: s.Says, xys: xys, color: s.Color})
	return true
}

// Dots adds points without a line.
func (p *Panel) Dots(name string, xys XYs, s Style) {
	if xys = p.sane(xys); len(xys) == 0 {
		return
	}
	p.keep(name, xys, s.Guide, p.points(xys, s, 3.5))
	p.series = append(p.series, series{name: name, xys: xys, color: s.Color})
}

func (p *Panel) points(xys XYs, s Style, radius float64) *plotter.Scatter {
	points := &plotter.Scatter{XYs: xys, GlyphStyle: draw.GlyphStyle{Color: s.Color, Radius: vg.Points(radius), Shape: s.Shape}}
	p.Add(points)
	return points
}

// Area adds a filled outline: one figure in it that cannot be drawn leaves it out.
func (p *Panel) Area(name string, outline XYs, fill color.Color) {
	if len(outline) == 0 || len(p.sane(outline)) < len(outline) {
		return
	}
	polygon := &plotter.Polygon{XYs: []plotter.XYs{outline}, Color: fill}
	p.Add(polygon)
	p.keep(name, outline, false, polygon)
}

func (p *Panel) keep(name string, xys XYs, guide bool, thumbs ...plot.Thumbnailer) {
	if !guide {
		p.lines = append(p.lines, xys)
	}
	p.of.name(name, func() bool {
		return slices.ContainsFunc(xys, func(at XY) bool { return at.X >= p.X.Min && at.X <= p.X.Max && at.Y >= p.Y.Min && at.Y <= p.Y.Max })
	}, thumbs...)
}

// Spread adds error bars around points whose range holds them.
func (p *Panel) Spread(xys XYs, ranges []Range, c color.Color) {
	b := &plotter.YErrorBars{LineStyle: draw.LineStyle{Color: c, Width: vg.Points(1)}, CapWidth: vg.Points(5)}
	for i, r := range ranges {
		at := xys[i]
		if len(p.sane(XYs{at, {X: at.X, Y: r.Low}, {X: at.X, Y: r.High}})) == 3 && r.Low <= at.Y && at.Y <= r.High && r.Low < r.High {
			b.XYs = append(b.XYs, at)
			b.YErrors = append(b.YErrors, struct{ Low, High float64 }{at.Y - r.Low, r.High - at.Y})
		}
	}
	if len(b.XYs) > 0 {
		p.Add(b)
	}
}

// Labels writes a text beside each point.
func (p *Panel) Labels(xys XYs, texts []string) {
	labels := &valueLabels{beside: p.of}
	for i, at := range xys {
		if len(p.sane(XYs{at})) == 1 {
			labels.at, labels.texts = append(labels.at, at), append(labels.texts, texts[i])
		}
	}
	p.Add(labels)
}

// span is how far the lines reach along x or y.
func span(panels []*Panel, of func(XY) float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, p := range panels {
		for _, xys := range p.lines {
			for _, at := range xys {
				low, high = math.Min(low, of(at)), math.Max(high, of(at))
			}
		}
	}
	return low, high
}

// newPanel is an empty plot in the house style: a light grid, no box, small
// sans-serif type.
func newPanel(y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Y.Label.Text = y
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.LineStyle = draw.LineStyle{Color: Muted, Width: vg.Points(0.8)}
	p.Y.LineStyle.Width = 0
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(10.5)
		axis.Label.TextStyle.Color = Ink
		axis.Label.Padding = vg.Points(5)
		axis.Tick.Label.Font = sans(10)
		axis.Tick.Label.Color = Ink
		axis.Tick.LineStyle = draw.LineStyle{Color: Muted, Width: vg.Points(0.6)}
		axis.Tick.Length = vg.Points(4)
	}
	p.Y.Tick.Length = 0
	lines := plotter.NewGrid()
	lines.Horizontal = draw.LineStyle{Color: grid, Width: vg.Points(0.7)}
	lines.Vertical = draw.LineStyle{Color: grid, Width: vg.Points(0.7)}
	p.Add(lines)
	return p
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

// draw puts the picture on a canvas, in a form.
func (p *Picture) draw(c draw.Canvas, f form) {
	p.form = f
	area := p.withoutLegend(c, f)
	xLabel := ""
	if n := len(p.Panels); n > 0 {
		xLabel = p.Panels[n-1].X.Label.Text
	}
	defer p.suited(f, area)()
	if len(p.Marks) > 0 {
		p.marks.list, p.marks.size = p.Marks, f.mark
		p.marks.place(p.Panels[0].Plot, area)
		area.Max.Y -= p.marks.height()
	}
	tiles := draw.Tiles{Rows: len(p.Panels), Cols: 1, PadY: vg.Points(10)}
	rows := make([][]*plot.Plot, len(p.Panels))
	for i, panel := range p.Panels {
		rows[i] = []*plot.Plot{panel.Plot}
	}
	if p.Beside && !f.narrow {
		tiles = draw.Tiles{Rows: 1, Cols: len(p.Panels), PadX: vg.Points(besidePad)}
		rows = [][]*plot.Plot{slices.Concat(rows...)}
	}
	p.hits = nil
	for i, row := range plot.Align(rows, tiles, area) {
		for j, canvas := range row {
			rows[i][j].Draw(canvas)
			p.hits = append(p.hits, p.Panels[i+j].hits(rows[i][j].DataCanvas(canvas), xLabel)...)
			if len(p.Marks) > 0 {
				p.marks.draw(rows[i][j].DataCanvas(canvas), rows[i][j], i+j == 0)
			}
		}
	}
}

// withoutLegend draws the legend, right of the panels or below them, and returns what is
// left for those.
func (p *Picture) withoutLegend(c draw.Canvas, f form) draw.Canvas {
	if f.narrow {
		return draw.Crop(c, 2, -12, 6+p.legendBelow(f, &c), -6)
	}
	legend, right := newLegend(f), vg.Length(8)
	shown := p.shown()
	for _, e := range shown {
		legend.Add(Clip(e.name, legendRunes), e.thumb...)
	}
	if len(shown) > 0 {
		size := legend.Rectangle(c).Size()
		size.X *= typeSlack
		right = size.X + 20
		legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-size.X-4, -4, 0, -vg.Points(8)))
	}
	return draw.Crop(c, 2, -right, 2, -6)
}

// hits are the points of all series on a canvas of data, with the values and the units that
// the axes show.
func (p *Panel) hits(c draw.Canvas, xLabel string) (out []hit) {
	toX, toY := p.Transforms(&c)
	xName, _, _ := strings.Cut(xLabel, ", ")
	yName, yUnit, _ := strings.Cut(strings.TrimSuffix(p.Y.Label.Text, logMark), ", ")
	if yUnit != "%" && yUnit != "" {
		yUnit = " " + yUnit
	}
	for _, s := range p.series {
		if len(s.xys) > lineDots {
			continue // a line of so many points has none that a mouse could find
		}
		for i, at := range s.xys {
			if at.X < p.X.Min || at.X > p.X.Max || at.Y < p.Y.Min || at.Y > p.Y.Max {
				continue
			}
			x := p.of.atX.of(at.X)
			if s.labels != nil {
				x = s.labels[i]
			}
			text := strings.TrimPrefix(s.name+": ", ": ") + p.atY.of(at.Y) + yUnit + " " + yName
			if s.says != "" {
				text = p.atY.of(at.Y) + yUnit + " " + s.says
			}
			if x = strings.TrimSpace(xName + " " + x); x != "" {
				text += " at " + x
			}
			out = append(out, hit{vg.Point{X: toX(at.X) + s.shift*p.of.barScale(p.of.form), Y: toY(at.Y)}, s.name, text, s.color})
		}
	}
	return out
}

// Of the text that vgsvg writes, what a page does better without: absolute
// sizes, and fonts a reader may not have.
var (
	svgOpen   = regexp.MustCompile(`(?s)^.*?<svg [^>]*viewBox="([^"]*)"[^>]*>`)
	svgFamily = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;?`)
)

// svg draws the picture for a page: sized by its container, text in the page's
// own sans-serif (the Liberation fonts it was laid out with have the widths of
// Arial and Helvetica).
func (p *Picture) svg(f form) (string, error) {
	width, height := p.size(f)
	canvas := vgsvg.New(width, height)
	p.draw(draw.New(canvas), f)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw %s: %w", p.about, err)
	}
	text := svgOpen.ReplaceAllString(out.String(), `<svg viewBox="$1" role="img" aria-label="`+strings.ReplaceAll(html.EscapeString(p.about), "$", "$$")+`">`)
	text = svgFamily.ReplaceAllString(text, "")
	var hits strings.Builder // browsers show a title under the mouse; the page's script does more
	for _, h := range p.hits {
		fmt.Fprintf(&hits, `<circle class="hit" cx="%.1f" cy="%.1f" r="%g" fill="transparent" data-series="%s" data-color="%d,%d,%d"><title>%s</title></circle>`+"\n",
			float64(h.at.X), float64(height-h.at.Y), f.hit, html.EscapeString(h.name), h.color.R, h.color.G, h.color.B, html.EscapeString(h.text))
	}
	if i := strings.LastIndex(text, "</svg>"); i >= 0 {
		text = text[:i] + hits.String() + text[i:]
	}
	return strings.ReplaceAll(text, "\n\t", " "), nil
}

// PNG draws the picture on white, for a README.
func (p *Picture) PNG(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(PictureWidth, p.Height), vgimg.UseDPI(PictureDPI), vgimg.UseBackgroundColor(paper))
	p.draw(draw.New(canvas), wideForm)
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("draw %s: %w", p.about, err)
	}
	return nil
}

// Spaced picks at most k of n places, evenly, with the first and the last.
func Spaced(n, k int) []int {
	k = min(n, k)
	var picked []int
	for i := range k {
		picked = append(picked, i*(n-1)/max(1, k-1))
	}
	return picked
}

// lineDots is how many points of a line can be told apart on a page.
const lineDots = 240

// Thin averages neighbours until a line has at most lineDots points.
func Thin(xys XYs) XYs {
	every := (len(xys) + lineDots - 1) / lineDots
	if every <= 1 {
		return xys
	}
	var out XYs
	for group := range slices.Chunk(xys, every) {
		var sum XY
		for _, p := range group {
			sum.X += p.X
			sum.Y += p.Y
		}
		n := float64(len(group))
		out = append(out, XY{X: sum.X / n, Y: sum.Y / n})
	}
	return out
}

// MaxLines is how many lines a picture holds before it stops being read.
const MaxLines = 9

// CurveStyle is the look of the i-th of several curves.
func CurveStyle(i int) Style {
	colors := [MaxLines]color.RGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
		{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x22, 0x22, 0x22, 0xff}, {0xc9, 0xb8, 0x00, 0xff}, {0x8c, 0x5a, 0x32, 0xff},
	}
	shapes := [MaxLines]draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
		draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}, draw.BoxGlyph{},
	}
	return Style{Color: colors[i%MaxLines], Shape: shapes[i%MaxLines]}
}

// RampStyle is the look of the i-th of n points in ascending order: dark to
// light, so that the order is seen.
func RampStyle(i, n int) Style {
	ramp := [...]color.RGBA{
		{0x44, 0x01, 0x54, 0xff}, {0x46, 0x32, 0x7e, 0xff}, {0x36, 0x5c, 0x8d, 0xff}, {0x27, 0x7f, 0x8e, 0xff},
		{0x1f, 0xa1, 0x87, 0xff}, {0x4a, 0xc1, 0x6d, 0xff}, {0x8f, 0xc7, 0x2e, 0xff}, {0xd0, 0xb4, 0x00, 0xff},
	}
	if n <= 1 {
		return Style{Color: ramp[2]}
	}
	return Style{Color: ramp[i*(len(ramp)-1)/(n-1)]}
}

// Dashed is the pattern of what was not measured by us: the device's account,
// a prediction, a limit of scaling.
func Dashed() []vg.Length { return []vg.Length{vg.Points(5), vg.Points(3)} }

// Dotted is the pattern of what the disk leaves.
func Dotted() []vg.Length { return []vg.Length{vg.Points(1.5), vg.Points(2.5)} }

// Faded is c at opacity alpha, premultiplied as image/color wants it.
func Faded(c color.RGBA, alpha uint8) color.Color { return color.NRGBA{c.R, c.G, c.B, alpha} }
