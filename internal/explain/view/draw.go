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

// Spaced picks at most k of n places, evenly, with the first and the last.
func Spaced(n, k int) []int {
	if n <= k {
		k = n
	}
	var picked []int
	for i := range k {
		if k == 1 {
			return []int{0}
		}
		picked = append(picked, i*(n-1)/(k-1))
	}
	return picked
}

func RangeX(lines []plotter.XYs) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, xys := range lines {
		for _, p := range xys {
			low, high = math.Min(low, p.X), math.Max(high, p.X)
		}
	}
	return low, high
}

func Highest(xys plotter.XYs) float64 {
	top := 0.0
	for _, p := range xys {
		top = math.Max(top, p.Y)
	}
	return top
}

const (
	SeriesPoints = 3   // of a curve: the smallest, a middle and the largest
	seriesDots   = 240 // of a line: more cannot be told apart on a page
)

// Thin averages neighbours until a line has at most seriesDots points.
func Thin(xys plotter.XYs) plotter.XYs {
	every := (len(xys) + seriesDots - 1) / seriesDots
	if every <= 1 {
		return xys
	}
	var out plotter.XYs
	for group := range slices.Chunk(xys, every) {
		var sum plotter.XY
		for _, p := range group {
			sum.X += p.X
			sum.Y += p.Y
		}
		n := float64(len(group))
		out = append(out, plotter.XY{X: sum.X / n, Y: sum.Y / n})
	}
	return out
}

// Sizes of pictures, in points. The page scales them to its width.
const (
	PictureWidth  = 760
	PictureHeight = 330
	TwoPanels     = 400 // height of two panels, one above the other
	legendRunes   = 24
	PngDPI        = 144
)

var (
	Ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	Muted = color.RGBA{0x66, 0x66, 0x66, 0xff}
	grid  = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	paper = color.RGBA{0xff, 0xff, 0xff, 0xff}
)

// Picture is one or two panels with one legend to their right.
type Picture struct {
	About  string // for readers who cannot see it
	Panels []*plot.Plot
	Beside bool // panels left and right instead of above each other
	Height vg.Length
	Legend []LegendEntry
	Marks  *Marks // labels above the first panel
}

type LegendEntry struct {
	Name  string
	Thumb []plot.Thumbnailer
}

func (p *Picture) Add(name string, thumb ...plot.Thumbnailer) {
	p.Legend = append(p.Legend, LegendEntry{name, thumb})
}

// NewPanel is an empty plot in the house style: a light grid, no box, small
// sans-serif type.
func NewPanel(y string) *plot.Plot {
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

// draw puts the picture on a canvas.
func (p *Picture) draw(c draw.Canvas) {
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(10)
	legend.TextStyle.Color = Ink
	legend.Top, legend.Left = true, true
	legend.ThumbnailWidth = vg.Points(18)
	legend.Padding = vg.Points(5)
	for _, e := range p.Legend {
		legend.Add(Clip(e.Name, legendRunes), e.Thumb...)
	}
	right := vg.Length(8)
	if len(p.Legend) > 0 {
		size := legend.Rectangle(c).Size()
		right = size.X + 20
		legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-size.X-4, -4, 0, -vg.Points(8)))
	}
	area := draw.Crop(c, 2, -right, 2, -6)
	if p.Marks != nil {
		p.Marks.place(p.Panels[0], area)
		area.Max.Y -= p.Marks.height()
	}
	tiles := draw.Tiles{Rows: len(p.Panels), Cols: 1, PadY: vg.Points(10)}
	rows := make([][]*plot.Plot, len(p.Panels))
	for i, panel := range p.Panels {
		rows[i] = []*plot.Plot{panel}
	}
	if p.Beside {
		tiles = draw.Tiles{Rows: 1, Cols: len(p.Panels), PadX: vg.Points(16)}
		rows = [][]*plot.Plot{p.Panels}
	}
	for i, row := range plot.Align(rows, tiles, area) {
		for j, canvas := range row {
			rows[i][j].Draw(canvas)
		}
	}
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
func (p *Picture) Svg() (string, error) {
	canvas := vgsvg.New(PictureWidth, p.Height)
	p.draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw %s: %w", p.About, err)
	}
	text := svgOpen.ReplaceAllString(out.String(),
		`<svg viewBox="$1" role="img" aria-label="`+strings.ReplaceAll(html.EscapeString(p.About), "$", "$$")+`">`)
	text = svgFamily.ReplaceAllString(text, "")
	return strings.ReplaceAll(text, "\n\t", " "), nil
}

// png draws the picture on white, for a README.
func (p *Picture) Png(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(PictureWidth, p.Height), vgimg.UseDPI(PngDPI), vgimg.UseBackgroundColor(paper))
	p.draw(draw.New(canvas))
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("draw %s: %w", p.About, err)
	}
	return nil
}

// Finite leaves out what cannot be drawn; positive coordinates where an axis is
// logarithmic.
func Finite(xys plotter.XYs, logX, logY bool) plotter.XYs {
	var ok plotter.XYs
	for _, p := range xys {
		if math.IsNaN(p.X) || math.IsInf(p.X, 0) || math.IsNaN(p.Y) || math.IsInf(p.Y, 0) || logX && p.X <= 0 || logY && p.Y <= 0 {
			continue
		}
		ok = append(ok, p)
	}
	return ok
}

// Style is how a line and its points look.
type Style struct {
	Color color.RGBA
	Shape draw.GlyphDrawer // nil: no points
	Dash  []vg.Length
	Width vg.Length
}

// Line adds a line with its points to a panel and returns what a legend shows.
// The points must be finite.
func Line(p *plot.Plot, xys plotter.XYs, s Style) []plot.Thumbnailer {
	if len(xys) == 0 {
		return nil
	}
	if s.Width == 0 {
		s.Width = vg.Points(1.8)
	}
	l := &plotter.Line{XYs: xys, LineStyle: draw.LineStyle{Color: s.Color, Width: s.Width, Dashes: s.Dash}}
	p.Add(l)
	thumbs := []plot.Thumbnailer{l}
	if s.Shape != nil {
		points := &plotter.Scatter{XYs: xys, GlyphStyle: draw.GlyphStyle{Color: s.Color, Radius: vg.Points(3), Shape: s.Shape}}
		p.Add(points)
		thumbs = append(thumbs, points)
	}
	return thumbs
}

// Area adds a filled outline.
func Area(p *plot.Plot, outline plotter.XYs, fill color.Color) plot.Thumbnailer {
	polygon := &plotter.Polygon{XYs: []plotter.XYs{outline}, Color: fill}
	p.Add(polygon)
	return polygon
}

// ErrorBars adds error bars from low to high around points.
func ErrorBars(p *plot.Plot, xys plotter.XYs, ranges []Range, c color.Color) {
	b := &plotter.YErrorBars{XYs: xys, LineStyle: draw.LineStyle{Color: c, Width: vg.Points(1)}, CapWidth: vg.Points(5)}
	for i, r := range ranges {
		b.YErrors = append(b.YErrors, struct{ Low, High float64 }{xys[i].Y - r.Low, r.High - xys[i].Y})
	}
	p.Add(b)
}

func HighestX(xys plotter.XYs) float64 {
	most := 0.0
	for _, p := range xys {
		most = math.Max(most, p.X)
	}
	return most
}

// Range is from the least to the greatest.
type Range struct{ Low, High float64 }
