package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"math"
	"regexp"
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
	pictureWidth  = 760
	pictureHeight = 330
	twoPanels     = 400 // height of two panels, one above the other
	legendRunes   = 24
	pngDPI        = 144
)

var (
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	muted = color.RGBA{0x66, 0x66, 0x66, 0xff}
	grid  = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	paper = color.RGBA{0xff, 0xff, 0xff, 0xff}
)

// picture is one or two panels with one legend to their right.
type picture struct {
	about  string // for readers who cannot see it
	panels []*plot.Plot
	beside bool // panels left and right instead of above each other
	height vg.Length
	legend []legendEntry
	marks  *marks // labels above the first panel
}

type legendEntry struct {
	name  string
	thumb []plot.Thumbnailer
}

func (p *picture) add(name string, thumb ...plot.Thumbnailer) {
	p.legend = append(p.legend, legendEntry{name, thumb})
}

// newPanel is an empty plot in the house style: a light grid, no box, small
// sans-serif type.
func newPanel(y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Y.Label.Text = y
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.LineStyle = draw.LineStyle{Color: muted, Width: vg.Points(0.8)}
	p.Y.LineStyle.Width = 0
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(10.5)
		axis.Label.TextStyle.Color = ink
		axis.Label.Padding = vg.Points(5)
		axis.Tick.Label.Font = sans(10)
		axis.Tick.Label.Color = ink
		axis.Tick.LineStyle = draw.LineStyle{Color: muted, Width: vg.Points(0.6)}
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
func (p *picture) draw(c draw.Canvas) {
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(10)
	legend.TextStyle.Color = ink
	legend.Top, legend.Left = true, true
	legend.ThumbnailWidth = vg.Points(18)
	legend.Padding = vg.Points(5)
	for _, e := range p.legend {
		legend.Add(clip(e.name, legendRunes), e.thumb...)
	}
	right := vg.Length(8)
	if len(p.legend) > 0 {
		size := legend.Rectangle(c).Size()
		right = size.X + 20
		legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-size.X-4, -4, 0, -vg.Points(8)))
	}
	area := draw.Crop(c, 2, -right, 2, -6)
	if p.marks != nil {
		p.marks.place(p.panels[0], area)
		area.Max.Y -= p.marks.height()
	}
	tiles := draw.Tiles{Rows: len(p.panels), Cols: 1, PadY: vg.Points(10)}
	rows := make([][]*plot.Plot, len(p.panels))
	for i, panel := range p.panels {
		rows[i] = []*plot.Plot{panel}
	}
	if p.beside {
		tiles = draw.Tiles{Rows: 1, Cols: len(p.panels), PadX: vg.Points(16)}
		rows = [][]*plot.Plot{p.panels}
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
func (p *picture) svg() (string, error) {
	canvas := vgsvg.New(pictureWidth, p.height)
	p.draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw %s: %w", p.about, err)
	}
	text := svgOpen.ReplaceAllString(out.String(),
		`<svg viewBox="$1" role="img" aria-label="`+strings.ReplaceAll(html.EscapeString(p.about), "$", "$$")+`">`)
	text = svgFamily.ReplaceAllString(text, "")
	return strings.ReplaceAll(text, "\n\t", " "), nil
}

// png draws the picture on white, for a README.
func (p *picture) png(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(pictureWidth, p.height), vgimg.UseDPI(pngDPI), vgimg.UseBackgroundColor(paper))
	p.draw(draw.New(canvas))
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("draw %s: %w", p.about, err)
	}
	return nil
}

// finite leaves out what cannot be drawn; positive coordinates where an axis is
// logarithmic.
func finite(xys plotter.XYs, logX, logY bool) plotter.XYs {
	var ok plotter.XYs
	for _, p := range xys {
		if math.IsNaN(p.X) || math.IsInf(p.X, 0) || math.IsNaN(p.Y) || math.IsInf(p.Y, 0) || logX && p.X <= 0 || logY && p.Y <= 0 {
			continue
		}
		ok = append(ok, p)
	}
	return ok
}

// style is how a line and its points look.
type style struct {
	color color.RGBA
	shape draw.GlyphDrawer // nil: no points
	dash  []vg.Length
	width vg.Length
}

// line adds a line with its points to a panel and returns what a legend shows.
// The points must be finite.
func line(p *plot.Plot, xys plotter.XYs, s style) []plot.Thumbnailer {
	if len(xys) == 0 {
		return nil
	}
	if s.width == 0 {
		s.width = vg.Points(1.8)
	}
	l := &plotter.Line{XYs: xys, LineStyle: draw.LineStyle{Color: s.color, Width: s.width, Dashes: s.dash}}
	p.Add(l)
	thumbs := []plot.Thumbnailer{l}
	if s.shape != nil {
		points := &plotter.Scatter{XYs: xys, GlyphStyle: draw.GlyphStyle{Color: s.color, Radius: vg.Points(3), Shape: s.shape}}
		p.Add(points)
		thumbs = append(thumbs, points)
	}
	return thumbs
}

// area adds a filled outline.
func area(p *plot.Plot, outline plotter.XYs, fill color.Color) plot.Thumbnailer {
	polygon := &plotter.Polygon{XYs: []plotter.XYs{outline}, Color: fill}
	p.Add(polygon)
	return polygon
}

// bars adds error bars from low to high around points.
func bars(p *plot.Plot, xys plotter.XYs, ranges []struct{ low, high float64 }, c color.Color) {
	b := &plotter.YErrorBars{XYs: xys, LineStyle: draw.LineStyle{Color: c, Width: vg.Points(1)}, CapWidth: vg.Points(5)}
	for i, r := range ranges {
		b.YErrors = append(b.YErrors, struct{ Low, High float64 }{xys[i].Y - r.low, r.high - xys[i].Y})
	}
	p.Add(b)
}
