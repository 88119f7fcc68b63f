package view

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

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
