package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/report/doc"
)

type city struct {
	name   string
	people float64
	area   *float64
	why    string
}

func cities() (rows []city, columns []doc.Column[city]) {
	return []city{
			{"Rome", 2.75e6, doc.Some(1285e6), ""},
			{"Atlantis", 0, nil, "it sank"},
			{"Giant", 1e308, doc.Some(5e6), ""},
		}, []doc.Column[city]{
			{Name: "city", Left: true, Key: true, Words: func(c city) string { return c.name }},
			{Name: "people", Unit: "K", Per: 1e3,
				Value: func(c city) *float64 { return doc.When(c.people > 0, c.people) }},
			{
				Name:  "city area",
				Unit:  "km2",
				Per:   1e6,
				Value: func(c city) *float64 { return c.area },
			},
			{Name: "mayor", Value: func(city) *float64 { return nil }},
		}
}

// shown is a document of one table at a width.
func shown(t *testing.T, table doc.Table, width int) string {
	t.Helper()
	d := new(doc.Document)
	d.Add("", doc.Block{Table: table})
	var text bytes.Buffer
	if err := atWidth(&text, d, width); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// One declaration gives a text, a chart's points and CSV; a column without any figure is
// left out, a failed row tells why, an implausible figure is a word.
func TestColumnsFeedEverything(t *testing.T) {
	rows, columns := cities()
	table := doc.TableOf(rows, func(c city) string { return c.why }, columns...)
	const want = `city           people  city area
                    K        km2
Rome            2,750      1,285
Atlantis       failed
Giant     implausible       5.00
Atlantis failed: it sank
`

	if got := shown(t, table, 80); got != want {
		t.Errorf("text\n%s\nwant\n%s", got, want)
	}

	var csv bytes.Buffer
	if err := writeTable(&csv, table); err != nil {
		t.Fatal(err)
	}

	const rowsOfCSV = "city,people [K],city area [km2],failed\nRome,2750,1285,\nAtlantis,,,it " +
		"sank\nGiant,implausible,5,\n"
	if csv.String() != rowsOfCSV {
		t.Errorf("CSV\n%s\nwant\n%s", csv.String(), rowsOfCSV)
	}

	if xys := columns[2].Against(columns[1], rows[:2]); len(xys) != 1 ||
		xys[0] != (doc.XY{X: 2.75e6, Y: 1285e6}) {
		t.Errorf("points %v", xys)
	}
}

// A table gives way to a narrow terminal: heads are broken, then spare columns go.
func TestTableFitsItsTerminal(t *testing.T) {
	rows, columns := cities()
	columns[2].Spare = 1
	for width, says := range map[int]string{80: "city area", 30: "city\n", 22: "people"} {
		text := shown(t, doc.TableOf(rows, func(c city) string { return c.why }, columns...), width)
		for _, line := range strings.Split(text, "\n") {
			if runes(line) > width {
				t.Errorf("%d columns: %q", width, line)
			}
		}

		if !strings.Contains(text, says) || width < 30 && strings.Contains(text, "area") {
			t.Errorf("%d columns:\n%s", width, text)
		}
	}
}

// A table that is too wide tells its constant columns below, and divides what still has no room:
// every result is printed.
func TestAWideTableLosesNoResult(t *testing.T) {
	type choice struct{ name, filter, block string }
	rows := []choice{{"present", "10", "4096"}, {"best", "12", "4096"}}
	word := func(name string, of func(choice) string) doc.Column[choice] {
		return doc.Words(name, of)
	}
	result := func(name string, v float64) doc.Column[choice] {
		return doc.Figure(name, "/Get", nil, func(c choice) float64 {
			return v + float64(len(c.name))
		})
	}

	table := doc.TableOf(
		rows,
		nil,
		word("", func(c choice) string { return c.name }),
		word("filter", func(c choice) string { return c.filter }),
		word("block_size", func(c choice) string { return c.block }),
		result("reads", 10),
		result("bytes", 20),
		result("time", 30),
	)

	for width, want := range map[int]string{
		37: `         filter  reads  bytes  time
                  /Get   /Get  /Get
present  10       17.0   27.0  37.0
best     12       14.0   24.0  34.0
The same in all rows: block_size:
  4096.
`,
		22: `          filter reads
#                 /Get
1 present 10      17.0
2 best    12      14.0

          bytes time
#          /Get /Get
1 present  27.0 37.0
2 best     24.0 34.0
The same in all rows:
  block_size: 4096.
`,
	} {
		if got := shown(t, table, width); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// Long words are broken into lines beside the figures of their row.
func TestLongWordsAreBroken(t *testing.T) {
	table := doc.ListOf(
		[]string{"check", "what was found"},
		[]string{"files can be evicted, and the kernel confirms it"},
		func(text string) []string { return []string{"page cache", text} },
	)

	const want = `check       what was found
page cache  files can be evicted, and
            the kernel confirms it
`

	if got := shown(t, table, 38); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Of rows that all failed, the reasons are shown, without the heads of columns that none has.
func TestATableInWhichEverythingFailed(t *testing.T) {
	rows, columns := cities()
	columns[0].Unit = "of myth"
	table := doc.TableOf(rows[1:2], func(c city) string { return c.why }, columns...)

	if got, want := shown(t, table, 80), "Atlantis failed: it sank\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A table in which everything failed has no columns left.
func TestATableWithoutColumns(t *testing.T) {
	shown(t, doc.Table{Rows: []doc.Row{{Failed: true}}}, 80)
}
