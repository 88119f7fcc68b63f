// Package view lays out what a report shows: columns, tables, charts, a page and
// text for a terminal. It knows no subject.
package view

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/web"
)

// Page is what the template lays out.
type Page struct {
	Title    string
	Answers  []Said
	Advice   []Said
	Warnings []Warning
	Cards    []Card
	Sections []Section
}

// Said is a sentence, and of what it is if a page tells of several things.
type Said struct{ Of, Text string }

// Warning is what a reader must know before the figures.
type Warning struct{ Text, Where, Remedy string }

// Warned are the warnings of a folder.
func Warned(list []engine.Warning) []Warning {
	return Each(list, func(w engine.Warning) Warning { return Warning{Text: w.Text, Remedy: w.Remedy} })
}

// Card is a list of facts.
type Card struct {
	Name  string
	Facts [][2]string
}

// Section is a part of a page under one title.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is a chart, a table, a text or a list of sentences with what explains it.
type Block struct {
	Title, Note string
	Method      string // file in docs
	Chart       *Chart
	Table       Table
	Aside       bool // the table is folded below its chart
	Pre         string
	List        []string // sentences
	Verdicts    []Verdict
	Folded      bool
}

// Verdict is a claim and what is found of it.
type Verdict struct {
	Word, Clause          string
	Class                 string // of its word, for the colour
	Says, By, Source      string
	Given, Figures, Where string
}

// Add adds a section of the blocks that show anything; none, no section.
func (p *Page) Add(title string, blocks ...Block) {
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool {
		return b.Chart == nil && len(b.Table.Rows) == 0 && b.Pre == "" && len(b.List) == 0 && len(b.Verdicts) == 0
	})
	for i := range blocks {
		if c := blocks[i].Chart; c != nil && c.Omitted > 0 {
			blocks[i].Note += fmt.Sprintf(" Not drawn: %d %s figures.", c.Omitted, Absurd)
		}
	}
	if len(blocks) > 0 {
		p.Sections = append(p.Sections, Section{title, blocks})
	}
}

// Answer adds sentences; of says what they tell of.
func (p *Page) Answer(of string, texts ...string) {
	p.Answers = append(p.Answers, Each(texts, func(text string) Said { return Said{of, text} })...)
}

// Style is the page's own style sheet.
func (p *Page) Style() template.CSS {
	return template.CSS(PaletteStyle() + web.ChartStyle + web.ReportStyle)
}

// Script saves tables and charts.
func (p *Page) Script() template.JS { return template.JS(web.ReportScript) }

// Library draws the charts; "" if the page has none.
func (p *Page) Library() template.JS {
	if p.mainChart() == nil {
		return ""
	}
	return template.JS(web.ChartLibrary + "\n" + web.ChartScript)
}

// mainChart is the first one; nil if the page has none.
func (p *Page) mainChart() *Chart {
	for _, s := range p.Sections {
		for _, b := range s.Blocks {
			if b.Chart != nil {
				return b.Chart
			}
		}
	}
	return nil
}

// Picture draws the first chart of the page as SVG.
func (p *Page) Picture(w io.Writer) error {
	chart := p.mainChart()
	if chart == nil {
		return errors.New("nothing to draw: the report has no chart")
	}
	return chart.SVG(w)
}

// Data is the block's table; nil if it has none.
func (b Block) Data() *Table {
	if len(b.Table.Rows) == 0 {
		return nil
	}
	return &b.Table
}

// Write makes the page: one file that loads nothing.
func (p *Page) Write(w io.Writer) error {
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

// CSV writes all tables of the page for a program, each below a line with its title.
func (p *Page) CSV(w io.Writer) error {
	for _, s := range p.Sections {
		for _, b := range s.Blocks {
			if b.Data() == nil {
				continue
			}
			if _, err := fmt.Fprintf(w, "# %s: %s\n", s.Title, b.Title); err != nil {
				return fmt.Errorf("write CSV: %w", err)
			}
			if err := b.Table.csv(w); err != nil {
				return fmt.Errorf("write CSV: %w", err)
			}
		}
	}
	return nil
}

// Warnings gathers warnings: each once, with all the places where it holds.
type Warnings struct {
	list  []*told
	known map[[2]string]*told   // by kind and text
	alike map[[2]string][]*told // by kind and text without its figures
}

// told is a warning with its places, and with how many others it stands for.
type told struct {
	Warning
	where []string
	at    map[string]bool
	more  int
}

// mostAlike is how many warnings are listed that differ in figures only: thousands of runs
// on a busy machine have thousands of them.
const mostAlike = 10

var figures = regexp.MustCompile(`[0-9]+([.,][0-9]+)*`)

// Add adds a warning. Those of one kind and text are the same.
func (w *Warnings) Add(kind, text, remedy, where string) {
	if w.known == nil {
		w.known, w.alike = map[[2]string]*told{}, map[[2]string][]*told{}
	}
	key := [2]string{kind, text}
	t := w.known[key]
	if t == nil {
		shape := [2]string{kind, figures.ReplaceAllString(text, "0")}
		if alike := w.alike[shape]; len(alike) == mostAlike {
			t = alike[mostAlike-1]
			t.more++
		} else {
			t = &told{Warning: Warning{Text: text, Remedy: remedy}, at: map[string]bool{}}
			w.list, w.alike[shape] = append(w.list, t), append(alike, t)
		}
		w.known[key] = t
	}
	if where != "" && !t.at[where] {
		t.at[where], t.where = true, append(t.where, where)
	}
}

// List is every warning with its places, few enough to be read.
func (w *Warnings) List() (list []Warning) {
	const most = 200
	for _, t := range w.list {
		shown := t.Warning
		if shown.Where = Clip(strings.Join(t.where, "; "), most); t.more > 0 {
			shown.Text += fmt.Sprintf(" (and %s more with other figures)", unit.Count(t.more))
		}
		list = append(list, shown)
	}
	return list
}

// Known leaves out the facts without a value.
func Known(facts [][2]string) [][2]string {
	return slices.DeleteFunc(facts, func(f [2]string) bool { return f[1] == "" })
}

// Shell quotes a command for a POSIX shell.
func Shell(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		special := strings.ContainsFunc(word, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=+./:,@%", r))
		})
		if special || word == "" {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
