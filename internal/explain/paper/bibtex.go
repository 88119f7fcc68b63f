package paper

import (
	"fmt"
	"io"
	"strings"

	"github.com/statelab/statelab/internal/report/doc"
)

// How the program is cited, as in CITATION.cff.
const (
	Title  = "Statelab: what it costs to look up a piece of blockchain state"
	Author = "The Statelab authors"
	Home   = "https://github.com/statelab/statelab"
)

// BibTeX writes an entry for each version of statelab that measured the results in folders, and one
// for each folder. All are @misc, which every style knows. An entry has no version where a folder
// stores none.
func BibTeX(w io.Writer, dirs ...string) error {
	var all []Provenance
	for _, dir := range dirs {
		p, err := ReadProvenance(dir)
		if err != nil {
			return err
		}

		all = append(all, p)
	}

	b := bibliography{used: map[string]bool{}}
	for _, program := range doc.Distinct(all, func(p Provenance) string { return p.Program }) {
		note := ""
		if program != "" {
			note = "Version " + escapeTeX(program)
		}

		b.entry("statelab", [][2]string{
			{"author", "{" + escapeTeX(Author) + "}"},
			{"title", "{" + escapeTeX(Title) + "}"},
			{"howpublished", `\url{` + Home + "}"},
			{"note", note},
		})
	}

	for _, p := range all {
		key, date := "statelab-"+p.Kind.Name, [2]string{}
		if !p.Started.IsZero() {
			key += p.Started.Format("-20060102-150405")
			date = [2]string{p.Started.Format("2006"), p.Started.Format("January")}
		}

		b.entry(key, [][2]string{
			{"key", "Statelab"}, // by which entries without an author are sorted
			{"title", "Results of {Statelab}: " + escapeTeX(p.Kind.Words)},
			{"year", date[0]},
			{"month", date[1]},
			{"note", escapeTeX(p.String())},
		})
	}

	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write BibTeX: %w", err)
	}

	return nil
}

// bibliography collects entries, each under a key of its own.
type bibliography struct {
	strings.Builder
	used map[string]bool
}

// entry adds one with the fields that have a value. A key that is taken gets a number.
func (b *bibliography) entry(key string, fields [][2]string) {
	unique := key
	for n := 2; b.used[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", key, n)
	}

	b.used[unique] = true
	fmt.Fprintf(b, "@misc{%s", unique)
	for _, field := range doc.Known(fields) {
		fmt.Fprintf(b, ",\n  %s = {%s}", field[0], field[1])
	}

	b.WriteString("\n}\n")
}

// specials are the characters that TeX does not print as they are. BibTeX counts braces, also those
// behind a backslash, so these have names; two hyphens would become a dash.
var specials = strings.NewReplacer(
	`\`, `\textbackslash{}`, "{", `\textbraceleft{}`, "}", `\textbraceright{}`,
	"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "--", "-{}-",
	"%", `\%`, "&", `\&`, "$", `\$`, "#", `\#`, "_", `\_`,
	"<", `\textless{}`, ">", `\textgreater{}`, "\n", " ",
)

func escapeTeX(text string) string { return specials.Replace(text) }

// LaTeX is a caption as LaTeX prints it.
func LaTeX(caption string) string { return escapeTeX(caption) }
