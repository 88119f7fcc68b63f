// Package render shows documents: Terminal in short form, Page as HTML, Markdown, and CSV.
// It is the only code that knows a width, an HTML tag or an alignment.
//
// Non-goals: what is said (the packages that build documents).
package render

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/report/doc"
)

// maxProse is how long a line of a paragraph is at most, on any terminal: longer ones are hard
// to read. Tables use the whole width.
const maxProse = 100

// Terminal writes the short form of the document, at the width of the terminal that w writes to.
func Terminal(w io.Writer, d *doc.Document) error { return atWidth(w, d, console.Columns(w)) }

// atWidth writes the short form in so many columns.
func atWidth(w io.Writer, d *doc.Document, width int) error {
	t := &terminal{bufio.NewWriter(w), width, false}
	t.document(d)
	if err := t.out.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// terminal writes lines. All that a folder says passes through it: control characters, which
// could move the cursor or recolour the screen, do not.
type terminal struct {
	out   *bufio.Writer // keeps the first error for Flush
	width int
	begun bool // something is written
}

func (t *terminal) document(d *doc.Document) {
	for _, said := range slices.Concat(d.Answers, d.Advice) {
		if !said.Detail {
			t.paragraph(attributed(said), "")
		}
	}

	t.warnings(d.Warnings)

	for _, c := range d.Cards {
		if c.Brief != "" {
			t.part()
			t.paragraph(c.Brief, "")
		}
	}

	blocks := shortForm(d)
	titled := len(doc.Where(blocks, func(b doc.Block) bool { return b.Title != "" })) > 1
	for _, b := range blocks {
		t.part()
		if titled && b.Title != "" {
			t.paragraph(b.Title, "")
		}
		t.block(b)
	}
}

// shortForm are the blocks that a terminal shows. The first of a section has its title if it has
// none. Of a block that has only a chart or a note, nothing would be seen.
func shortForm(d *doc.Document) (blocks []doc.Block) {
	for _, s := range d.Sections {
		title := s.Title
		for _, b := range s.Blocks {
			shown := len(b.Table.Rows) + len(b.Pre) + len(b.List) + len(b.Facts) + len(b.Texts) +
				len(b.Verdicts)
			if !b.Brief() || shown == 0 {
				continue
			}

			if b.Title == "" {
				b.Title = title
			}

			title = ""
			blocks = append(blocks, b)
		}
	}

	return blocks
}

// attributed is a statement after what it is about.
func attributed(s doc.Statement) string {
	if s.About == "" {
		return s.Text
	}
	return s.About + ": " + s.Text
}

// part begins a part below an empty line.
func (t *terminal) part() {
	if t.begun {
		t.line("")
	}
}

func (t *terminal) warnings(list []doc.Warning) {
	for _, w := range list {
		if w.Detail {
			continue
		}

		text := "Warning: " + w.Text
		if w.Where != "" {
			text += " (" + w.Where + ")"
		}

		t.paragraph(text, "  ")
		if w.Remedy != "" {
			t.paragraph("  Remedy: "+w.Remedy, "  ")
		}
	}
}

func (t *terminal) block(b doc.Block) {
	if b.Pre != "" {
		for _, line := range strings.Split(strings.TrimRight(b.Pre, "\n"), "\n") {
			t.line(line)
		}
	}

	for _, item := range b.List {
		t.paragraph("- "+item, "  ")
	}

	t.facts(b.Facts)
	t.table(b.Table)
	for _, v := range b.Verdicts {
		t.verdict(v)
	}

	for _, text := range b.Texts {
		t.paragraph(text, "")
	}
}

// facts are names and values, aligned. A name longer than maxName pushes its value aside.
func (t *terminal) facts(facts [][2]string) {
	const maxName = 36
	wide := 0
	for _, f := range facts {
		if n := runes(f[0]); n <= maxName {
			wide = max(wide, n)
		}
	}

	for _, f := range facts {
		name := f[0] + strings.Repeat(" ", max(0, wide-runes(f[0])))
		t.line(name + "  " + wrap(f[1], runes(name)+2, min(t.width, maxProse),
			strings.Repeat(" ", wide+2)))
	}
}

func (t *terminal) verdict(v doc.Verdict) {
	t.paragraph(v.By+": "+v.Says, "  ")
	t.paragraph("  "+doc.Upper(v.Judgement())+". "+strings.TrimSuffix(v.Figures, doc.None), "  ")
}

// line writes text as it is.
func (t *terminal) line(text string) {
	t.begun = true
	for _, line := range strings.Split(text, "\n") {
		fmt.Fprintln(t.out, printable(strings.TrimRight(line, " ")))
	}
}

// paragraph writes text in lines; the second and further ones start with indent.
func (t *terminal) paragraph(text, indent string) {
	rest := strings.TrimLeft(text, " ")
	lead := text[:len(text)-len(rest)]
	t.line(lead + wrap(rest, len(lead), min(t.width, maxProse), indent))
}

// wrap breaks text into lines of at most width runes, of which the first has used some
// already; the second and further lines start with indent. Words are never broken.
func wrap(text string, used, width int, indent string) string {
	var b strings.Builder
	for i, word := range strings.Fields(text) {
		n := runes(word)
		switch {
		case i == 0:
		case used+1+n > width:
			b.WriteString("\n" + indent)
			used = len(indent)
		default:
			b.WriteByte(' ')
			used++
		}

		b.WriteString(word)
		used += n
	}

	return b.String()
}

func runes(s string) int { return len([]rune(s)) }

// printable is text without what a terminal would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
