package studies

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/claims"
	"github.com/statelab/statelab/internal/explain/view"
)

// Markdown is the study's page in docs/studies.
func (s *Study) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", s.Title, s.Question)
	answers, err := s.answers()
	if err != nil {
		return err
	}
	for _, text := range answers {
		fmt.Fprintf(&b, "- %s\n", text)
	}
	fmt.Fprintf(&b, "\nSources: %s.\n", strings.Join(s.Sources, ", "))
	if len(s.Misleads) > 0 {
		fmt.Fprint(&b, "\n## Where a reader could be misled\n\n")
		for _, text := range s.Misleads {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	names, by := s.sections()
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
		fmt.Fprintf(&b, "\n## %s\n\n", heading)
		var sentences []string
		var t view.Table
		for n, claims := range group {
			all, left := told(claims)
			part, common := uncommon(table(all, word), all)
			text := strings.Join(append(append(append(common, left...), limits(all)...), note(all)), " ")
			if n == 0 {
				t = part
			} else {
				t, text = beside(t, part, n+1), fmt.Sprintf("(%d): %s", n+1, text)
			}
			sentences = append(sentences, text)
		}
		markdownTable(&b, t)
		fmt.Fprintf(&b, "\n%s\n", strings.Join(sentences, " "))
		all := slices.Concat(group...)
		fresh, again := "", 0
		for _, command := range s.commands(all) {
			if shown[command] {
				again++
				continue
			}
			shown[command] = true
			fresh += "\n    " + strings.ReplaceAll(command, "\n", "\n    ")
		}
		if again > 0 {
			b.WriteString("\nMade by commands shown above.\n")
		}
		if fresh != "" {
			fmt.Fprintf(&b, "%s\n", "\n"+strings.TrimPrefix(fresh, "\n"))
		}
	}
	if verdicts := s.verdicts(); len(verdicts.Rows) > 0 {
		last := len(verdicts.Heads) - 1 // the source, which the name of its author links to
		verdicts.Heads = verdicts.Heads[:last]
		for i := range verdicts.Rows {
			row := &verdicts.Rows[i]
			row.Cells[0], row.Cells = fmt.Sprintf("[%s](%s)", row.Cells[0], row.Cells[last]), row.Cells[:last]
		}
		fmt.Fprint(&b, "\n## Claims about layouts of state\n\n")
		markdownTable(&b, verdicts)
		fmt.Fprintf(&b, "\n%s How each claim is judged: [docs/layouts.md](../layouts.md#published-claims).\n\n    %s\n", s.states(),
			strings.ReplaceAll(s.Runs[s.Layouts].Command, "\n", "\n    "))
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// fewest is how many figures that cannot be told for one reason are counted instead of listed.
const fewest = 10

// told are the claims that a page lists. Figures that cannot be told are left out where one
// reason is that of many, and a sentence says how many there are.
func told(all []Claim) (listed []Claim, left []string) {
	why := map[string]int{}
	for _, c := range all {
		if c.Word == claims.CannotTell {
			why[c.Clause]++
		}
	}
	for _, c := range all {
		if c.Word != claims.CannotTell || why[c.Clause] < fewest {
			listed = append(listed, c)
		}
	}
	if len(listed) == 0 {
		return all, nil
	}
	for _, reason := range view.Distinct(all, func(c Claim) string { return c.Clause }) {
		if why[reason] >= fewest {
			left = append(left, fmt.Sprintf("Not listed: %d figures that cannot be told here: %s (`statelab report` lists them).", why[reason], reason))
		}
	}
	return listed, left
}

// samePublished tells whether two sections are of the same published figures.
func samePublished(a, b []Claim) bool {
	return slices.EqualFunc(a, b, func(x, y Claim) bool { return x.Says == y.Says && x.Theirs == y.Theirs })
}

// beside is a table with the columns of ours of another one of the same published figures.
func beside(t, other view.Table, n int) view.Table {
	const theirs = 2 // columns that both have: the claim and the published figure
	for _, head := range other.Heads[theirs:] {
		head.Name = fmt.Sprintf("%s (%d)", strings.TrimSpace(head.Name), n)
		t.Heads = append(t.Heads, head)
	}
	for i := range t.Rows {
		t.Rows[i].Cells = append(t.Rows[i].Cells, other.Rows[i].Cells[theirs:]...)
	}
	return t
}

// uncommon is a table without the columns in which every row says the same: a unit that all figures
// have is named in a heading, a verdict that all have in a sentence.
func uncommon(t view.Table, all []Claim) (shorter view.Table, common []string) {
	only := func(of func(Claim) string) string {
		if values := view.Distinct(all, of); len(values) == 1 && len(all) > 1 {
			return values[0]
		}
		return ""
	}
	unit, verdict := only(func(c Claim) string { return c.Unit }), only(word)
	if verdict != "" {
		common = []string{fmt.Sprintf("Verdict of each: %s.", verdict)}
	}
	keep := func(h view.Head) bool {
		return !(h.Name == "unit" && unit != "" || h.Name == "verdict" && verdict != "")
	}
	shorter = view.Table{Rows: slices.Clone(t.Rows)}
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

// markdownTable writes a table without bars around it.
func markdownTable(b *strings.Builder, t view.Table) {
	row := func(cells []string) {
		line := strings.Join(cells, "\x00")
		b.WriteString(strings.NewReplacer("|", "\\|", "\n", " ", "\x00", " | ").Replace(line) + "\n")
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
