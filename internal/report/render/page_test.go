package render

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/report/doc"
)

// A page carries figures as data: no text in it ends the element, no figure is lost but what
// nobody measures.
func TestChartsAreData(t *testing.T) {
	c := doc.NewChart("</script><script>alert(1)</script>", doc.Sizes(1000), doc.Axis{Label: "y"})
	c.Panels[0].Line("a & b",
		doc.XYs{
			{X: 1.00000001, Y: 0.1 + 0.2, Low: 0.25, High: 0.5},
			{X: 2, Y: math.NaN()},
			{X: 0, Y: 1},
			{X: 4, Y: 3},
		}, doc.CurveStyle(0))

	var page strings.Builder
	p := new(doc.Document)
	p.Add("s", doc.Block{Title: "t", Chart: c})
	if err := Page(&page, p); err != nil {
		t.Fatal(err)
	}

	_, text, _ := strings.Cut(page.String(), `class="chart-data">`)
	text, _, _ = strings.Cut(text, "</script>")
	var got struct {
		About  string
		Panels []struct {
			Series []struct {
				Name   string
				Color  string
				Points struct{ X, Y, Low, High []*float64 }
			}
		}
	}

	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}

	s := got.Panels[0].Series[0]
	if got.About != c.About || s.Name != "a & b" || s.Color != "blue" ||
		!strings.Contains(page.String(), "--chart-blue:#4a8fe8;") {
		t.Errorf("%+v", got)
	}

	if at := s.Points; len(at.X) != 2 || *at.X[0] != 1 || *at.Y[0] != 0.3 || *at.Low[0] != 0.25 ||
		at.Low[1] != nil || *at.Y[1] != 3 {
		t.Errorf("%s", text)
	}
}
