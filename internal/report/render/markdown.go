package render

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/report/doc"
)

// documents is where the definitions of figures are.
const documents = "https://github.com/statelab/statelab/blob/main/docs/"

// Markdown writes the whole document for issues, wikis and documentation: all that a page has
// but its charts, whose figures are in the tables.
func Markdown(w io.Writer, d *doc.Document) error {
	m := &markdown{bufio.NewWriter(w)}
	m.document(d)
	if err := m.out.Flush(); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
}

type markdown struct{ out *bufio.Writer }

func (m *markdown) document(d *doc.Document) {
	fmt.Fprintf(m.out, "# %s\n", escaped(d.Title))
	for _, said := range d.Answers {
		m.paragraph("**" + escaped(attributed(said)) + "**")
	}

	for _, said := range d.Advice {
		m.paragraph(escaped(attributed(said)))
	}

	m.warnings(d.Warnings)

	for _, c := range d.Cards {
		m.heading(2, doc.Upper(c.Name))
		m.facts(c.Facts)
	}

	for _, s := range d.Sections {
		m.heading(2, s.Title)
		for _, b := range s.Blocks {
			m.block(b)
		}
	}
}

func (m *markdown) heading(depth int, text string) {
	if text != "" {
		fmt.Fprintf(m.out, "\n%s %s\n", strings.Repeat("#", depth), escaped(text))
	}
}

// paragraph writes text that is Markdown already.
func (m *markdown) paragraph(text string) {
	if text != "" {
		fmt.Fprintf(m.out, "\n%s\n", text)
	}
}

func (m *markdown) list(items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintln(m.out)
	for _, item := range items {
		fmt.Fprintln(m.out, "-", item)
	}
}

func (m *markdown) warnings(list []doc.Warning) {
	if len(list) == 0 {
		return
	}

	m.heading(2, "Warnings")
	m.list(doc.Each(list, func(w doc.Warning) string {
		text := "**" + escaped(w.Text) + "**"
		if w.Where != "" {
			text += " (" + escaped(w.Where) + ")"
		}

		if w.Remedy != "" {
			text += " Remedy: " + escaped(w.Remedy)
		}

		return text
	}))
}

func (m *markdown) block(b doc.Block) {
	m.heading(3, b.Title)
	note := escaped(strings.TrimSpace(b.Note))
	if b.Method != "" {
		link := fmt.Sprintf("How it is measured: [docs/%s](%s%s)", b.Method, documents, b.Method)
		note = strings.TrimSpace(note + " " + link)
	}

	m.paragraph(note)
	if pre := strings.TrimRight(b.Pre, "\n"); pre != "" {
		m.paragraph(fenced(pre))
	}

	m.list(doc.Each(b.List, escaped))
	m.facts(b.Facts)
	m.table(b.Table)
	m.list(doc.Each(b.Verdicts, func(v doc.Verdict) string {
		return fmt.Sprintf("**%s**: %s (%s). %s Condition: %s. Source: %s.",
			escaped(v.Judgement()), escaped(v.Says), escaped(v.By),
			escaped(v.Figures), escaped(v.Given), escaped(v.Source))
	}))

	for _, text := range b.Texts {
		m.paragraph(escaped(text))
	}
}

// facts are a table without heads, which Markdown needs nevertheless.
func (m *markdown) facts(facts [][2]string) {
	if len(facts) == 0 {
		return
	}
	fmt.Fprint(m.out, "\n|  |  |\n|---|---|\n")
	for _, f := range facts {
		fmt.Fprintf(m.out, "| %s | %s |\n", escaped(f[0]), escaped(f[1]))
	}
}

func (m *markdown) table(t doc.Table) {
	if len(t.Rows) == 0 {
		return
	}

	for _, row := range t.Rows { // the reason of a failure has a column, be there no figures
		if row.Failed && len(row.Cells) == len(t.Heads) {
			t.Heads = append(slices.Clone(t.Heads), doc.Head{Text: true})
			break
		}
	}

	heads := doc.Each(t.Heads, func(h doc.Head) string {
		return escaped(strings.TrimSpace(h.Name + " " + h.Unit))
	})
	lines := doc.Each(t.Heads, func(h doc.Head) string {
		if h.Text {
			return "---"
		}
		return "---:"
	})

	fmt.Fprintf(m.out, "\n| %s |\n|%s|\n", strings.Join(heads, " | "), strings.Join(lines, "|"))

	for _, row := range t.Rows {
		cells := doc.Each(row.Cells, escaped)
		for i := range cells {
			if link := row.Link(i); link != "" {
				cells[i] = "[" + cells[i] + "](" + link + ")"
			}
		}

		if row.Failed {
			cells = append(cells, escaped("failed: "+row.Note))
		}

		for len(cells) < len(t.Heads) {
			cells = append(cells, "")
		}

		fmt.Fprintf(m.out, "| %s |\n", strings.Join(cells, " | "))
	}
}

// fenced are lines as they are, in a fence longer than any in them.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	lines := doc.Each(strings.Split(text, "\n"), printable)
	return fence + "\n" + strings.Join(lines, "\n") + "\n" + fence
}

// marks are what Markdown, or the HTML in it, would obey.
var marks = strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[",
	"]", "\\]", "<", "&lt;", "&", "&amp;", "|", "\\|", "#", "\\#", "~", "\\~")

// escaped is text as Markdown, on one line.
func escaped(text string) string {
	return marks.Replace(printable(strings.Join(strings.Fields(text), " ")))
}
