package view

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Column is declared once and feeds the table of a page, that of a terminal, a chart
// and a CSV file.
type Column[R any] struct {
	Name, Unit string
	Value      func(R) *float64     // nil: absent
	Format     func(float64) string // prints a value in its unit; nil: Number
	Per        float64              // what a value is divided by to come to the unit; 0: 1
	Words      func(R) string       // of a column without values
	Left       bool                 // words that are aligned to the left
	Key        bool                 // says which row it is: shown of a row that failed, too
	Spare      int                  // on a narrow terminal the columns with 1 give way first, then those with 2; 0: never
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
func Optional[R any](name, unit string, format func(float64) string, of func(R) *float64) Column[R] {
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
	key        bool
	spare      int
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
		t.Heads = append(t.Heads, Head{Name: name, Text: true, key: i == 0})
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

// IsText tells how a cell is aligned; Left is how many columns a failed row has not
// filled. The page's template asks.
func (t *Table) IsText(i int) bool { return i < len(t.Heads) && t.Heads[i].Text }
func (t *Table) Left(row Row) int  { return max(1, len(t.Heads)-len(row.Cells)) }

// Link is where a cell leads; "": nowhere.
func (r Row) Link(i int) string {
	if i < len(r.Links) {
		return r.Links[i]
	}
	return ""
}

func (t *Table) without(i int) Table {
	out := Table{Heads: slices.Delete(slices.Clone(t.Heads), i, i+1)}
	for _, row := range t.Rows {
		if i < len(row.Cells) {
			row.Cells = slices.Delete(slices.Clone(row.Cells), i, i+1)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// csv writes the table for a program: values in full, a row that failed with its reason.
func (t *Table) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	heads := Each(t.Heads, func(h Head) string { return strings.TrimSuffix(h.Name+" ["+h.Unit+"]", " []") })
	records := [][]string{append(heads, "failed")}
	for _, row := range t.Rows {
		record := make([]string, len(heads)+1)
		for i, cell := range row.Cells {
			if row.Values[i] != nil {
				cell = strconv.FormatFloat(*row.Values[i], 'g', -1, 64)
			} else if cell == None {
				cell = ""
			}
			record[i] = cell
		}
		record[len(heads)] = row.Note
		records = append(records, record)
	}
	return out.WriteAll(records)
}

// mostOf is what a figure may be at most: no machine measures more of anything.
const mostOf = 1e15

// Absurd stands where a folder has a figure that no machine measures.
const Absurd = "implausible"

// Sane tells whether a figure can be shown.
func Sane(v float64) bool { return !math.IsNaN(v) && math.Abs(v) <= mostOf }

// Text writes for a terminal. All that a folder says passes through it: control
// characters, which could move the cursor or recolour the screen, do not.
type Text struct {
	out   *bufio.Writer // keeps the first error for Flush
	Width int
}

// NewText writes to a terminal of a width.
func NewText(w io.Writer, width int) *Text { return &Text{bufio.NewWriter(w), width} }

// Line writes a line as it is, or an empty one.
func (t *Text) Line(text string) {
	for _, line := range strings.Split(text, "\n") {
		fmt.Fprintln(t.out, Printable(line))
	}
}

// Linef writes a line by its format.
func (t *Text) Linef(format string, args ...any) { t.Line(fmt.Sprintf(format, args...)) }

// Wrap writes a paragraph; its second and further lines start with indent.
func (t *Text) Wrap(text, indent string) {
	rest := strings.TrimLeft(text, " ")
	lead := text[:len(text)-len(rest)]
	t.Line(lead + Wrap(rest, 0, t.Width-len(lead), indent))
}

// Flush writes what is left and returns the first error.
func (t *Text) Flush() error {
	if err := t.out.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Printable is text without what a terminal would obey.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Warnings writes what a reader must know before the figures.
func (t *Text) Warnings(list []Warning) {
	for _, w := range list {
		text := "Warning: " + w.Text
		if w.Where != "" {
			text += " (" + w.Where + ")"
		}
		t.Wrap(text, "  ")
	}
}

// Table writes a table within the width: its heads are broken into lines, then columns
// that can be spared give way. The reasons of failed rows follow.
func (t *Text) Table(table Table) {
	if len(table.Rows) == 0 {
		return
	}
	heads := plainHeads
	if table.width(heads, 2) > t.Width {
		heads = brokenHeads
	}
	for spare := 1; spare <= 3 && table.width(heads, 1) > t.Width; spare++ {
		for i := len(table.Heads) - 1; i >= 0 && table.width(heads, 1) > t.Width; i-- {
			if table.Heads[i].spare == spare {
				table = table.without(i)
			}
		}
	}
	gap := 2
	if table.width(heads, gap) > t.Width {
		gap = 1
	}
	lines, widths := table.layout(heads)
	for _, cells := range lines {
		var b strings.Builder
		for i, cell := range cells {
			space := strings.Repeat(" ", max(0, widths[i]-runes(cell)))
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			if table.Heads[i].Text {
				b.WriteString(cell + space)
			} else {
				b.WriteString(space + cell)
			}
		}
		t.Line(strings.TrimRight(Clip(b.String(), t.Width), " "))
	}
	var reasons []string
	failed := map[string][]string{}
	for _, row := range table.Rows {
		if row.Failed {
			if failed[row.Note] == nil {
				reasons = append(reasons, row.Note)
			}
			failed[row.Note] = append(failed[row.Note], table.label(row))
		}
	}
	for _, why := range reasons {
		t.Wrap(strings.TrimSpace(strings.Join(failed[why], "; ")+" failed: "+why), "  ")
	}
}

// Part writes a table below an empty line; nothing of one without rows.
func (t *Text) Part(table Table) {
	if len(table.Rows) > 0 {
		t.Line("")
		t.Table(table)
	}
}

// label names a row by its keys.
func (t *Table) label(row Row) string {
	var parts []string
	numbers := 0 // the first tells which row it is: further ones say the same in another unit
	for i, h := range t.Heads {
		if !h.key || i >= len(row.Cells) || row.Cells[i] == None || row.Cells[i] == "" {
			continue
		}
		text := row.Cells[i]
		if !h.Text {
			if numbers++; numbers > 1 {
				continue
			}
			text = strings.TrimSpace(h.Name + " " + text + " " + h.Unit)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func runes(s string) int { return len([]rune(s)) }

func plainHeads(h Head) []string { return []string{h.Name, h.Unit} }

func brokenHeads(h Head) []string { return append(strings.Fields(h.Name), h.Unit) }

// layout is the lines of a table, cell by cell, and the width of every column.
func (t *Table) layout(heads func(Head) []string) (lines [][]string, widths []int) {
	tall := 0
	for _, h := range t.Heads {
		tall = max(tall, len(heads(h)))
	}
	lines = make([][]string, tall)
	for _, h := range t.Heads {
		words := heads(h)
		for n := range lines {
			word := ""
			if at := n - (tall - len(words)); at >= 0 { // heads end above the figures
				word = words[at]
			}
			lines[n] = append(lines[n], word)
		}
	}
	// The last head line are units, which may all be empty; a table of failures has none.
	if tall > 0 && strings.Join(lines[tall-1], "") == "" {
		lines = lines[:tall-1]
	}
	for _, row := range t.Rows {
		cells := slices.Clone(row.Cells)
		if row.Failed {
			cells = append(cells, "failed")
		}
		cells = append(cells, make([]string, len(t.Heads))...)
		lines = append(lines, cells[:len(t.Heads)])
	}
	widths = make([]int, len(t.Heads))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], runes(cell))
		}
	}
	return lines, widths
}

// width of the table with a gap between its columns.
func (t *Table) width(heads func(Head) []string, gap int) int {
	sum := -gap
	_, widths := t.layout(heads)
	for _, w := range widths {
		sum += w + gap
	}
	return sum
}
