package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/statelab/statelab/internal/model/difference"
)

// Limit is a change that fails a comparison, such as block_reads_per_get > +2%.
type Limit struct {
	Text    string
	Figure  string
	Above   bool    // fails when the change is above Value, else when below
	Value   float64 // a share, or in the unit of the figure
	Percent bool
}

// ParseLimit reads FIGURE > +N%, FIGURE < -N%, or the same without % in the figure's unit. The
// sign says that N is a change.
func ParseLimit(text string) (Limit, error) {
	l := Limit{Text: text, Above: true}
	name, value, found := strings.Cut(text, ">")
	if !found {
		l.Above = false
		if name, value, found = strings.Cut(text, "<"); !found {
			return l, fmt.Errorf("%q: no > or < in it (example: 'block_reads_per_get > +2%%')", text)
		}
	}
	l.Figure = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
	if !slices.Contains(Names(), l.Figure) {
		return l, fmt.Errorf("%q: unknown figure %q (one of %s)", text, l.Figure, strings.Join(Names(), ", "))
	}
	value = strings.TrimSpace(value)
	number, percent := strings.CutSuffix(value, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || v != v {
		return l, fmt.Errorf("%q: invalid change %q (examples: +2%%, -10%%, +0.05)", text, value)
	}
	if v != 0 && value[0] != '+' && value[0] != '-' {
		return l, fmt.Errorf("%q: the limit is of a change, so it needs a sign: +%s, or -%s (without %%, in the figure's unit)", text, value, value)
	}
	if l.Value, l.Percent = v, percent; percent {
		l.Value /= 100
	}
	return l, nil
}

// Failures says where a limit is certainly passed, and where that cannot be told: both
// fail a comparison, since a check that cannot tell has not passed.
func (c *Comparison) Failures(l Limit) (failed []string) {
	seen, few, needs := false, 0, ""
	for _, p := range c.Pairs {
		for _, f := range p.Figures {
			if f.Name != l.Figure {
				continue
			}
			seen = true
			if f.few {
				few, needs = few+1, f.needs(min(p.Runs[0], p.Runs[1]))
				continue
			}
			switch passed, unclear := l.passed(f); {
			case l.undefined(f):
				failed = append(failed, fmt.Sprintf("%s: %s was 0 in one of the runs, so a change in %% is undefined: give the limit without %%", l.Text, f.metric.noun))
			case passed, unclear:
				failed = append(failed, l.Text+": "+p.Sentence(f))
			}
		}
	}
	if few > 0 {
		failed = append(failed, fmt.Sprintf("%s: cannot tell at %d of %d settings: %s", l.Text, few, len(c.Pairs), needs))
	}
	if !seen {
		failed = append(failed, fmt.Sprintf("%s: the runs do not have this figure", l.Text))
	}
	return failed
}

// undefined tells whether the limit is a share of a figure that was 0.
func (l Limit) undefined(f Figure) bool { return l.Percent && !f.Relative && f.A != f.B }

// passed tells whether a figure is certainly beyond the limit; unclear, that it cannot be told:
// there is no interval, or too wide a one reaches beyond the limit.
func (l Limit) passed(f Figure) (passed, unclear bool) {
	low, high := f.Low, f.High
	if !l.Percent && f.Relative {
		low, high = low*f.A, high*f.A
	}
	value := l.Value
	if !l.Above {
		low, high, value = -high, -low, -value
	}
	return f.Certain() && low > value, f.few || f.Verdict == difference.CannotTell && high > value
}

// Known tells whether every limit's figure is there, and whether it is beyond the limit.
func (c *Comparison) Known(limits []Limit) bool {
	for _, l := range limits {
		seen := false
		for _, p := range c.Pairs {
			for _, f := range p.Figures {
				if _, unclear := l.passed(f); f.Name == l.Figure && (unclear || l.undefined(f)) {
					return false
				}
				seen = seen || f.Name == l.Figure
			}
		}
		if !seen {
			return false
		}
	}
	return true
}

// Says are the verdicts on a limit's figure.
func (c *Comparison) Says(l Limit) (sentences []string) {
	for _, p := range c.Pairs {
		for _, f := range p.Figures {
			if f.Name == l.Figure {
				sentences = append(sentences, p.Sentence(f))
			}
		}
	}
	return sentences
}

// Decided tells whether the figures named (none: all) need no more runs: each is exact,
// or differs, or its interval lies within the margin.
func (c *Comparison) Decided(names ...string) bool {
	for _, p := range c.Pairs {
		for _, f := range p.Figures {
			if (len(names) == 0 || slices.Contains(names, f.Name)) && f.Verdict == difference.CannotTell {
				return false
			}
		}
	}
	return len(c.Pairs) > 0
}

// Bench writes a line of the Go benchmark format for each run, so that benchstat reads
// them (https://go.dev/design/14313-benchmark-format).
//
// An axis with several values is part of the name. One that is the same everywhere is a line
// before them; one in which the sides differ is what they compare, and the side's name tells
// it: in the name of a benchmark it would keep benchstat from comparing anything.
func (c *Comparison) Bench(w io.Writer) error {
	var all Side
	varies := map[string]bool{}
	for _, side := range c.sides {
		for name, values := range valuesOf(side) {
			varies[name] = varies[name] || len(values) > 1
		}
		all.Groups = append(all.Groups, side.Groups...)
	}
	everywhere := valuesOf(all)
	for _, name := range slices.Sorted(maps.Keys(everywhere)) {
		if values := slices.Collect(maps.Keys(everywhere[name])); len(values) == 1 && name != "threads" {
			if _, err := fmt.Fprintf(w, "%s: %s\n", benchWord(strings.ToLower(name)), benchWord(values[0])); err != nil {
				return err
			}
		}
	}
	for _, side := range c.sides {
		if _, err := fmt.Fprintf(w, "side: %s\n", strings.Join(strings.Fields(side.Name), "-")); err != nil {
			return err
		}
		for _, g := range side.Groups {
			for _, run := range g.Runs {
				line := "Benchmark" + benchName(run.Workload.Name)
				if len(everywhere["threads"]) < 2 || varies["threads"] {
					line += fmt.Sprintf("/threads=%d", run.Workload.Threads)
				}
				for _, axis := range slices.Sorted(maps.Keys(g.Axes)) {
					if axis != "threads" && varies[axis] {
						line += "/" + benchWord(axis) + "=" + benchWord(g.Axes[axis])
					}
				}
				ops := run.Figures.Gets + run.Figures.Puts
				if f := run.Figures.Replay; f != nil {
					ops = f.Leaves
				}
				line += fmt.Sprintf(" %d", max(1, ops))
				for _, m := range metrics() {
					if v := m.value(run); v != nil {
						line += " " + strconv.FormatFloat(*v, 'g', -1, 64) + " " + m.bench
					}
				}
				if _, err := fmt.Fprintln(w, line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func benchName(s string) string {
	if s == "" {
		return "Lookup"
	}
	return strings.ToUpper(s[:1]) + benchWord(s[1:])
}

// benchWord is text without what ends a name in the format.
func benchWord(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' || r == '=' || !unicode.IsGraphic(r) {
			return '_'
		}
		return r
	}, s)
}
