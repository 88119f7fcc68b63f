// Package doc holds what a result says, as values: sentences, warnings, facts, tables and
// charts. A kind of result builds one Document; package render shows it on a terminal, as a
// page, as Markdown and as CSV.
//
// Non-goals: widths, HTML, alignment, files (render). It knows no engine, tree or layout.
package doc

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// Document is all that a result says. The short form, which a terminal shows, leaves out
// what is marked as detail; every other medium shows all.
type Document struct {
	Title    string
	Answers  []Statement
	Advice   []Statement
	Warnings []Warning
	Cards    []Card
	Sections []Section
}

// Statement is a sentence, and what it is about if a document is about several things.
type Statement struct {
	About, Text string
	Detail      bool // not in the short form
}

// Warning is what a reader must know before the figures: where it holds, and what to do.
type Warning struct {
	Text, Where, Remedy string
	Detail              bool // not in the short form
}

// WarningsOf are the warnings of a result.
func WarningsOf(list []engine.Warning) []Warning {
	return Each(list, func(w engine.Warning) Warning {
		return Warning{Text: w.Text, Remedy: w.Remedy}
	})
}

// Detailed are warnings that the short form leaves out: whoever measures has read them already,
// on the standard error.
func Detailed(list []Warning) []Warning {
	return Each(list, func(w Warning) Warning {
		w.Detail = true
		return w
	})
}

// Card is a list of facts, each a name and a value. The short form has Brief in its place.
type Card struct {
	Name  string
	Facts [][2]string
	Brief string
}

// Section is a part of a document under one title.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is a chart, a table, facts or texts, with what explains it. What it has is shown in the
// order of the fields.
type Block struct {
	Title    string
	Note     string   // how to read it; not in the short form
	Method   string   // file in docs that says how it is measured; not in the short form
	Chart    *Chart   // not in the short form
	Pre      string   // lines that stay as they are: commands, files
	List     []string // sentences, one an item
	Facts    [][2]string
	Table    Table
	Aside    bool // the table has the figures of the chart
	Verdicts []Verdict
	Texts    []string // paragraphs

	Detail bool // not in the short form
	Folded bool // a detail that even a page shows only to those who ask
}

// Brief reports whether the block belongs to the short form.
func (b Block) Brief() bool { return !b.Detail && !b.Folded }

// AsDetail are blocks that the short form leaves out.
func AsDetail(blocks []Block) []Block {
	return Each(blocks, func(b Block) Block {
		b.Detail = true
		return b
	})
}

// Verdict is a claim and what is found of it.
type Verdict struct {
	Word, Clause          string
	Class                 string // of its word, for the colour
	Says, By, Source      string
	Given, Figures, Where string
}

// Judgement is the word with what limits it.
func (v Verdict) Judgement() string {
	switch {
	case v.Clause == "":
		return v.Word
	case strings.HasSuffix(v.Word, " if") || strings.HasPrefix(v.Clause, "("):
		return v.Word + " " + v.Clause
	}
	return v.Word + ": " + v.Clause
}

// empty reports whether the block shows nothing.
func (b Block) empty() bool {
	return b.Chart == nil && len(b.Table.Rows) == 0 && b.Pre == "" && len(b.Texts) == 0 &&
		len(b.Facts) == 0 &&
		len(b.List) == 0 && len(b.Verdicts) == 0
}

// Add adds a section of the blocks that show anything; none, no section.
func (d *Document) Add(title string, blocks ...Block) {
	blocks = slices.DeleteFunc(slices.Clone(blocks), Block.empty)

	for i := range blocks {
		if c := blocks[i].Chart; c != nil && c.Omitted > 0 {
			blocks[i].Note += fmt.Sprintf(" Not drawn: %d %s figures.", c.Omitted, Absurd)
		}
	}

	if len(blocks) > 0 {
		d.Sections = append(d.Sections, Section{title, blocks})
	}
}

// Answer adds sentences, which tell about the same thing if about is not "".
func (d *Document) Answer(about string, texts ...string) {
	d.Answers = append(d.Answers, Statements(about, texts...)...)
}

// Statements are sentences about one thing.
func Statements(about string, texts ...string) []Statement {
	return Each(texts, func(text string) Statement { return Statement{About: about, Text: text} })
}

// MainChart is the first one; nil if the document has none.
func (d *Document) MainChart() *Chart {
	for _, s := range d.Sections {
		for _, b := range s.Blocks {
			if b.Chart != nil {
				return b.Chart
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

// maxAlike is how many warnings are listed that differ in figures only: thousands of runs
// on a busy machine have thousands of them.
const maxAlike = 10

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
		if alike := w.alike[shape]; len(alike) == maxAlike {
			t = alike[maxAlike-1]
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
	const maximum = 200
	for _, t := range w.list {
		shown := t.Warning
		if shown.Where = Clip(strings.Join(t.where, "; "), maximum); t.more > 0 {
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
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
				strings.ContainsRune("-_=+./:,@%", r))
		})

		if special || word == "" {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}

	return strings.Join(quoted, " ")
}
