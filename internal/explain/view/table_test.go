package view

import (
	"bytes"
	"strings"
	"testing"
)

type city struct {
	name   string
	people float64
	area   *float64
	why    string
}

func cities() (rows []city, columns []Column[city]) {
	return []city{{"Rome", 2.75e6, Some(1285e6), ""}, {"Atlantis", 0, nil, "it sank"}, {"Giant", 1e308, Some(5e6), ""}}, []Column[city]{
		{Name: "city", Left: true, Key: true, Words: func(c city) string { return c.name }},
		{Name: "people", Unit: "K", Per: 1e3, Value: func(c city) *float64 { return Of(c.people) }},
		{Name: "city area", Unit: "km2", Per: 1e6, Value: func(c city) *float64 { return c.area }},
		{Name: "mayor", Value: func(city) *float64 { return nil }},
	}
}

// One declaration gives a text, a chart's points and CSV; a column without any figure is
// left out, a failed row tells why, an implausible figure is a word.
func TestColumnsFeedEverything(t *testing.T) {
	rows, columns := cities()
	table := TableOf(rows, func(c city) string { return c.why }, columns...)
	var text, csv bytes.Buffer
	out := NewText(&text, 80)
	out.Table(table)
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `city           people  city area
                    K        km2
Rome            2,750      1,285
Atlantis       failed
Giant     implausible       5.00
Atlantis failed: it sank
`
	if text.String() != want {
		t.Errorf("text\n%s\nwant\n%s", text.String(), want)
	}
	if err := table.csv(&csv); err != nil {
		t.Fatal(err)
	}
	const rowsOfCSV = "city,people [K],city area [km2],failed\nRome,2750,1285,\nAtlantis,,,it sank\nGiant,implausible,5,\n"
	if csv.String() != rowsOfCSV {
		t.Errorf("CSV\n%s\nwant\n%s", csv.String(), rowsOfCSV)
	}
	if xys := columns[2].Against(columns[1], rows[:2]); len(xys) != 1 || xys[0] != (XY{X: 2.75e6, Y: 1285e6}) {
		t.Errorf("points %v", xys)
	}
}

// A table gives way to a narrow terminal: heads are broken, then spare columns go.
func TestTableFitsItsTerminal(t *testing.T) {
	rows, columns := cities()
	columns[2].Spare = 1
	for width, says := range map[int]string{80: "city area", 30: "city\n", 22: "people"} {
		var text bytes.Buffer
		out := NewText(&text, width)
		out.Table(TableOf(rows, func(c city) string { return c.why }, columns...))
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(text.String(), "\n") {
			if runes(line) > width {
				t.Errorf("%d columns: %q", width, line)
			}
		}
		if !strings.Contains(text.String(), says) || width < 30 && strings.Contains(text.String(), "area") {
			t.Errorf("%d columns:\n%s", width, text.String())
		}
	}
}

// A legend names what is drawn: no line beyond the axes.
func TestLegendNamesWhatIsDrawn(t *testing.T) {
	pic := NewPicture("test", "y")
	panel := pic.Panels[0]
	panel.Line("seen", XYs{{X: 1, Y: 1}, {X: 2, Y: 2}}, CurveStyle(0))
	panel.Line("beyond", XYs{{X: 1, Y: 50}, {X: 2, Y: 60}}, Style{Guide: true})
	panel.Line("implausible", XYs{{X: 1, Y: 1e308}}, CurveStyle(1))
	pic.Linear("x", 0, 3, Trimmed)
	panel.FitY(nil)
	if got := strings.Join(pic.Legend(), ", "); got != "seen" {
		t.Errorf("legend %q", got)
	}
	if pic.Omitted != 1 || panel.Y.Max > 5 {
		t.Errorf("%d omitted, y to %v", pic.Omitted, panel.Y.Max)
	}
}

// A point tells its values as the axes do: with their units, and not where it lies on paper.
func TestHitsSpeakAsTheAxes(t *testing.T) {
	line := func(y string, xy XY, axes func(*Picture, *Panel)) *Picture {
		pic := NewPicture("test", y)
		pic.LogX = true
		pic.Panels[0].Line("one", XYs{xy}, CurveStyle(0))
		axes(pic, pic.Panels[0])
		return pic
	}
	for want, pic := range map[string]*Picture{
		"one: 12.3 us service time at percentile 99.9": line("service time", XY{X: 3, Y: 12_300}, func(p *Picture, y *Panel) {
			p.Percentiles()
			y.FitY(ShortNanos)
		}),
		"one: 12.3 us service time at percentile 50": line("service time", XY{X: 0.30103, Y: 12_300}, func(p *Picture, y *Panel) {
			p.Percentiles()
			y.FitY(ShortNanos)
		}),
		"one: 87.1% hit rate at cache size 512 KiB (0.50% of the database)": line("hit rate, %", XY{X: 512 << 10, Y: 87.1}, func(p *Picture, y *Panel) {
			p.Sizes(100 << 20)
			y.FitPercents()
		}),
		"one: 35.7k Gets per second at threads 8": line("Gets per second", XY{X: 8, Y: 35_700}, func(p *Picture, y *Panel) {
			p.Places("threads", []float64{1, 8}, ShortCount)
			y.FitY(ShortCount)
		}),
		"one: 35.7 Kops/s at engine mdbx": Bars{About: "test", X: "engine", Groups: []string{"mdbx"}, Panels: []BarPanel{{Y: "Kops/s"}},
			Sets: []BarSet{{Name: "one", Values: [][]float64{{35.7}}}}}.Picture(nil),
	} {
		svg, err := pic.svg(wideForm)
		if err != nil || !strings.Contains(svg, "<title>"+want+"</title>") {
			t.Errorf("%v; want %q in %s", err, want, svg[max(0, strings.Index(svg, "<title>")):])
		}
	}
}

// A table in which everything failed has no columns left.
func TestATableWithoutColumns(t *testing.T) {
	var out strings.Builder
	text := NewText(&out, 80)
	text.Table(Table{Rows: []Row{{Failed: true}}})
	if err := text.Flush(); err != nil {
		t.Error(err)
	}
}
