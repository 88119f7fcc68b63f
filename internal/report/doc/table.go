package doc

import "math"

// Column is declared once and feeds tables in every medium, a chart and a CSV file.
type Column[R any] struct {
	Name, Unit string
	Value      func(R) *float64     // nil: absent
	Format     func(float64) string // prints a value in its unit; nil: Number
	Per        float64              // what a value is divided by to come to the unit; 0: 1
	Words      func(R) string       // of a column without values
	Left       bool                 // words that are aligned to the left
	Key        bool                 // says which row it is: shown of a row that failed, too
	// on a narrow terminal the columns with 1 give way first, then those with 2; 0: never
	Spare int
}

// Words is a column of words that say which row it is.
func Words[R any](name string, of func(R) string) Column[R] {
	return Column[R]{Name: name, Left: true, Key: true, Words: of}
}

// Figure is a column of figures that every row has.
func Figure[R any](name, unit string, format func(float64) string, of func(R) float64) Column[R] {
	return Optional(name, unit, format, func(r R) *float64 { return Some(of(r)) })
}

// Optional is a column of figures that some rows have.
func Optional[R any](
	name, unit string, format func(float64) string, of func(R) *float64,
) Column[R] {
	return Column[R]{Name: name, Unit: unit, Format: format, Value: of}
}

// In is the column in a unit that suits its values.
func (c Column[R]) In(s Scale) Column[R] {
	c.Unit, c.Per = s.Name, s.Size
	return c
}

// Named is the column under another name.
func (c Column[R]) Named(name, unit string) Column[R] {
	c.Name, c.Unit = name, unit
	return c
}

// Spared is the column that gives way on a narrow terminal.
func (c Column[R]) Spared(rank int) Column[R] {
	c.Spare = rank
	return c
}

// Values are those of the rows that have one.
func (c Column[R]) Values(rows []R) (all []float64) {
	for _, r := range rows {
		if v := c.Value(r); v != nil {
			all = append(all, *v)
		}
	}
	return all
}

// Suited is the column of sizes in the unit that suits them.
func (c Column[R]) Suited(rows []R) Column[R] { return c.In(ByteScale(c.Values(rows))) }

// Against are the values of the column over those of another, for a chart.
func (c Column[R]) Against(x Column[R], rows []R) (xys XYs) {
	for _, r := range rows {
		if a, b := x.Value(r), c.Value(r); a != nil && b != nil {
			xys = append(xys, XY{X: *a, Y: *b})
		}
	}
	return xys
}

func (c Column[R]) cell(r R) (text string, value *float64) {
	if c.Words != nil {
		return c.Words(r), nil
	}

	v := c.Value(r)
	if v == nil {
		return None, nil
	}

	scaled := *v
	if c.Per != 0 {
		scaled /= c.Per
	}

	switch {
	case !Sane(*v):
		return Absurd, nil
	case c.Format == nil:
		return Number(scaled), &scaled
	}

	return c.Format(scaled), &scaled
}

// Table is the data under a chart, or a list of facts.
type Table struct {
	Heads []Head
	Rows  []Row
}

// Head is a column of a table.
type Head struct {
	Name, Unit string
	Text       bool // words, left-aligned; else numbers, right-aligned
	Key        bool // says which row it is
	Spare      int  // rank in which it gives way on a narrow terminal; 0: never
}

// Row is a row as it is shown, with the values of its cells for a program.
type Row struct {
	Cells  []string
	Values []*float64
	Links  []string // of the cells that lead somewhere; nil: none does
	Failed bool     // Cells only say which row it is
	Note   string   // why it failed
}

// TableOf lays rows out in columns. failed says why a row has no figures; "" if it has.
// Columns in which no row has anything are left out.
func TableOf[R any](rows []R, failed func(R) string, columns ...Column[R]) Table {
	var t Table
	for _, r := range rows {
		row := Row{}
		if failed != nil {
			row.Note = failed(r)
			row.Failed = row.Note != ""
		}

		t.Rows = append(t.Rows, row)
	}

	for _, c := range columns {
		used := false
		texts, values := make([]string, len(rows)), make([]*float64, len(rows))
		for n, r := range rows {
			if !t.Rows[n].Failed || c.Key {
				texts[n], values[n] = c.cell(r)
				used = used || texts[n] != "" && texts[n] != None
			}
		}

		if !used {
			continue
		}

		t.Heads = append(t.Heads, Head{c.Name, c.Unit, c.Left, c.Key, c.Spare})
		for n := range t.Rows {
			if row := &t.Rows[n]; !row.Failed || c.Key {
				row.Cells, row.Values = append(row.Cells, texts[n]), append(row.Values, values[n])
			}
		}
	}

	return t
}

// Listing is a table of words.
func Listing(heads []string, rows [][]string) Table {
	return ListOf(heads, rows, func(cells []string) []string { return cells })
}

// ListOf is a table of words with a row for each of all.
func ListOf[T any](heads []string, all []T, cells func(T) []string) (t Table) {
	for i, name := range heads {
		t.Heads = append(t.Heads, Head{Name: name, Text: true, Key: i == 0})
	}
	for _, one := range all {
		t.Add(cells(one))
	}
	return t
}

// Add adds a row of words to a listing; links are where its cells lead.
func (t *Table) Add(cells []string, links ...string) {
	t.Rows = append(t.Rows, Row{Cells: cells, Values: make([]*float64, len(cells)), Links: links})
}

// Link is where a cell leads; "": nowhere.
func (r Row) Link(i int) string {
	if i < len(r.Links) {
		return r.Links[i]
	}
	return ""
}

// maxOf is what a figure may be at most: no machine measures more of anything.
const maxOf = 1e15

// Absurd stands where a folder has a figure that no machine measures.
const Absurd = "implausible"

// Sane tells whether a figure can be shown.
func Sane(v float64) bool { return !math.IsNaN(v) && math.Abs(v) <= maxOf }
