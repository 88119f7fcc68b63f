package render

import (
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/report/doc"
)

// table writes a table within the width. A table that is too wide is made narrower step by
// step, until it fits: see fit. The reasons of failed rows follow.
func (t *terminal) table(table doc.Table) {
	if len(table.Rows) == 0 {
		return
	}

	// Rows that all failed have no figure. Where they have one key, the reasons below repeat it,
	// and nothing but its head would stand above them.
	if len(table.Heads) <= 1 && allFailed(table) {
		t.failures(table)

		return
	}

	fitted := fit(table, t.width)
	for i, part := range fitted.parts {
		if i > 0 {
			t.line("")
		}
		t.rows(part)
	}

	if len(fitted.constant) > 0 {
		t.paragraph("The same in all rows: "+strings.Join(fitted.constant, "; ")+".", "  ")
	}

	t.failures(table)
}

func allFailed(table doc.Table) bool {
	return !slices.ContainsFunc(table.Rows, func(r doc.Row) bool { return !r.Failed })
}

// grid is a table as lines of cells.
type grid struct {
	heads []doc.Head
	lines []line
}

// line is a line of a head, or a row, or the continuation of one whose words are broken.
type line struct {
	cells           []string
	head, continues bool
}

// fitted is a table that was made to fit a width.
type fitted struct {
	parts    []grid   // below each other, each with some of the columns
	constant []string // columns that have one value in all rows, which are not in parts
}

// fit makes a table fit a width. In this order, and only as far as needed: the heads are
// broken into lines; columns that have the same value in all rows are told below the table
// instead, those of words first; columns that the author spares give way; the longest words
// are broken into lines; and the columns that still have no room follow in a second table. So
// no figure is lost but those of spared columns, which every other medium has.
func fit(table doc.Table, width int) (f fitted) {
	var heads headLines = plainHeads
	if widthOf(gridOf(table, heads), wideGap) <= width {
		return fitted{parts: []grid{gridOf(table, heads)}}
	}

	heads = brokenHeads
	tooWide := func() bool { return widthOf(gridOf(table, heads), narrowGap) > width }

	for _, words := range []bool{true, false} {
		for i := len(table.Heads) - 1; i >= 0 && tooWide(); i-- {
			if same, is := constant(table, i); is && table.Heads[i].Text == words &&
				len(table.Heads) > 1 {
				f.constant = append(f.constant, same)
				table = without(table, i)
			}
		}
	}

	slices.Reverse(f.constant)

	const maxSpare = 3
	for spare := 1; spare <= maxSpare; spare++ {
		for i := len(table.Heads) - 1; i >= 0 && tooWide(); i-- {
			if table.Heads[i].Spare == spare {
				table = without(table, i)
			}
		}
	}

	lines := gridOf(table, heads)
	if tooWide() {
		lines = breakWords(lines, widthOf(lines, wideGap)-width)
	}

	f.parts = divide(lines, width)
	return f
}

// constant is the name and value of a column that has one value in all rows; is is false of
// others, and of a table of one row.
func constant(table doc.Table, i int) (text string, is bool) {
	value, rows := "", 0
	for _, row := range table.Rows {
		if i >= len(row.Cells) {
			continue // a row that failed
		}

		if rows++; rows > 1 && row.Cells[i] != value {
			return "", false
		}

		value = row.Cells[i]
	}

	name := table.Heads[i].Name
	if u := table.Heads[i].Unit; u != "" {
		name += " (" + u + ")"
	}

	return name + ": " + value, rows > 1
}

// without is the table without a column.
func without(t doc.Table, i int) doc.Table {
	out := doc.Table{Heads: slices.Delete(slices.Clone(t.Heads), i, i+1)}
	for _, row := range t.Rows {
		if i < len(row.Cells) {
			row.Cells = slices.Delete(slices.Clone(row.Cells), i, i+1)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// headLines are the lines of the head of a column whose widest cell has so many runes. The last
// one is the unit.
type headLines func(h doc.Head, widest int) []string

func plainHeads(h doc.Head, _ int) []string { return []string{h.Name, h.Unit} }

// brokenHeads breaks the names that are wider than all cells.
func brokenHeads(h doc.Head, widest int) []string {
	if runes(h.Name) <= widest {
		return plainHeads(h, widest)
	}

	var lines []string
	for _, word := range strings.Fields(h.Name) {
		if runes(word) > widest {
			lines = append(lines, halves(word)...)
		} else {
			lines = append(lines, word)
		}
	}

	return append(lines, h.Unit)
}

// halves divides the name of an option, as cache_index_and_filter_blocks or MaxOpenFiles, between
// two of its words, near the middle; a name of one word stays whole.
func halves(name string) []string {
	at := 0
	for i := 1; i < len(name); i++ {
		begins := name[i-1] == '_' || name[i] >= 'A' && name[i] <= 'Z' && name[i-1] >= 'a'
		if begins && max(i, len(name)-i) < max(at, len(name)-at) {
			at = i
		}
	}

	if at == 0 {
		return []string{name}
	}

	return []string{name[:at], name[at:]}
}

// gridOf are the lines of a table, heads first.
func gridOf(t doc.Table, headsOf headLines) grid {
	widest := make([]int, len(t.Heads))
	for _, row := range t.Rows {
		for i, cell := range row.Cells {
			widest[i] = max(widest[i], runes(cell))
		}
	}

	tall := 0
	for i, h := range t.Heads {
		tall = max(tall, len(headsOf(h, widest[i])))
	}

	heads := make([][]string, tall)
	for i, h := range t.Heads {
		words := headsOf(h, widest[i])
		for n := range heads {
			word := ""
			if at := n - (tall - len(words)); at >= 0 { // heads end above the figures
				word = words[at]
			}
			heads[n] = append(heads[n], word)
		}
	}

	// The last head line has units, which may all be empty; so may the others, of a list.
	heads = slices.DeleteFunc(heads, func(line []string) bool {
		return strings.Join(line, "") == ""
	})

	lines := doc.Each(heads, func(words []string) line { return line{cells: words, head: true} })
	for _, row := range t.Rows {
		cells := slices.Clone(row.Cells)
		if row.Failed {
			cells = append(cells, "failed")
		}

		cells = append(cells, make([]string, len(t.Heads))...)
		lines = append(lines, line{cells: cells[:len(t.Heads)]})
	}

	return grid{t.Heads, lines}
}

// widths are those of the columns.
func widths(g grid) []int {
	all := make([]int, len(g.heads))
	for _, l := range g.lines {
		for i, cell := range l.cells {
			all[i] = max(all[i], runes(cell))
		}
	}
	return all
}

// The room between two columns, and in a table that would be too wide otherwise.
const (
	wideGap   = 2
	narrowGap = 1
)

// widthOf is the width of all columns with gaps between them.
func widthOf(g grid, gap int) int {
	sum := -gap
	for _, w := range widths(g) {
		sum += w + gap
	}
	return max(0, sum)
}

// breakWords breaks the cells of the widest column of words into lines, so that the table has
// over columns less; not below a width that words need.
func breakWords(g grid, over int) grid {
	const minimum = 20
	all, widest := widths(g), -1
	for i, h := range g.heads {
		if h.Text && (widest < 0 || all[i] > all[widest]) {
			widest = i
		}
	}

	if widest < 0 || all[widest] <= minimum {
		return g
	}

	room := max(minimum, all[widest]-over)
	out := grid{heads: g.heads}
	for _, l := range g.lines {
		for n, part := range strings.Split(wrap(l.cells[widest], 0, room, ""), "\n") {
			cells := make([]string, len(l.cells))
			if n == 0 {
				copy(cells, l.cells)
			}

			cells[widest] = part
			out.lines = append(out.lines, line{cells, l.head, n > 0})
		}
	}

	return out
}

// divide puts the columns that have no room into further grids, which begin with the number of
// the line and the first column again, so that it is seen which line continues.
func divide(g grid, width int) []grid {
	if widthOf(g, narrowGap) <= width {
		return []grid{g}
	}

	g = numbered(g)
	all := widths(g)

	leads := 1 // columns that every part begins with
	if g.heads[1].Text && all[0]+all[1] <= width/2 {
		leads = 2
	}

	lead := -narrowGap
	for _, w := range all[:leads] {
		lead += w + narrowGap
	}

	var parts []grid
	for from := leads; from < len(all); {
		to, sum := from, lead
		for to < len(all) && (to == from || sum+narrowGap+all[to] <= width) {
			sum += narrowGap + all[to]
			to++
		}

		parts = append(parts, columnsOf(g, leads, from, to))
		from = to
	}

	return parts
}

// numbered is the grid with the number of each row in front. Heads and the further lines of a
// row have none.
func numbered(g grid) grid {
	out := grid{heads: append([]doc.Head{{Key: true}}, g.heads...)}
	row := 0
	for n, l := range g.lines {
		number := ""
		switch {
		case l.head && (n+1 == len(g.lines) || !g.lines[n+1].head):
			number = "#"
		case !l.head && !l.continues:
			row++
			number = strconv.Itoa(row)
		}

		l.cells = append([]string{number}, l.cells...)
		out.lines = append(out.lines, l)
	}

	return out
}

// columnsOf are the first columns, leads of them, and those of a range.
func columnsOf(g grid, leads, from, to int) (part grid) {
	part.heads = slices.Concat(g.heads[:leads], g.heads[from:to])
	for _, l := range g.lines {
		l.cells = slices.Concat(l.cells[:leads], l.cells[from:to])
		part.lines = append(part.lines, l)
	}
	return part
}

// rows writes a grid: words to the left, figures to the right.
func (t *terminal) rows(g grid) {
	gap := wideGap
	if widthOf(g, gap) > t.width {
		gap = narrowGap
	}

	all := widths(g)
	for _, l := range g.lines {
		if l.head && strings.Join(l.cells, "") == "" {
			continue // of columns in another part
		}

		var b strings.Builder
		for i, cell := range l.cells {
			space := strings.Repeat(" ", max(0, all[i]-runes(cell)))
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}

			if g.heads[i].Text {
				b.WriteString(cell + space)
			} else {
				b.WriteString(space + cell)
			}
		}

		t.line(b.String())
	}
}

// failures are the reasons of rows that failed, each once with all its rows.
func (t *terminal) failures(table doc.Table) {
	var reasons []string
	failed := map[string][]string{}
	for _, row := range table.Rows {
		if row.Failed {
			if failed[row.Note] == nil {
				reasons = append(reasons, row.Note)
			}
			failed[row.Note] = append(failed[row.Note], label(table, row))
		}
	}

	for _, why := range reasons {
		t.paragraph(strings.TrimSpace(strings.Join(failed[why], "; ")+" failed: "+why), "  ")
	}
}

// label names a row by its keys.
func label(t doc.Table, row doc.Row) string {
	var parts []string
	numbers := 0 // the first tells which row it is: further ones say the same in another unit
	for i, h := range t.Heads {
		if !h.Key || i >= len(row.Cells) || row.Cells[i] == doc.None || row.Cells[i] == "" {
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
