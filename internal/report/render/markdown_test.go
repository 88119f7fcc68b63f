package render

import (
	"bytes"
	"testing"

	"github.com/statelab/statelab/internal/report/doc"
)

// document has one of everything, with texts that Markdown and HTML would obey.
func document() *doc.Document {
	d := &doc.Document{Title: "A *disk*"}
	d.Answer("b", "1 | 2 reads.")
	d.Advice = doc.Statements("", "Set <cache>.")
	d.Warnings = []doc.Warning{{Text: "busy", Where: "threads 4", Remedy: "stop it", Detail: true}}
	d.Cards = []doc.Card{{
		Name:  "host",
		Facts: [][2]string{{"CPU", "fast_one"}},
		Brief: "fast_one, 2 cores",
	}}

	d.Add("Points",
		doc.Block{
			Note:   "How to read it.",
			Method: "reads.md",
			Table:  doc.Listing([]string{"a|b"}, [][]string{{"x|y"}}),
			Texts:  []string{"A text."},
		},
		doc.Block{Title: "Command", Detail: true, Pre: "statelab `x`\n"})

	d.Add("Claims", doc.Block{List: []string{"one"},
		Verdicts: []doc.Verdict{{
			Word:    "holds if",
			Clause:  "small",
			Says:    "It reads",
			By:      "them",
			Figures: "1 read.",
			Given:   "n",
			Source:  "s",
		}}})

	return d
}

func TestMarkdown(t *testing.T) {
	const want = "# A \\*disk\\*\n\n**b: 1 \\| 2 reads.**\n\nSet &lt;cache>.\n\n" +
		"## Warnings\n\n- **busy** (threads 4) Remedy: stop it\n\n" +
		"## Host\n\n|  |  |\n|---|---|\n| CPU | fast\\_one |\n\n" +
		"## Points\n\nHow to read it. How it is measured: [docs/reads.md](" + documents +
		"reads.md)\n\n" +
		"| a\\|b |\n|---|\n| x\\|y |\n\nA text.\n\n" +
		"### Command\n\n```\nstatelab `x`\n```\n\n" +
		"## Claims\n\n- one\n\n- **holds if small**: It reads (them). 1 read. Condition: n. " +
		"Source: s.\n"

	var got bytes.Buffer
	if err := Markdown(&got, document()); err != nil || got.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got.String(), want)
	}
}

// The short form leaves out details, notes, cards and what only a page can show.
func TestShortForm(t *testing.T) {
	const want = `b: 1 | 2 reads.
Set <cache>.

fast_one, 2 cores

Points
a|b
x|y
A text.

Claims
- one
them: It reads
  Holds if small. 1 read.
`

	var got bytes.Buffer
	if err := Terminal(&got, document()); err != nil || got.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got.String(), want)
	}
}
