package studies

import (
	"fmt"
	"io"
	"strings"

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
	fmt.Fprintf(&b, "\nEvery verdict is computed from the results in the study's `runs` folder; `statelab report` on the folder\n"+
		"prints these tables. Sources: %s.\n",
		strings.Join(s.Sources, ", "))
	if len(s.Misleads) > 0 {
		fmt.Fprint(&b, "\n## Where a reader could be misled\n\n")
		for _, text := range s.Misleads {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	names, by := s.sections()
	for _, name := range names {
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		markdownTable(&b, table(by[name], Claim.Verdict))
		fmt.Fprintf(&b, "\n%s\n", note(by[name]))
		if commands := strings.Join(s.commands(by[name]), "\n"); commands != "" {
			fmt.Fprintf(&b, "\n    %s\n", strings.ReplaceAll(commands, "\n", "\n    "))
		}
	}
	if verdicts := s.verdicts(); len(verdicts.Rows) > 0 {
		fmt.Fprint(&b, "\n## Claims about layouts of state\n\n")
		markdownTable(&b, verdicts)
		fmt.Fprintf(&b, "\n%s How each claim is judged: [docs/methods/state-claims.md](../methods/state-claims.md).\n\n    %s\n", s.states(),
			strings.ReplaceAll(s.Runs[s.Layouts].Command, "\n", "\n    "))
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func markdownTable(b *strings.Builder, t view.Table) {
	row := func(cells []string) {
		for _, cell := range cells {
			fmt.Fprintf(b, "| %s ", strings.NewReplacer("|", "\\|", "\n", " ").Replace(cell))
		}
		b.WriteString("|\n")
	}
	var heads, rules []string
	for _, head := range t.Heads {
		heads = append(heads, head.Name)
		rule := "--:"
		if head.Text {
			rule = "---"
		}
		rules = append(rules, rule)
	}
	row(heads)
	row(rules)
	for _, r := range t.Rows {
		row(r.Cells)
	}
}
