package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"
)

// Groups of many bars stay apart in panels side by side, as they do above each other.
func TestGroupsOfBarsStayApart(t *testing.T) {
	groups, sets := []string{"1 MiB", "2 MiB", "4 MiB"}, 5
	b := Bars{Groups: groups, Panels: []Axis{{Label: "a"}, {Label: "b"}}, Beside: true}
	for n := range sets {
		b.Sets = append(b.Sets, BarSet{Name: fmt.Sprint(n), Values: [][]float64{{1, 2, 3}, {3, 2, 1}}})
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
				t.Errorf("the last bar of %s ends at %.2f, the first of the next group begins at %.2f", groups[g], ends, begins)
			}
		}
	}
}

// Stacked bars end on the sum of those below, and say what it is.
func TestStackedBars(t *testing.T) {
	c := Bars{Groups: []string{"a"}, Panels: []Axis{{}}, Stacked: true,
		Sets: []BarSet{{Name: "below", Values: [][]float64{{2}}}, {Name: "above", Values: [][]float64{{3}}}}}.Chart(Number)
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
		toX := func(x float64) float64 { return c.X.place(x) * width }
		c.markRows(toX, width)
		for i, m := range c.Marks {
			from := toX(m.X) + m.left
			to := from + textWidth(markSize, m.Name)
			if to > width+0.01 {
				t.Errorf("%s ends at %.0f of %.0f", m.Name, to, width)
			}
			for j, other := range c.Marks {
				start := toX(other.X) + other.left
				if i != j && other.row == m.row && start < to && from < start+textWidth(markSize, other.Name) {
					t.Errorf("%s lies over %s", m.Name, other.Name)
				}
				if x := toX(other.X); j > i && other.row >= m.row && x > from && x < to {
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
		c := NewChart("test", Linear("x", AsNumber), Axis{Label: "Gets per second", Kind: Logs, Format: AsCount})
		c.Panels[0].Line("a", XYs{{X: 1, Y: low}, {X: 2, Y: high}}, Style{Color: Ink})
		c.fit()
		for _, tick := range c.Panels[0].ticks(mostTicks) {
			labels = append(labels, tick.label)
		}
		return c.Panels[0].title(true), labels
	}
	if title, labels := ticks(7000, 31000); title != "Gets per second (log scale)" || !slices.Equal(labels, []string{"7k", "10k", "15k", "20k", "30k"}) {
		t.Errorf("%q with ticks %q", title, labels)
	}
	if title, labels := ticks(20000, 31000); title != "Gets per second" || !slices.Equal(labels, []string{"0", "5k", "10k", "15k", "20k", "25k", "30k", "35k"}) {
		t.Errorf("%q with ticks %q", title, labels)
	}
}

// TestFarPointsAreDrawn: a line ends at the edge of the panel, however far its points are, and a picture does not take long.
func TestFarPointsAreDrawn(t *testing.T) {
	c := NewChart("test", Linear("x", AsNumber), Axis{Label: "y"})
	panel := c.Panels[0]
	panel.Line("measured", XYs{{X: 1, Y: 1}, {X: 2, Y: 2}, {X: 3, Y: 1}}, CurveStyle(0))
	panel.Line("", XYs{{X: 1, Y: 1, Low: .5, High: 1e14}, {X: 3, Y: 1, Low: .5, High: 1e14}}, Style{Color: Green, Band: true, Guide: true})
	panel.Line("", XYs{{X: 1, Y: 1}, {X: 2, Y: 1e14}, {X: 3, Y: 1}}, Style{Color: Red, Dash: Dashed(), Guide: true})
	var file bytes.Buffer
	if err := c.PNG(&file); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&file)
	if err != nil {
		t.Fatal(err)
	}
	red := map[int]bool{} // rows
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if r, g, _, _ := picture.At(x, y).RGBA(); r > 0xa000 && g < 0x3000 {
				red[y] = true
			}
		}
	}
	if len(red) < 50 {
		t.Errorf("red in %d rows", len(red))
	}
	for _, c := range []struct{ from, to, begin, end point }{
		{point{-1, 1}, point{3, 1}, point{0, 1}, point{2, 1}}, {point{1, -1e20}, point{1, 1}, point{1, 0}, point{1, 1}},
		{point{.5, .5}, point{1, 1}, point{.5, .5}, point{1, 1}},
	} {
		if begin, end, is := (box{max: point{2, 2}}).clip(c.from, c.to); !is || distance(begin, c.begin) > 1e-6 || end != c.end {
			t.Errorf("%v: from %v to %v, %t", c, begin, end, is)
		}
	}
	for _, outside := range [][2]point{{{3, 0}, {3, 5}}, {{-1, 1.5}, {1.5, 4}}} {
		if begin, end, is := (box{max: point{2, 2}}).clip(outside[0], outside[1]); is {
			t.Errorf("%v: from %v to %v", outside, begin, end)
		}
	}
}

func distance(a, b point) float64 { return math.Hypot(a.x-b.x, a.y-b.y) }

// Sizes have ticks at powers of two, fewer where they would touch.
func TestSizesHaveRoom(t *testing.T) {
	a := Sizes(100 << 20)
	a.reach(512<<10, 64<<20)
	for most, want := range map[int]string{
		9: "512 KiB\n0.50% 1 MiB\n1% 2 MiB\n2% 4 MiB\n4% 8 MiB\n8% 16 MiB\n16% 32 MiB\n32% 64 MiB\n64%",
		4: "1 MiB\n1% 4 MiB\n4% 16 MiB\n16% 64 MiB\n64%",
	} {
		var labels []string
		for _, tick := range a.ticks(most) {
			labels = append(labels, tick.label)
		}
		if got := strings.ReplaceAll(strings.Join(labels, " "), "0.5%", "0.50%"); got != want {
			t.Errorf("%d: %q", most, got)
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

// A page carries figures as data: no text in it ends the element, no figure is lost but what
// nobody measures.
func TestChartsAreData(t *testing.T) {
	c := NewChart("</script><script>alert(1)</script>", Sizes(1000), Axis{Label: "y"})
	c.Panels[0].Line("a & b", XYs{{X: 1.00000001, Y: 0.1 + 0.2, Low: 0.25, High: 0.5}, {X: 2, Y: math.NaN()}, {X: 0, Y: 1}, {X: 4, Y: 3}}, CurveStyle(0))
	var page strings.Builder
	p := Page{}
	p.Add("s", Block{Title: "t", Chart: c})
	if err := p.Write(&page); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(page.String(), `class="chart-data">`)
	text, _, _ = strings.Cut(text, "</script>")
	var got struct {
		About  string
		Panels []struct {
			Series []struct {
				Name   string
				Color  []string
				Points struct{ X, Y, Low, High []*float64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	s := got.Panels[0].Series[0]
	if got.About != c.About || s.Name != "a & b" || !slices.Equal(s.Color, []string{"#0072b2", "#4a8fe8"}) {
		t.Errorf("%+v", got)
	}
	if at := s.Points; len(at.X) != 2 || *at.X[0] != 1 || *at.Y[0] != 0.3 || *at.Low[0] != 0.25 || at.Low[1] != nil || *at.Y[1] != 3 {
		t.Errorf("%s", text)
	}
}
