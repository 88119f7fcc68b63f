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

// A table in which everything failed has no columns left.
func TestATableWithoutColumns(t *testing.T) {
	var out strings.Builder
	text := NewText(&out, 80)
	text.Table(Table{Rows: []Row{{Failed: true}}})
	if err := text.Flush(); err != nil {
		t.Error(err)
	}
}
