package doc

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Groups of many bars stay apart in panels side by side, as they do above each other.
func TestGroupsOfBarsStayApart(t *testing.T) {
	groups, sets := []string{"1 MiB", "2 MiB", "4 MiB"}, 5
	b := Bars{Groups: groups, Panels: []Axis{{Label: "a"}, {Label: "b"}}, Beside: true}
	for n := range sets {
		b.Sets = append(b.Sets, BarSet{
			Name:   fmt.Sprint(n),
			Values: [][]float64{{1, 2, 3}, {3, 2, 1}},
		})
	}

	c := b.Chart(nil)
	for _, p := range c.Panels {
		if len(p.Series) != sets {
			t.Fatalf("%d sets of bars", len(p.Series))
		}

		first, last := p.Series[0], p.Series[sets-1]
		for g := range len(groups) - 1 {
			ends, begins := last.Points[g].X+last.Breath/2, first.Points[g+1].X-first.Breath/2
			if ends >= begins {
				t.Errorf("the last bar of %s ends at %.2f, the first of the next group begins at "+
					"%.2f", groups[g], ends, begins)
			}
		}
	}
}

// Stacked bars end on the sum of those below, and say what it is.
func TestStackedBars(t *testing.T) {
	c := Bars{Groups: []string{"a"}, Panels: []Axis{{}}, Stacked: true,
		Sets: []BarSet{
			{Name: "below", Values: [][]float64{{2}}},
			{Name: "above", Values: [][]float64{{3}}},
		}}.Chart(Number)

	p := c.Panels[0]
	if p.Series[0].Name != "above" || p.bottom(0, 0) != 2 || p.bottom(1, 0) != 0 {
		t.Errorf("%s stands on %v", p.Series[0].Name, p.bottom(0, 0))
	}

	if label := p.Series[2].Points[0]; label.Text != "5.00" || label.Y != 5 {
		t.Errorf("the sum is %+v", label)
	}

	if c.fit(); p.Max < 5 {
		t.Errorf("the axis ends at %v", p.Max)
	}
}

// Names of lines that stand close together lie neither over each other nor over a line that
// goes on above them.
func TestNamesOfCloseLines(t *testing.T) {
	c := NewChart("", Sizes(0), Axis{Label: "reads"})
	c.Panels[0].Line("measured", XYs{{X: 100, Y: 1}, {X: 400, Y: 1}}, CurveStyle(0))
	for i, x := range []float64{20, 20.5, 50, 50.2, 390} {
		c.Marks = append(c.Marks, Mark{X: x, Name: fmt.Sprintf("IP%d: cache needed", i)})
	}

	for _, width := range []float64{300, 700} {
		c.fit()
		f := frame{
			drawing: &drawing{width: pictureWidth},
			Panel:   c.Panels[0],
			x:       c.X,
			data:    box{point{pictureWidth - width, 0}, point{pictureWidth, 100}},
		}

		marks, _ := c.marksIn(&f)
		for i, m := range marks {
			to := m.left + textWidth(m.Name)
			if m.left < 0 || to > pictureWidth {
				t.Errorf("%s is from %.0f to %.0f of %g", m.Name, m.left, to, pictureWidth)
			}

			for j, other := range marks {
				if i != j && other.row == m.row && other.left < to &&
					m.left < other.left+textWidth(other.Name) {
					t.Errorf("%s lies over %s", m.Name, other.Name)
				}

				if j > i && other.row >= m.row && other.at > m.left && other.at < to {
					t.Errorf("%s lies over the line of %s", m.Name, other.Name)
				}
			}
		}
	}
}

// A logarithmic axis says so, and has more than two ticks; one whose values are close to each
// other begins at 0.
func TestLogarithmicAxis(t *testing.T) {
	ticks := func(low, high float64) (title string, labels []string) {
		c := NewChart("test", Linear("x", AsNumber), Axis{
			Label:  "Gets per second",
			Kind:   Logs,
			Format: AsCount,
		})

		c.Panels[0].Line("a", XYs{{X: 1, Y: low}, {X: 2, Y: high}}, Style{Color: Ink})
		c.fit()
		for _, tick := range c.Panels[0].ticks(xTicks) {
			labels = append(labels, tick.label)
		}

		return c.Panels[0].title(true), labels
	}

	if title, labels := ticks(7000, 31000); title != "Gets per second (log scale)" ||
		!slices.Equal(labels, []string{"7k", "10k", "15k", "20k", "30k"}) {
		t.Errorf("%q with ticks %q", title, labels)
	}

	if title, labels := ticks(20000, 31000); title != "Gets per second" ||
		!slices.Equal(labels, []string{"0", "5k", "10k", "15k", "20k", "25k", "30k", "35k"}) {
		t.Errorf("%q with ticks %q", title, labels)
	}
}

// element is one of a picture, with the attributes and the elements in it.
type element struct {
	XMLName    xml.Name
	Attributes []xml.Attr `xml:",any,attr"`
	Text       string     `xml:",chardata"`
	Elements   []element  `xml:",any"`
}

// attribute is the value of an attribute; "" of none.
func (e element) attribute(name string) string {
	for _, a := range e.Attributes {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// all are the element and those in it of which something holds.
func (e element) all(is func(element) bool) (found []element) {
	if is(e) {
		found = append(found, e)
	}
	for _, in := range e.Elements {
		found = append(found, in.all(is)...)
	}
	return found
}

// drawn is the picture of a chart, which is XML.
func drawn(t *testing.T, c *Chart) (root element) {
	t.Helper()
	var file bytes.Buffer
	if err := c.SVG(&file, "Statelab 0.2.0."); err != nil {
		t.Fatal(err)
	}

	if err := xml.Unmarshal(file.Bytes(), &root); err != nil {
		t.Fatalf("%v in %s", err, file.String())
	}

	return root
}

// A line ends at the edge of the panel, however far its points are: what is around the data hides
// it, and no coordinate is too large for a renderer.
func TestFarPointsAreDrawn(t *testing.T) {
	c := NewChart("test", Linear("x", AsNumber), Axis{Label: "y"})
	panel := c.Panels[0]
	panel.Line("measured", XYs{{X: 1, Y: 1}, {X: 2, Y: 2}, {X: 3, Y: 1}}, CurveStyle(0))
	panel.Line(
		"",
		XYs{{X: 1, Y: 1, Low: .5, High: 1e14}, {X: 3, Y: 1, Low: .5, High: 1e14}},
		Style{Color: Green, Band: true, Guide: true},
	)

	panel.Line(
		"",
		XYs{{X: 1, Y: 1}, {X: 2, Y: 1e14}, {X: 3, Y: 1}},
		Style{Color: Red, Dash: Dashed(), Guide: true},
	)

	root := drawn(t, c)
	windows := root.all(func(e element) bool {
		return e.XMLName.Local == "svg" && e.attribute("class") == ""
	})
	if len(windows) != 1 {
		t.Fatalf("%d windows", len(windows))
	}

	inside := func(e element) bool {
		return e.XMLName.Local == "path" && e.attribute("stroke") == Red.hex()
	}
	if n := len(windows[0].all(inside)); n != 1 || len(root.all(inside)) != n {
		t.Errorf("of %d red lines %d are behind the window", len(root.all(inside)), n)
	}

	far := regexp.MustCompile(`[0-9]{6}|e\+|NaN|Inf`)
	for _, path := range root.all(func(e element) bool {
		return far.MatchString(e.attribute("d"))
	}) {
		t.Errorf("a path along %s", path.attribute("d"))
	}
}

// A picture is XML whatever names it has, with all that a reader sees on the page: title and
// description, axes, labels, marks, what failed, limits, and the legend below, inside its edges.
func TestPictureIsComplete(t *testing.T) {
	const odd = "a <b> & \"c\" \x01"
	curves := NewChart(odd, Sizes(64<<20), Axis{Label: "block reads per Get"}, Percents("hit rate"))
	curves.Panels[0].Line(odd, XYs{{X: 1 << 20, Y: 3, Low: 2, High: 4}, {X: 4 << 20, Y: 2}},
		CurveStyle(0))
	curves.Panels[0].Line(
		"predicted",
		XYs{{X: 1 << 20, Y: 3, Low: 2, High: 4}, {X: 4 << 20, Y: 2, Low: 1, High: 3}},
		Style{Color: Blue, Band: true, Dash: Dashed()},
	)

	curves.Panels[0].Labels(XYs{{X: 1 << 20, Y: 3, Text: "three"}})
	curves.Panels[1].Dots("hits", XYs{{X: 1 << 20, Y: 50}, {X: 4 << 20, Y: math.NaN()}},
		CurveStyle(1))
	curves.Panels[1].Failed("broken", Ink)
	curves.Marks = []Mark{{X: 2 << 20, Name: "IP1: 2 MiB", Color: Ink, Dashed: true}}
	bars := Bars{
		About:  "Gets per second",
		X:      "engine",
		Groups: []string{"a group whose name is long", "b", "c"},
		Panels: []Axis{{Label: "Gets per second"}},
		Sets: []BarSet{{
			Name:   "measured",
			Color:  Blue,
			Values: [][]float64{{2, 3, 0}},
			Spans:  []Range{{1, 3}, {}, {}},
			Failed: []bool{false, false, true},
			Limits: [][]float64{{2.5, 0, 0}},
		}},
	}.Chart(nil)

	for name, c := range map[string]struct {
		*Chart
		texts   []string
		strokes map[string]int // how many paths are stroked in a colour
	}{
		"curves": {
			curves,
			[]string{"block reads per Get", "hit rate, %",
				"cache size, and as a share of the database", "1 MiB", "1.6%",
				"IP1: 2 MiB", "three", "a <b> & \"c\" \uFFFD", "predicted", "hits",
				"broken (failed)"},
			// The line, its range, its points and its sample (line and point); the line of the
			// prediction, and its sample.
			map[string]int{Blue.hex(): 5 + 2},
		},
		"bars": {bars, []string{"Gets per second", "engine", "measured", "a group whose n…", "0"},
			// a limit; the axis and a range; a cross
			map[string]int{Red.hex(): 1, Muted.hex(): 2, Blue.hex(): 1}},
	} {
		root := drawn(t, c.Chart)
		text := func(e element) bool { return e.XMLName.Local == "text" }
		var seen []string
		for _, e := range root.all(text) {
			seen = append(seen, e.Text)
			x, err := strconv.ParseFloat(e.attribute("x"), 64)
			switch width := textWidth(e.Text); {
			case e.attribute("transform") != "":
				continue
			case err != nil:
				t.Errorf("%s: %q is at %q", name, e.Text, e.attribute("x"))
			case e.attribute("text-anchor") == "middle":
				x -= width / 2
				fallthrough
			case e.attribute("text-anchor") == "":
				if x < 0 || x+width > paperWidth {
					t.Errorf("%s: %q is from %.0f to %.0f", name, e.Text, x, x+width)
				}
			case x-width < 0:
				t.Errorf("%s: %q begins at %.0f", name, e.Text, x-width)
			}
		}

		for _, want := range c.texts {
			if !slices.Contains(seen, want) {
				t.Errorf("%s: %q is not among %q", name, want, seen)
			}
		}

		for color, want := range c.strokes {
			if n := len(root.all(func(e element) bool {
				return e.attribute("stroke") == color
			})); n != want {
				t.Errorf("%s: %d paths in %s, not %d", name, n, color, want)
			}
		}

		if root.Elements[0].XMLName.Local != "title" || root.Elements[1].XMLName.Local != "desc" {
			t.Errorf("%s: begins with %v and %v", name, root.Elements[0].XMLName.Local,
				root.Elements[1].XMLName.Local)
		}
	}

	root := drawn(t, curves)
	if got := root.Elements[1].Text; !strings.Contains(got,
		"Block reads per Get; hit rate, % by cache size") ||
		!strings.HasSuffix(got, "Not drawn: 1 implausible figures. Statelab 0.2.0.") {
		t.Errorf("description %q", got)
	}
}

// Sizes have ticks at powers of two, fewer where they would touch.
func TestSizesHaveRoom(t *testing.T) {
	a := Sizes(100 << 20)
	a.reach(512<<10, 64<<20)
	for maximum, want := range map[int]string{
		9: "512 KiB\n0.50% 1 MiB\n1% 2 MiB\n2% 4 MiB\n4% 8 MiB\n8% 16 MiB\n16% 32 MiB\n32% 64 " +
			"MiB\n64%",
		4: "1 MiB\n1% 4 MiB\n4% 16 MiB\n16% 64 MiB\n64%",
	} {
		var labels []string
		for _, tick := range a.ticks(maximum) {
			labels = append(labels, tick.label)
		}

		if got := strings.ReplaceAll(strings.Join(labels, " "), "0.5%", "0.50%"); got != want {
			t.Errorf("%d: %q", maximum, got)
		}
	}
}

// A legend names what is drawn, each name once: no line beyond the axes.
func TestLegendNamesWhatIsDrawn(t *testing.T) {
	c := NewChart("test", Linear("x", AsNumber), Axis{Label: "y"}, Axis{Label: "z"})
	panel := c.Panels[0]
	panel.Line("seen", XYs{{X: 1, Y: 1}, {X: 2, Y: 2}}, CurveStyle(0))
	panel.Line("beyond", XYs{{X: 1, Y: 50}, {X: 2, Y: 60}}, Style{Guide: true})
	panel.Line("implausible", XYs{{X: 1, Y: 1e308}}, CurveStyle(1))
	panel.Failed("broken", Ink)
	c.Panels[1].Line("seen", XYs{{X: 1, Y: 1}}, CurveStyle(0))
	if got := strings.Join(c.Legend(), ", "); got != "seen, broken (failed)" {
		t.Errorf("legend %q", got)
	}

	if c.Omitted != 1 || panel.Max > 5 {
		t.Errorf("%d omitted, y to %v", c.Omitted, panel.Max)
	}
}
