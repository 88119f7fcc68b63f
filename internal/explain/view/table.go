package view

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// PrintAligned prints a table in the width of a terminal: first the ranges, then
// what the efficiency table of the page has too, give way where it is too wide.
func PrintAligned(out *bufio.Writer, t Table) {
	for _, unwanted := range []string{"", "repeats", "switch", "memory"} {
		if unwanted != "" {
			t = t.without(unwanted)
		}
		if t.width(1) <= TextWidth {
			break
		}
	}
	gap := 2
	if t.width(gap) > TextWidth {
		gap = 1
	}
	widths := t.widths()
	print := func(cells []string) {
		var b strings.Builder
		for i, cell := range cells {
			space := strings.Repeat(" ", max(0, widths[i]-len([]rune(cell))))
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			if t.Columns[i].Text {
				b.WriteString(cell + space)
			} else {
				b.WriteString(space + cell)
			}
		}
		fmt.Fprintln(out, strings.TrimRight(Clip(b.String(), TextWidth), " "))
	}
	var heads, units []string
	for _, c := range t.Columns {
		heads, units = append(heads, c.Name), append(units, c.Unit)
	}
	print(heads)
	print(units)
	for _, r := range t.Rows {
		cells := r.Cells
		if r.Failed {
			cells = append(slices.Clone(cells), "failed")
			for len(cells) < len(t.Columns) {
				cells = append(cells, "")
			}
		}
		print(cells[:min(len(cells), len(t.Columns))])
	}
}

func (t Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = max(len([]rune(c.Name)), len([]rune(c.Unit)))
	}
	for _, r := range t.Rows {
		for i, cell := range r.Cells {
			if i < len(widths) {
				widths[i] = max(widths[i], len([]rune(cell)))
			}
		}
		if n := len(r.Cells); r.Failed && n < len(widths) {
			widths[n] = max(widths[n], len("failed"))
		}
	}
	return widths
}

// width of the table with a gap between its columns.
func (t Table) width(gap int) int {
	sum := -gap
	for _, w := range t.widths() {
		sum += w + gap
	}
	return sum
}

// without drops the columns of a name.
func (t Table) without(name string) Table {
	var keep []string
	for _, c := range t.Columns {
		if c.Name != name {
			keep = append(keep, c.Name)
		}
	}
	return t.Only(keep...)
}

// PrintTable aligns numbers to the right; a failed row tells why.
func PrintTable(w io.Writer, t Table) {
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var heads, units []string
	for _, c := range t.Columns {
		heads, units = append(heads, c.Name), append(units, c.Unit)
	}
	width := max(len(heads[0]), len(units[0]))
	for _, r := range t.Rows {
		width = max(width, len(r.Cells[0]))
	}
	left := func(text string) string { return text + strings.Repeat(" ", width-len(text)) }
	fmt.Fprintf(aligned, "%s\t%s\t\n", left(heads[0]), strings.Join(heads[1:], "\t"))
	fmt.Fprintf(aligned, "%s\t%s\t\n", left(units[0]), strings.Join(units[1:], "\t"))
	var failed []Row
	for _, r := range t.Rows {
		if r.Failed {
			failed = append(failed, r)
			continue
		}
		fmt.Fprintf(aligned, "%s\t%s\t\n", left(r.Cells[0]), strings.Join(r.Cells[1:], "\t"))
	}
	aligned.Flush() // into a bufio.Writer, which keeps its error
	for _, r := range failed {
		fmt.Fprintln(w, Wrap(r.Cells[0]+" failed: "+r.Note, 80, "  "))
	}
}

// Table is the data under a chart, or a list of facts.
type Table struct {
	Columns []Column
	Rows    []Row
}

type Column struct {
	Name string
	Unit string
	Text bool // words, left-aligned; else numbers, right-aligned
}

type Row struct {
	Cells  []string
	Failed bool   // Cells only say which point it is
	Note   string // why it failed
}

func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// drop removes the columns in which no row has a figure.
func (t *Table) Drop() {
	keep := make([]bool, len(t.Columns))
	for _, r := range t.Rows {
		for i, cell := range r.Cells {
			keep[i] = keep[i] || cell != None && cell != ""
		}
	}
	var columns []Column
	for i, c := range t.Columns {
		if keep[i] {
			columns = append(columns, c)
		}
	}
	t.Columns = columns
	for n := range t.Rows {
		var cells []string
		for i, cell := range t.Rows[n].Cells {
			if keep[i] {
				cells = append(cells, cell)
			}
		}
		t.Rows[n].Cells = cells
	}
}

// only keeps the columns with these names.
func (t Table) Only(names ...string) Table {
	var out Table
	var keep []int
	for i, c := range t.Columns {
		if slices.Contains(names, c.Name) {
			out.Columns = append(out.Columns, c)
			keep = append(keep, i)
		}
	}
	for _, r := range t.Rows {
		kept := Row{Failed: r.Failed, Note: r.Note}
		for _, i := range keep {
			if i < len(r.Cells) {
				kept.Cells = append(kept.Cells, r.Cells[i])
			}
		}
		out.Rows = append(out.Rows, kept)
	}
	return out
}

// TextWidth is the width of a terminal nobody has resized.
const TextWidth = 80
