package compare

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Limit is a change that fails a comparison, such as FIGURE > +2%.
type Limit struct {
	Text    string
	Figure  string
	Above   bool    // fails when the change is above Value, else when below
	Value   float64 // a share, or in the unit of the figure
	Percent bool
}

// ParseLimits reads several, and tells what is wrong with each.
func ParseLimits(texts []string) (limits []Limit, wrong []error) {
	for _, text := range texts {
		limit, err := ParseLimit(text)
		if err != nil {
			wrong = append(wrong, err)
		}
		limits = append(limits, limit)
	}
	return limits, wrong
}

// ParseLimit reads FIGURE > +N%, FIGURE < -N%, or the same without % in the figure's unit. The
// sign says that N is a change.
func ParseLimit(text string) (Limit, error) {
	l := Limit{Text: text, Above: true}
	name, value, found := strings.Cut(text, ">")
	if !found {
		l.Above = false
		if name, value, found = strings.Cut(text, "<"); !found {
			return l, fmt.Errorf("%q: no > or < in it (example: '%s > +2%%')", text,
				figure.BlockReadsPerGet.Key)
		}
	}

	l.Figure = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
	if !slices.Contains(Names(), l.Figure) {
		return l, fmt.Errorf("%q: unknown figure %q (one of %s)", text, l.Figure,
			strings.Join(Names(), ", "))
	}

	value = strings.TrimSpace(value)
	number, percent := strings.CutSuffix(value, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || v != v {
		return l, fmt.Errorf("%q: invalid change %q (examples: +2%%, -10%%, +0.05)", text, value)
	}

	if v != 0 && value[0] != '+' && value[0] != '-' {
		return l, fmt.Errorf("%q: the limit is of a change, so it needs a sign: +%s, or -%s "+
			"(without %%, in the figure's unit)", text, value, value)
	}

	if l.Value, l.Percent = v, percent; percent {
		l.Value /= 100
	}

	return l, nil
}

// Failures says where a limit is certainly passed, and where that cannot be told: both
// fail a comparison, since a check that cannot tell has not passed.
func (c *Comparison) Failures(l Limit) (failed []string) {
	all, few, needs := c.figures(l.Figure), 0, ""
	for _, f := range all {
		if f.few {
			few, needs = few+1, f.needs(min(f.of.Runs[0], f.of.Runs[1]))
			switch f.Reason {
			case difference.FewRuns:
				needs += " in one sweep, or with statelab compare --run"
			case difference.NoTurns:
				needs += ", so the machine may have changed between the sides: measure both with " +
					"statelab compare --run"
			}

			continue
		}

		switch passed, unclear := l.passed(f.Figure); {
		case l.undefined(f.Figure):
			failed = append(failed,
				fmt.Sprintf("%s: %s was 0 in one of the runs, so a change in %% is undefined: "+
					"give the limit without %%",
					l.Text, f.metric.Noun))
		case passed, unclear:
			failed = append(failed, l.Text+": "+f.of.Sentence(f.Figure))
		}
	}

	if few > 0 {
		failed = append(failed,
			fmt.Sprintf("%s: cannot tell at %d of %d settings: %s", l.Text, few, len(c.Pairs),
				needs))
	}

	if len(all) == 0 {
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
	return !slices.ContainsFunc(limits, func(l Limit) bool {
		all := c.figures(l.Figure)
		return len(all) == 0 || slices.ContainsFunc(all, func(t told) bool {
			_, unclear := l.passed(t.Figure)
			return unclear || l.undefined(t.Figure)
		})
	})
}

// Says are the verdicts on a limit's figure.
func (c *Comparison) Says(l Limit) []string {
	return doc.Each(c.figures(l.Figure), func(t told) string { return t.of.Sentence(t.Figure) })
}

// Decided tells whether the figures named (none: all) need no more runs: each is exact,
// or differs, or its interval lies within the margin.
func (c *Comparison) Decided(names ...string) bool {
	unclear := func(t told) bool { return t.Verdict == difference.CannotTell }
	return len(c.Pairs) > 0 && !slices.ContainsFunc(c.figures(names...), unclear)
}

// RepeatsHelp tells whether more repeats on the same loads would make the interval of a figure
// named (none: of any) markedly shorter, and it is not far within the margin already. It does not
// depend on the changes that were found (see difference.Parts).
func (c *Comparison) RepeatsHelp(names ...string) bool {
	return slices.ContainsFunc(c.figures(names...), func(t told) bool {
		return t.Parts != nil && t.Parts.RepeatsHelp() &&
			!(t.Relative && t.Parts.Known && t.Parts.Total() < t.of.margin/2)
	})
}

// told is a figure with the pair that it is of.
type told struct {
	Figure
	of Pair
}

// figures are those of all pairs; of names, if any are given.
func (c *Comparison) figures(names ...string) []told {
	return doc.Flat(c.Pairs, func(p Pair) []told {
		of := doc.Where(p.Figures, func(f Figure) bool {
			return len(names) == 0 || slices.Contains(names, f.Name)
		})
		return doc.Each(of, func(f Figure) told { return told{f, p} })
	})
}

// Bench writes a line of the Go benchmark format for each run, so that benchstat reads
// them (https://go.dev/design/14313-benchmark-format).
//
// An axis with several values is part of the name. One that is the same everywhere is a line
// before them; one in which the sides differ is what they compare, and the side's name tells
// it: in the name of a benchmark it would keep benchstat from comparing anything.
func (c *Comparison) Bench(w io.Writer) error {
	out := bufio.NewWriter(w) // keeps the first error for Flush
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
		if values := slices.Collect(maps.Keys(everywhere[name])); len(values) == 1 &&
			name != "threads" {
			fmt.Fprintf(out, "%s: %s\n", benchWord(strings.ToLower(name)), benchWord(values[0]))
		}
	}

	for _, side := range c.sides {
		fmt.Fprintf(out, "side: %s\n", strings.Join(strings.Fields(side.Name), "-"))
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
						line += " " + strconv.FormatFloat(*v, 'g', -1, 64) + " " + m.Bench
					}
				}

				fmt.Fprintln(out, line)
			}
		}
	}

	return out.Flush()
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

// metric is a figure by which runs are compared.
type metric struct{ figure.Figure }

// value is the figure of a run. In an open loop the Gets per second are those of the schedule, and
// the response time replaces the service time.
func (m metric) value(r *result.Run) *float64 {
	closedLoop := m.Key == figure.GetsPerSecond.Key || m.Base == figure.ServiceTime.Key &&
		m.Lookup == ""
	if closedLoop && r.Workload.Rate > 0 {
		return nil
	}

	return r.Value(m.Figure).Pointer()
}

// middle is the value of the run that stands for all in this figure, by the rule of sweeps and
// replays: the one in the middle, of an even number the worse of the two.
func (m metric) middle(values []float64) float64 {
	return result.Representative(values, func(v float64) float64 {
		if m.Better == figure.Higher {
			return -v
		}
		return v
	})
}

// edge is the largest change that does not matter, as a share of a where relative, else in the
// unit of the figure.
func (m metric) edge(margin, a, b float64, relative bool) float64 {
	if relative {
		return max(margin, m.Least/a)
	}
	return max(margin*max(a, b), m.Least)
}

// metrics are all that runs can be compared by; absent ones are left out of a comparison.
func metrics() []metric {
	return doc.Each(figure.Compared(), func(f figure.Figure) metric { return metric{f} })
}

// Names are those of all metrics.
func Names() []string { return doc.Each(metrics(), func(m metric) string { return m.Key }) }

// print writes a value in the metric's unit.
func (m metric) print(v float64) string {
	if scale := doc.ScaleOf(m.Figure); scale.Size > 0 {
		return doc.Number(v/scale.Size) + " " + scale.Name
	}

	if m.Least > 0 && math.Abs(v) < 100*m.Least { // nothing finer than a tenth of what matters
		return strconv.FormatFloat(v, 'f', 4, 64)
	}

	if m.Repeats {
		return doc.PerGet(v)
	}

	return doc.Number(v)
}
