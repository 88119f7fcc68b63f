// Package view lays out what a report shows: columns, tables, charts, a page and
// text for a terminal. It knows no subject.
package view

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/statelab/statelab/web"
)

func (p *Page) AddSection(s Section) {
	if len(s.Blocks) > 0 {
		p.Sections = append(p.Sections, s)
	}
}

// Shell quotes a command for a POSIX shell.
func Shell(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		plain := strings.IndexFunc(word, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=+./:,@%", r))
		}) < 0
		if !plain || word == "" {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// Figure is one chart of the page with what belongs to it.
type Figure struct {
	Title  string
	Note   string // how to read it
	Method string // the page that defines its numbers
	Pic    *Picture
	Table  Table
	Open   bool // a table without a chart that is not folded away
}

// VerdictView is a claim on the page.
type VerdictView struct {
	Word, Clause          string
	Class                 string // of its word, for the colour
	Says, By, Source      string
	Given, Figures, Where string
}

// Page is what the template lays out.
type Page struct {
	Title    string
	Style    template.CSS
	Answers  []Said
	Advice   []Said
	Warnings []Warning
	Cards    []Card
	Sections []Section
}

type Said struct{ Of, Text string }

type Warning struct{ Text, Where, Remedy string }

type Card struct {
	Name  string
	Facts [][2]string
}

type Section struct {
	Title  string
	Blocks []Block
}

// Block is a chart, a table or a text with what explains it.
type Block struct {
	Title, Note string
	Method      string // file in docs/methods
	SVG         template.HTML
	Pre         string
	Table       *tableView
	Aside       bool // the table is folded below its chart
	Verdicts    []VerdictView
	Folded      bool
}

type tableView struct {
	Columns []Column
	Rows    []rowView
}

type rowView struct {
	Row
	columns []Column
}

// IsText tells how a cell is aligned.
func (r rowView) IsText(i int) bool { return i < len(r.columns) && r.columns[i].Text }

// Left is how many columns a failed row has not filled.
func (r rowView) Left() int { return max(1, len(r.columns)-len(r.Cells)) }

// write lays the page out: one file that loads nothing.
func (p *Page) Write(w io.Writer) error {
	p.Style = template.CSS(web.ReportStyle)
	t, err := template.New("report").Parse(web.Report)
	if err != nil {
		return fmt.Errorf("read the report's template: %w", err)
	}
	var out bytes.Buffer // nothing is written of a page that fails halfway
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("lay out report: %w", err)
	}
	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// addFigures draws figures into a section; none, no section.
func (p *Page) AddFigures(title string, figures []Figure) error {
	s := Section{Title: title}
	for _, f := range figures {
		b := Block{Title: f.Title, Note: f.Note, Method: f.Method, Table: ViewOf(f.Table), Folded: f.Pic == nil && !f.Open}
		if f.Pic != nil {
			text, err := f.Pic.Svg()
			if err != nil {
				return err
			}
			b.SVG = template.HTML(text) // drawn by us; vgsvg escapes its texts
		}
		s.Blocks = append(s.Blocks, b)
	}
	if len(s.Blocks) > 0 {
		p.Sections = append(p.Sections, s)
	}
	return nil
}

func ViewOf(t Table) *tableView {
	if len(t.Rows) == 0 {
		return nil
	}
	v := &tableView{Columns: t.Columns}
	for _, r := range t.Rows {
		v.Rows = append(v.Rows, rowView{r, t.Columns})
	}
	return v
}

func Upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
