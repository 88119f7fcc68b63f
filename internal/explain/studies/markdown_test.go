package studies

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/report/doc"
)

// Markdown is the study's page in docs/studies, without the sections of its parts.
func (s *Study) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", s.Title, s.Question)
	answers, err := s.filled(doc.Without(append(slices.Clone(s.Answers), s.Sentence(),
		s.oneLoad())))
	if err != nil {
		return err
	}

	for _, text := range answers {
		fmt.Fprintf(&b, "- %s\n", text)
	}

	if len(s.Parts) > 0 {
		fmt.Fprintf(&b, "\nFurther pages: %s.\n", strings.Join(doc.Each(s.Parts,
			func(p Part) string { return fmt.Sprintf("[%s](%s.md)", p.Title, p.File) }), ", "))
	}

	fmt.Fprintf(&b, "\nSources: %s.\n", strings.Join(s.Sources, ", "))
	if len(s.Misleads) > 0 {
		fmt.Fprint(&b, "\n## Caveats\n\n")
		for _, text := range s.Misleads {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}

	names, by := s.sections()
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(s.Parts, func(p Part) bool {
			return slices.Contains(p.Sections, name)
		})
	})
	s.markdownSections(&b, names, by)
	s.markdownVerdicts(&b)
	_, err = io.WriteString(w, b.String())
	return err
}

// MarkdownPart is the page of a part, in a file of its own beside the study's.
func (s *Study) MarkdownPart(w io.Writer, p Part) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", p.Title, p.Question)
	answers, err := s.filled(p.Answers)
	if err != nil {
		return err
	}

	for _, text := range answers {
		fmt.Fprintf(&b, "- %s\n", text)
	}

	_, by := s.sections()
	s.markdownSections(&b, p.Sections, by)
	_, err = io.WriteString(w, b.String())
	return err
}

// markdownSections writes the sections of these names; those of the same published figures that
// follow each other are one.
func (s *Study) markdownSections(b *strings.Builder, names []string, by map[string][]Claim) {
	shown := map[string]bool{}
	for i := 0; i < len(names); i++ {
		group := [][]Claim{by[names[i]]}
		for i+1 < len(names) && samePublished(group[0], by[names[i+1]]) {
			i++
			group = append(group, by[names[i]])
		}

		heading := ""
		for n, name := range names[i+1-len(group) : i+1] {
			if n > 0 {
				heading += fmt.Sprintf("; (%d) ", n+1)
			}
			heading += name
		}

		fmt.Fprintf(b, "\n## %s\n\n", heading)
		var sentences []string
		var t doc.Table
		var untold [][]Claim
		for n, claims := range group {
			all, cannot := told(claims)
			untold = append(untold, cannot...)
			part, common := uncommon(table(all, word), all)
			if grid, is := grid(all); is {
				part, common = grid, append(common, "Published/"+strings.Join(oursOf(all), "/")+".")
				if mixed(all) {
					common = append(common, "Figures in bold do not hold, the others do.")
				}
			}

			text := strings.Join(doc.Without(append(append(common, limits(all)...), note(claims),
				s.byLoads(claims))), " ")
			t = part
			if len(group) > 1 {
				t, text = together(group), fmt.Sprintf("(%d): %s", n+1, text)
			}

			sentences = append(sentences, text)
		}

		markdownTable(b, t)
		fmt.Fprintf(b, "\n%s\n", strings.Join(sentences, " "))
		for _, group := range untold {
			cells, _ := grid(group)
			fmt.Fprintf(b, "\nCannot tell here: %s. Published/%s:\n\n", group[0].Clause,
				strings.Join(oursOf(group), "/"))
			markdownTable(b, cells)
		}

		all := slices.Concat(group...)
		fresh := "" // each command is shown once, beside the first of its tables
		for _, command := range s.commands(all) {
			if !shown[command] {
				shown[command] = true
				fresh += "\n    " + strings.ReplaceAll(command, "\n", "\n    ")
			}
		}

		if fresh != "" {
			fmt.Fprintf(b, "%s\n", "\n"+strings.TrimPrefix(fresh, "\n"))
		}
	}
}

// markdownVerdicts writes the claims about layouts.
func (s *Study) markdownVerdicts(b *strings.Builder) {
	if verdicts := s.verdicts(); len(verdicts.Rows) > 0 {
		last := len(verdicts.Heads) - 1 // the source, which the name of its author links to
		verdicts.Heads = verdicts.Heads[:last]
		for i := range verdicts.Rows {
			row := &verdicts.Rows[i]
			row.Cells[0], row.Cells = fmt.Sprintf("[%s](%s)", row.Cells[0], row.Cells[last]),
				row.Cells[:last]
		}

		fmt.Fprint(b, "\n## Claims about layouts of state\n\n")
		markdownTable(b, verdicts)
		fmt.Fprintf(b, "\n%s How each claim is judged: "+
			"[docs/layouts.md](../layouts.md#published-claims).\n\n    %s\n", s.states(),
			strings.ReplaceAll(s.Runs[s.Layouts].Command, "\n", "\n    "))
	}
}

// told are the claims of a section, without those that cannot be told for one reason and have a
// grid.
func told(all []Claim) (listed []Claim, untold [][]Claim) {
	for _, reason := range doc.Distinct(all, func(c Claim) string { return c.Clause }) {
		group := slices.DeleteFunc(slices.Clone(all), func(c Claim) bool {
			return c.Word != claims.CannotTell || c.Clause != reason
		})
		if _, is := grid(group); is {
			untold = append(untold, group)
		}
	}

	listed = slices.DeleteFunc(slices.Clone(all), func(c Claim) bool {
		return slices.ContainsFunc(untold, func(group []Claim) bool {
			return c.Word == claims.CannotTell && c.Clause == group[0].Clause
		})
	})

	return listed, untold
}

// grid lays out claims "A: B", all with one verdict, or that hold and do not, with a line for each
// A and a column for each B, or the other way round if there are fewer A. A cell has the published
// figure and ours.
func grid(all []Claim) (t doc.Table, is bool) {
	units := doc.Distinct(all, func(c Claim) string { return c.Unit })
	split := func(c Claim) (a, b string) {
		a, b, _ = strings.Cut(c.Says, ": ")
		if c.Unit != "" && len(units) > 1 {
			b += ", " + c.Unit
		}
		return a, b
	}

	of := func(c Claim) string { a, _ := split(c); return a }
	what := func(c Claim) string { _, b := split(c); return b }
	lines, columns := doc.Distinct(all, of), doc.Distinct(all, what)
	if min(len(lines), len(columns)) < 2 || max(len(lines), len(columns)) < 3 ||
		len(all) <= max(len(lines), len(columns)) {
		return t, false
	}

	sparse := 2*len(all) < len(lines)*len(columns) ||
		slices.ContainsFunc(all, func(c Claim) bool { return what(c) == "" })
	mixed := mixed(all) && !sparse
	if !mixed && len(doc.Distinct(all, word)) > 1 {
		return t, false
	}

	if len(lines) < len(columns) {
		of, what, lines, columns = what, of, columns, lines
	}

	claim := "claim"
	if len(units) == 1 && units[0] != "" {
		claim += ", " + units[0]
	}

	t.Heads = append(t.Heads, doc.Head{Name: claim, Text: true})
	for _, column := range columns {
		t.Heads = append(t.Heads, doc.Head{Name: column})
	}

	for _, line := range lines {
		cells := append([]string{line}, slices.Repeat([]string{doc.None}, len(columns))...)
		for _, c := range all {
			if of(c) != line {
				continue
			}

			figures := []string{published(c)}
			if c.PredictedFigure != nil {
				figures = append(figures, number(c.PredictedFigure))
			}

			if c.MeasuredFigure != nil {
				figures = append(figures, measured(c))
			}

			cell := strings.Join(figures, "/")
			if mixed && c.Word == claims.Fails {
				cell = "**" + cell + "**"
			}

			cells[1+slices.Index(columns, what(c))] = cell
		}

		t.Rows = append(t.Rows, doc.Row{Cells: cells})
	}

	return t, true
}

// mixed tells whether some claims hold and the others do not.
func mixed(all []Claim) bool {
	fails := func(c Claim) bool { return c.Word == claims.Fails }
	holds := func(c Claim) bool { return c.Word == claims.Holds }
	return slices.ContainsFunc(all, fails) && slices.ContainsFunc(all, holds) &&
		!slices.ContainsFunc(all, func(c Claim) bool { return !fails(c) && !holds(c) })
}

// oursOf are the kinds of our figures that claims have.
func oursOf(all []Claim) (kinds []string) {
	if slices.ContainsFunc(all, func(c Claim) bool { return c.PredictedFigure != nil }) {
		kinds = append(kinds, "predicted")
	}
	if slices.ContainsFunc(all, func(c Claim) bool { return c.MeasuredFigure != nil }) {
		kinds = append(kinds, "measured")
	}
	return kinds
}

// samePublished tells whether two sections are of the same published figures.
func samePublished(a, b []Claim) bool {
	return slices.EqualFunc(a, b, func(x, y Claim) bool {
		return x.Says == y.Says && x.Theirs == y.Theirs
	})
}

// together is a table of sections of the same published figures: each cell has theirs, then ours of
// each section.
func together(group [][]Claim) (t doc.Table) {
	head := "published"
	for n, section := range group {
		for _, kind := range oursOf(section) {
			head += fmt.Sprintf("/%s (%d)", kind, n+1)
		}
	}

	t.Heads = []doc.Head{{Name: "claim", Text: true}, {Name: head + ", " + group[0][0].Unit}}
	for i, c := range group[0] {
		cell := published(c)
		for _, section := range group {
			for _, ours := range []*float64{section[i].PredictedFigure, section[i].MeasuredFigure} {
				if text := "/" + number(ours); ours != nil && section[i].Word == claims.Fails {
					cell += "**" + text + "**"
				} else if ours != nil {
					cell += text
				}
			}
		}

		t.Rows = append(t.Rows, doc.Row{Cells: []string{c.Says, cell}})
	}

	return t
}

// uncommon is a table without the columns in which every row says the same: a unit that all figures
// have is named in a heading, a verdict that all have in a sentence.
func uncommon(t doc.Table, all []Claim) (shorter doc.Table, common []string) {
	only := func(of func(Claim) string) string {
		if values := doc.Distinct(all, of); len(values) == 1 && len(all) > 1 {
			return values[0]
		}
		return ""
	}

	unit, verdict := only(func(c Claim) string { return c.Unit }), only(word)
	limited := func(c Claim) bool { return c.Clause != "" } // limits repeats the verdict
	if verdict != "" && !slices.ContainsFunc(all, limited) {
		common = []string{fmt.Sprintf("Verdict of each: %s.", verdict)}
	}

	keep := func(h doc.Head) bool {
		return !(h.Name == "unit" && unit != "" || h.Name == "verdict" && verdict != "")
	}
	shorter = doc.Table{Rows: slices.Clone(t.Rows)}
	for i := range t.Rows {
		shorter.Rows[i].Cells = nil
	}

	for column, head := range t.Heads {
		if !keep(head) {
			continue
		}

		if head.Name == "published" && unit != "" {
			head.Name += ", " + unit
		}

		shorter.Heads = append(shorter.Heads, head)
		for i, row := range t.Rows {
			shorter.Rows[i].Cells = append(shorter.Rows[i].Cells, row.Cells[column])
		}
	}

	return shorter, common
}

// verdicts are those on layouts of state.
func (s *Study) verdicts() doc.Table {
	return doc.ListOf(
		[]string{"by", "claim", "condition", "verdict", "our figures", "source"},
		s.judged(),
		func(j claims.Judged) []string {
			return []string{j.By, j.Says, j.Given, j.Verdict(), j.Figures(), j.Source}
		},
	)
}

// markdownTable writes a table without bars around it.
func markdownTable(b *strings.Builder, t doc.Table) {
	row := func(cells []string) {
		line := strings.Join(cells, "\x00")
		b.WriteString(strings.NewReplacer("|", "\\|", "\n", " ", "\x00", "|").Replace(line) + "\n")
	}

	var heads, rules []string
	for _, head := range t.Heads {
		rule := "--:"
		if head.Text {
			rule = "---"
		}
		heads, rules = append(heads, strings.TrimSpace(head.Name)), append(rules, rule)
	}

	row(heads)
	b.WriteString(strings.Join(rules, "|") + "\n")
	for _, r := range t.Rows {
		row(r.Cells)
	}
}
