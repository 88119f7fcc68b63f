package doc

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Chart is declared once. A page carries it as JSON, which the page's script draws, and as SVG,
// which is printed and shown without scripts, and which is a file of its own, too. What a reader
// sees of the figures is decided here, how it is put on paper or a screen by the two that draw.
type Chart struct {
	About   string   `json:"about"` // for readers who cannot see it
	X       Axis     `json:"x"`
	Panels  []*Panel `json:"panels"`           // one for every y axis
	Beside  bool     `json:"beside,omitempty"` // panels left and right instead of above each other
	Marks   []Mark   `json:"marks,omitempty"`
	Omitted int      `json:"-"` // figures that no machine measures: they are not drawn
}

// Panel has a y axis and what is drawn over it.
type Panel struct {
	Axis
	Series []Series `json:"series"`
	of     *Chart
}

// Mark is a vertical line, named above the first panel.
type Mark struct {
	X      float64 `json:"x"`
	Name   string  `json:"name"`
	Color  Color   `json:"color"`
	Dashed bool    `json:"dashed,omitempty"`
}

// Form is how a series is drawn.
type Form string

// Forms of series. Stacked series are given from the top of the stack down.
const (
	aLine Form = "line"
	dots  Form = "dots"
	area  Form = "area" // stacked
	bar   Form = "bar"
	stack Form = "stack" // of bars
	texts Form = "text"  // beside points
)

// Series are points that are drawn alike. Those of one name share an entry of the legend,
// in all panels.
type Series struct {
	Name string `json:"name,omitempty"`
	Form Form   `json:"form"`
	Style
	Points XYs       `json:"points"`
	Breath float64   `json:"breath,omitempty"` // of a bar, in units of x
	Failed []float64 `json:"failed,omitempty"` // places where a cross stands instead of a bar
	Limits XYs       `json:"limits,omitzero"`  // lines across the places of bars
	Empty  bool      `json:"-"`                // nothing was measured: only the legend names it
}

// Style is how a line and its points look.
type Style struct {
	Color Color     `json:"color"`
	Shape Shape     `json:"shape,omitempty"` // "": no points
	Dash  []float64 `json:"dash,omitempty"`
	Width float64   `json:"width,omitempty"` // in points
	// the ranges of the points are shaded, not drawn as bars
	Band  bool `json:"band,omitempty"`
	Guide bool `json:"-"` // a line to compare with: it does not stretch the axes
}

// Shape is that of a point. Shapes tell series apart in black and white, and where lines
// coincide.
type Shape string

// Shapes of points.
const (
	Circle   Shape = "circle"
	Ring     Shape = "ring"
	Box      Shape = "box"
	Square   Shape = "square"
	Pyramid  Shape = "pyramid"
	Triangle Shape = "triangle"
	Cross    Shape = "cross"
	Plus     Shape = "plus"
)

// outline is that of a shape: the commands of an SVG path, from the middle of the point, in pixels.
type outline struct {
	Path string `json:"path"`
	Fill Color  `json:"fill,omitzero"` // not that of the series
}

// outlines are those of all shapes.
var outlines = map[Shape]outline{
	Circle:   {"m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", Color{}},
	Ring:     {"m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", paper},
	Box:      {"m-3.1-3.1h6.2v6.2h-6.2z", Color{}},
	Square:   {"m-3.1-3.1h6.2v6.2h-6.2z", paper},
	Pyramid:  {"m0-3.5l3.5 6.3h-7z", Color{}},
	Triangle: {"m0-3.5l3.5 6.3h-7z", paper},
	Cross:    {"m-3.1-3.1l6.2 6.2m0-6.2l-6.2 6.2", Color{}}, // lines, which have nothing to fill
	Plus:     {"m-3.5 0h7m-3.5-3.5v7", Color{}},
}

// MarshalJSON writes the outline.
func (s Shape) MarshalJSON() ([]byte, error) { return json.Marshal(outlines[s]) }

// XY is a point of a chart.
type XY struct {
	X, Y      float64
	Low, High float64 // its range; none where they are the same
	Text      string  // of a label
}

// XYs are the points of a series.
type XYs []XY

// MarshalJSON writes columns: they are shorter than points, and what the script draws from.
func (xys XYs) MarshalJSON() ([]byte, error) {
	var columns struct {
		X    []short    `json:"x"`
		Y    []short    `json:"y"`
		Low  []*float64 `json:"low,omitempty"`
		High []*float64 `json:"high,omitempty"`
		Text []string   `json:"text,omitempty"`
	}

	ranges := slices.ContainsFunc(xys, XY.wide)
	for _, at := range xys {
		columns.X, columns.Y = append(columns.X, short(at.X)), append(columns.Y, short(at.Y))
		if at.Text != "" {
			columns.Text = append(columns.Text, at.Text)
		}

		switch {
		case ranges && at.wide():
			columns.Low, columns.High = append(columns.Low, &at.Low), append(columns.High, &at.High)
		case ranges:
			columns.Low, columns.High = append(columns.Low, nil), append(columns.High, nil)
		}
	}

	return json.Marshal(columns)
}

// wide tells whether a point has a range.
func (at XY) wide() bool { return at.Low < at.High }

// short is a number with the digits that a screen can show.
type short float64

// MarshalJSON writes eight significant digits.
func (v short) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(v), 'g', 8, 64), nil
}

// Range is from the least to the greatest.
type Range struct{ Low, High float64 }

// Color is one of the palette: its name, and as RGB on white paper and on a dark page.
type Color struct {
	name        string
	light, dark uint32
}

// MarshalJSON writes its name, which a page's style sheet knows (PaletteStyle).
func (c Color) MarshalJSON() ([]byte, error) { return json.Marshal(c.name) }

// The palette: colours that readers with any kind of colour vision can tell apart (Okabe and
// Ito, "Color Universal Design", 2008), with a darker yellow; lighter ones for the dark.
var (
	Ink       = Color{"ink", 0x222222, 0xececea}
	Muted     = Color{"muted", 0x5f5f5f, 0xa5a5a2}
	Blue      = Color{"blue", 0x0072b2, 0x4a8fe8}
	Sky       = Color{"sky", 0x56b4e9, 0xa6e1ff}
	Orange    = Color{"orange", 0xe69f00, 0xf2b233}
	Vermilion = Color{"vermilion", 0xd55e00, 0xff7f4d}
	Green     = Color{"green", 0x009e73, 0x2fbf92}
	Purple    = Color{"purple", 0xcc79a7, 0xe39ac6}
	Yellow    = Color{"yellow", 0xc9b800, 0xf0e35a}
	Brown     = Color{"brown", 0x8c5a32, 0xb98660}
	Grey      = Color{"grey", 0x999999, 0x7f7f7f}
	Red       = Color{"red", 0xb00020, 0xff6b7a} // of limits
	paper     = Color{"paper", 0xffffff, 0x16181b}
	grid      = Color{"grid", 0xe4e4e4, 0x33363a}
)

// ramp is from dark to light on paper.
var ramp = [...]Color{
	{"ramp1", 0x440154, 0xc08be0}, {"ramp2", 0x46327e, 0xa39df0}, {"ramp3", 0x365c8d, 0x7fb2ee},
	{"ramp4", 0x277f8e, 0x58c4d4}, {"ramp5", 0x1fa187, 0x3fcfa6}, {"ramp6", 0x4ac16d, 0x7fdc78},
	{"ramp7", 0x8fc72e, 0xb9e35a}, {"ramp8", 0xd0b400, 0xf4e04a},
}

// hex is the colour on white paper.
func (c Color) hex() string { return fmt.Sprintf("#%06x", c.light) }

// variable is the colour on a page whose style sheet has PaletteStyle, and the one on white
// paper without it.
func (c Color) variable() string { return fmt.Sprintf("var(--chart-%s,%s)", c.name, c.hex()) }

// PaletteStyle is a style sheet that declares the palette, on a light and on a dark screen.
func PaletteStyle() string {
	var light, dark strings.Builder
	palette := []Color{Ink, Muted, Blue, Sky, Orange, Vermilion, Green, Purple, Yellow, Brown,
		Grey, Red,
		paper, grid}
	for _, c := range append(palette, ramp[:]...) {
		fmt.Fprintf(&light, "--chart-%s:%s;", c.name, c.hex())
		fmt.Fprintf(&dark, "--chart-%s:#%06x;", c.name, c.dark)
	}

	return ":root {" + light.String() + " }\n" +
		"@media screen and (prefers-color-scheme: dark) { :root {" + dark.String() + " } }\n"
}

// MaxLines is how many lines a chart holds before it stops being read.
const MaxLines = 9

// CurveStyle is the look of the i-th of several curves. Later ones are thinner, so that one
// that covers another lets it be seen.
func CurveStyle(i int) Style {
	colors := [MaxLines]Color{Blue, Vermilion, Green, Purple, Orange, Sky, Ink, Yellow, Brown}
	shapes := [MaxLines]Shape{Circle, Box, Pyramid, Ring, Square, Triangle, Cross, Plus, Box}
	return Style{
		Color: colors[i%MaxLines],
		Shape: shapes[i%MaxLines],
		Width: math.Max(1.2, 3-0.5*float64(i)),
	}
}

// RampStyle is the look of the i-th of n points in ascending order: from dark to light on
// paper, so that the order is seen.
func RampStyle(i, n int) Style {
	if n <= 1 {
		return Style{Color: ramp[2]}
	}
	return Style{Color: ramp[i*(len(ramp)-1)/(n-1)], Width: math.Max(1.2, 2.6-0.25*float64(i))}
}

// Dashed is the pattern of what was not measured by us: the device's account,
// a prediction, a limit of scaling.
func Dashed() []float64 { return []float64{5, 3} }

// Dotted is the pattern of what the disk leaves.
func Dotted() []float64 { return []float64{1.5, 2.5} }

// NewChart has a panel for every y axis.
func NewChart(about string, x Axis, ys ...Axis) *Chart {
	c := &Chart{About: about, X: x}
	for _, y := range ys {
		c.Panels = append(c.Panels, &Panel{Axis: y, of: c})
	}
	return c
}

// OnePanel is a chart of one panel.
func OnePanel(about string, x, y Axis) (*Chart, *Panel) {
	c := NewChart(about, x, y)
	return c, c.Panels[0]
}

// OrNil is the chart, or nil of one without a series.
func (c *Chart) OrNil() *Chart {
	if !c.Drawn() {
		return nil
	}
	return c
}

// Drawn drops the panels without a series and reports whether any is left.
func (c *Chart) Drawn() bool {
	c.Panels = slices.DeleteFunc(c.Panels, func(p *Panel) bool {
		return !slices.ContainsFunc(p.Series, func(s Series) bool { return !s.Guide && !s.Empty })
	})
	return len(c.Panels) > 0
}

// sane leaves out what cannot be drawn, and counts what no machine measures.
func (p *Panel) sane(xys XYs) (ok XYs) {
	for _, at := range xys {
		switch {
		case !Sane(at.X) || !Sane(at.Y):
			p.of.Omitted++
		case p.of.X.logarithmic() && at.X <= 0 || p.Kind == Logs && at.Y <= 0:
		default:
			if !Sane(at.Low) || !Sane(at.High) || at.Low > at.Y || at.High < at.Y ||
				p.Kind == Logs && at.Low <= 0 {
				at.Low, at.High = 0, 0
			}
			ok = append(ok, at)
		}
	}

	return ok
}

// add adds a series; it reports whether there is anything to draw.
func (p *Panel) add(s Series) bool {
	if s.Points = p.sane(s.Points); len(s.Points) == 0 {
		return false
	}
	p.Series = append(p.Series, s)
	return true
}

// fewPoints of a line can be told apart.
const fewPoints = 60

// Line adds a line with its points, which have no shapes where they are too many. It reports
// whether there was anything to draw.
func (p *Panel) Line(name string, xys XYs, s Style) bool {
	if s.Width == 0 {
		s.Width = 1.8
	}
	if len(xys) > fewPoints {
		s.Shape = ""
	}
	return p.add(Series{Name: name, Form: aLine, Style: s, Points: xys})
}

// Dots adds points without a line.
func (p *Panel) Dots(name string, xys XYs, s Style) bool {
	return p.add(Series{Name: name, Form: dots, Style: s, Points: xys})
}

// Area adds an area on top of those that are added after it. A figure in it that cannot be
// drawn leaves it out.
func (p *Panel) Area(name string, xys XYs, c Color) bool {
	return len(p.sane(xys)) == len(xys) &&
		p.add(Series{Name: name, Form: area, Style: Style{Color: c}, Points: xys})
}

// Failed names what has nothing to draw.
func (p *Panel) Failed(name string, c Color) {
	p.Series = append(p.Series, Series{
		Name:  name + " (failed)",
		Form:  dots,
		Style: Style{Color: c, Shape: Cross},
		Empty: true,
	})
}

// Labels writes the texts of the points beside them.
func (p *Panel) Labels(xys XYs) {
	p.add(Series{Form: texts, Style: Style{Color: Ink}, Points: xys})
}

// SpanX is how far the series reach.
func (c *Chart) SpanX() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, p := range c.Panels {
		for _, s := range p.Series {
			for _, at := range s.Points {
				if !s.Guide {
					low, high = math.Min(low, at.X), math.Max(high, at.X)
				}
			}
		}
	}

	return low, high
}

// spanY is how far the series of a panel reach, stacks by their sums.
func (p *Panel) spanY() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	sums := map[float64]float64{}
	for _, s := range p.Series {
		for _, at := range s.Points {
			switch {
			case s.Guide:
			case s.stacks():
				sums[at.X] += at.Y
				low, high = math.Min(low, at.Y), math.Max(high, sums[at.X])
			default:
				low, high = math.Min(low, at.Y), math.Max(high, at.Y)
				if at.wide() {
					low, high = math.Min(low, at.Low), math.Max(high, at.High)
				}
			}
		}
	}

	return low, high
}

func (s *Series) stacks() bool { return s.Form == area || s.Form == stack }

// fit sets how far the axes reach, and leaves out the series of which nothing is seen.
func (c *Chart) fit() {
	low, high := c.SpanX()
	for _, m := range c.Marks {
		low, high = math.Min(low, m.X), math.Max(high, m.X)
	}

	c.X.reach(low, high)
	for _, p := range c.Panels {
		p.fit()
		p.Series = slices.DeleteFunc(p.Series, func(s Series) bool {
			return !s.Empty && !slices.ContainsFunc(s.Points, func(at XY) bool {
				return at.X >= c.X.Min && at.X <= c.X.Max && at.Y >= p.Min && at.Y <= p.Max
			})
		})
	}
}

// nearLimit is how far above the bars a limit may be and still be drawn.
const nearLimit = 1.6

func (p *Panel) fit() {
	low, high := p.spanY()
	for _, s := range p.Series {
		for _, l := range s.Limits {
			if l.Y < nearLimit*high {
				high = math.Max(high, l.Y)
			}
		}
	}

	if p.Kind == Logs && !(high > 4*low) {
		p.Kind = Plain // most points would be pressed together
	}

	p.Axis.reach(low, high)
	for i, s := range p.Series {
		p.Series[i].Limits = slices.DeleteFunc(s.Limits, func(at XY) bool { return at.Y > p.Max })
	}
}

// MarshalJSON writes what the page's script draws.
func (c *Chart) MarshalJSON() ([]byte, error) {
	c.fit()
	type plain Chart
	return json.Marshal((*plain)(c))
}

// entry is a name in the legend, with the look of the first series of that name.
type entry struct {
	name string
	*Series
}

// legend are the names of the series that are seen.
func (c *Chart) legend() (all []entry) {
	c.fit()
	for _, p := range c.Panels {
		for i, s := range p.Series {
			if s.Name != "" &&
				!slices.ContainsFunc(all, func(e entry) bool { return e.name == s.Name }) {
				all = append(all, entry{s.Name, &p.Series[i]})
			}
		}
	}

	return all
}

// Legend are the names that the legend shows.
func (c *Chart) Legend() []string {
	return Each(c.legend(), func(e entry) string { return e.name })
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
