package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

func busiest(runs []*result.Run) (share float64) {
	for _, run := range runs {
		if m := run.Machine; m != nil && m.CPUOthersShare != nil {
			share = max(share, *m.CPUOthersShare)
		}
	}
	return share
}

// runsEach is "10 runs each", "5 and 6 runs", "5 loads and 10 runs each".
func (p Pair) runsEach() string {
	several := max(p.Loads[0], p.Loads[1]) > 1
	switch {
	case several && p.shared:
		return fmt.Sprintf("%d loads that both sides read, %d and %d runs", p.Loads[0], p.Runs[0],
			p.Runs[1])
	case several && (p.Loads[0] != p.Loads[1] || p.Runs[0] != p.Runs[1]):
		return fmt.Sprintf("%d and %d loads, %d and %d runs", p.Loads[0], p.Loads[1], p.Runs[0],
			p.Runs[1])
	case several:
		return fmt.Sprintf("%d loads and %d runs each", p.Loads[0], p.Runs[0])
	case p.Runs[0] != p.Runs[1]:
		return fmt.Sprintf("%d and %d runs", p.Runs[0], p.Runs[1])
	case p.Runs[0] == 1:
		return "1 run each"
	}
	return fmt.Sprintf("%d runs each", p.Runs[0])
}

// exact says of what a count is exact.
func (p Pair) exact() string {
	if p.shapes != "" {
		return "exact count of these two databases"
	}
	return Exact
}

// Sentence is the verdict on a figure.
func (p Pair) Sentence(f Figure) string {
	m := f.metric
	between := m.print(f.A) + " and " + m.print(f.B)
	if f.Method == Exact && f.A != f.B && m.print(f.A) == m.print(f.B) {
		between = unit.Significant(f.A, 6) + " and " + unit.Significant(f.B, 6)
	}

	if f.Method != Exact && f.Method != ByKeys && max(p.Runs[0], p.Runs[1]) > 1 {
		between = "middle runs " + between
	}

	basis := p.runsEach()
	if from := f.from(); from != "" && f.Verdict != difference.CannotTell {
		basis = from + ", " + basis
	}

	switch f.Method {
	case Exact:
		basis = p.exact() + ", " + basis
	case ByKeys:
		basis = "sampling error of the keys, " + basis
	}

	brackets := func(low, high string) string {
		if f.Method == Exact {
			return "(" + basis + "; " + between + ")"
		}
		return fmt.Sprintf("(95 %% CI %s to %s, %s; %s)", low, high, basis, between)
	}

	switch f.Verdict {
	case difference.Same:
		return fmt.Sprintf("the same %s: %s (%s)", m.Noun, m.print(f.A), p.exact())
	case difference.CannotTell:
		text := m.Noun + ": cannot tell: " + f.needs(min(p.Runs[0], p.Runs[1]))
		if f.few {
			return text + " (" + between + ")"
		}
		return text + " " + brackets(f.ends())
	case difference.NotFound:
		if !f.Relative && max(-f.Low, f.High) <= m.Least {
			return fmt.Sprintf("no difference found in %s (at most %s either way with 95 %% "+
				"confidence, %s; %s)",
				m.Noun, unit.Significant(m.Least, 2), basis, between)
		}
		return "no difference found in " + m.Noun + " " + brackets(f.ends())
	}

	by := m.print(math.Abs(f.Change))
	if f.Relative {
		by = percent(math.Abs(f.Change)) + " %"
	}

	text := fmt.Sprintf("%s %s %s", by, m.Direction(f.Change), m.Noun)
	if f.Within {
		text += ", too little to matter"
	}

	low, high := math.Abs(f.Low), math.Abs(f.High)
	if low > high {
		low, high = high, low
	}

	if f.Relative {
		return text + " " + brackets(percent(low), percent(high)+" %")
	}

	return text + " " + brackets(m.print(low), m.print(high))
}

// ends are the ends of the interval, with their signs.
func (f Figure) ends() (low, high string) {
	if !f.Relative {
		return signed(f.Low, f.metric.print), signed(f.High, f.metric.print)
	}
	return signed(f.Low, percent), signed(f.High, percent) + " %"
}

// from says which part of the design makes the interval of several loads as wide as it is; "" if
// that is not known.
func (f Figure) from() string {
	p := f.Parts
	if p == nil || !p.Known || p.Total() == 0 {
		return ""
	}

	most, name := p.Loads, "between loads"
	if p.Repeats > most {
		most, name = p.Repeats, "between repeats"
	}

	if p.Keys > most {
		most, name = p.Keys, "the sample of keys"
	}

	print, unit := percent, " %"
	if !f.Relative {
		print, unit = f.metric.print, ""
	}

	return fmt.Sprintf("mostly %s: %s of %s%s", name, print(most), print(p.Total()), unit)
}

// needsOfLoads says what could decide a figure that was measured on several loads.
func (f Figure) needsOfLoads() string {
	from := f.from()
	if from != "" {
		from += "; "
	}

	unsteady := f.Parts != nil && f.Parts.Repeats > max(f.Parts.Loads, f.Parts.Keys)
	switch {
	case f.few:
		return fmt.Sprintf("one side has one load, and loads differ: needs %d loads each: "+
			"--loads %[1]d", f.NeedsLoads)
	case f.Parts != nil && !f.Parts.Known:
		return "one run on each load does not tell loads from repeats: needs more --repeats"
	case max(f.Needs, f.NeedsLoads) > maxRepeats && unsteady:
		return from + "measure longer runs, or on a quieter machine"
	case f.NeedsLoads > maxRepeats:
		return from + "the loads differ too much for any feasible number of them"
	case f.NeedsLoads > 0:
		why := "more repeats will not help"
		if unsteady {
			why = "more repeats alone will not suffice"
		}
		return fmt.Sprintf("%s%s, about %d loads will: --loads %[3]d", from, why, f.NeedsLoads)
	case f.Reason == difference.FewKeys:
		return fmt.Sprintf("%sneeds about %d times as many Gets", from, rounded(int(f.Longer)))
	}

	return fmt.Sprintf("%sneeds about %d runs each on these loads", from, rounded(f.Needs))
}

// maxRepeats is how many repeats are worth asking for, maxGets how many times as many Gets.
const (
	maxRepeats = 200
	maxGets    = 1000
)

// needs says what could decide the figure; has 0: without how many runs there are.
func (f Figure) needs(has int) string {
	switch {
	case f.Reason == difference.NoTurns:
		return "its runs were not interleaved"
	case f.Method == ByLoads:
		return f.needsOfLoads()
	case f.drawn && f.Reason == difference.OtherKeys:
		return "the keys were drawn from two databases, and the runs do not say how much that " +
			"matters: measure both again"
	case f.drawn && f.Reason == difference.FewKeys:
		return fmt.Sprintf("the key samples of the two databases differ: needs about %d times as "+
			"many Gets", rounded(int(f.Longer)))
	case f.Reason == difference.OtherKeys:
		return "the keys differ, and the runs do not say how much that matters: use the same " +
			"--seed on both sides"
	case f.Reason == difference.FewKeys && f.Longer <= maxGets:
		return fmt.Sprintf("the key samples differ: use the same --seed on both sides, or about "+
			"%d times as many Gets", rounded(int(f.Longer)))
	case f.Reason == difference.FewKeys:
		return "the key samples differ: use the same --seed on both sides"
	case f.Needs > maxRepeats:
		return "the variance between runs is too large: measure longer runs, or on a quieter " +
			"machine"
	}

	runs, about := f.Needs, ""
	if !f.few {
		runs, about = rounded(runs), "about "
	}

	text := fmt.Sprintf("needs %s%d runs each", about, runs)
	if has == 0 {
		return text
	}

	return text + fmt.Sprintf(", has %d: --repeats %d", has, runs)
}

// rounded is an estimate with two digits, rounded up.
func rounded(n int) int {
	round := math.Pow(10, max(0, math.Floor(math.Log10(float64(n)))-1))
	return int(math.Ceil(float64(n)/round) * round)
}

func percent(share float64) string { return unit.Significant(100*share, 2) }

func signed(v float64, print func(float64) string) string {
	if v > 0 {
		return "+" + print(v)
	}
	return strings.Replace(print(v), "-", "−", 1)
}

// Title says who is compared, and by what they differ.
func (p Pair) Title() string {
	title := p.B + " compared with " + p.A
	if p.At != "" {
		title += ", " + p.At
	}
	return title
}

func (p Pair) differing() string {
	if len(p.Differs) == 0 {
		return "Their settings are the same."
	}
	return "They differ in " + doc.List(p.Differs, Difference.String) + "."
}

// lead is the answer: first what differs, then what does not, then what these runs cannot tell, and
// why.
func (p Pair) lead() string {
	if len(p.Figures) == 0 {
		return "Nothing can be compared: " +
			cmp.Or(strings.Join(p.Notes, "; "), "the runs have no figure in common") + "."
	}

	const better, worse, alike, untold, turns = "Better", "Worse", "Equal within ", "Cannot tell",
		"Not compared, because the runs were not interleaved"
	less := ", perhaps by less than " + doc.WithoutZeros(percent(p.margin)) + " %"
	said := map[string][]string{}
	for _, f := range p.Figures {
		word := alike
		switch {
		case f.about && *f.Better:
			word = better + less
		case f.about:
			word = worse + less
		case f.Better != nil && *f.Better:
			word = better
		case f.Better != nil:
			word = worse
		case f.Reason == difference.NoTurns:
			word = turns
		case f.Verdict == difference.CannotTell:
			word = untold
		}

		said[word] = append(said[word], f.metric.Noun)
	}

	var parts []string
	if p.oneLoad {
		parts = append(parts, fmt.Sprintf("This rests on one load of each side: another load of "+
			"the same settings gives other figures, so it compares two databases, not yet two "+
			"settings (measuring with --loads %d does).", difference.DefaultLoads))
	}

	for _, word := range []string{better, worse, better + less, worse + less, alike, untold,
		turns} {
		nouns := said[word]
		if len(nouns) == 0 {
			continue
		}

		if word == alike {
			word += doc.WithoutZeros(percent(p.margin)) + " %"
		}

		parts = append(parts, word+": "+strings.Join(nouns, ", ")+".")
	}

	if len(said[turns]) > 0 {
		parts = append(parts, "Between them the machine may have changed. Measure both in one "+
			"command: statelab compare --run, or one sweep.")
	}

	if i := slices.IndexFunc(p.Figures, func(f Figure) bool {
		return f.Reason == difference.FewRuns
	}); i >= 0 {
		parts = append(parts,
			fmt.Sprintf("Figures with variance need %d interleaved runs of each side: one sweep, "+
				"or statelab compare --run, with --repeats %[1]d.", p.Figures[i].Needs))
	}

	if p.shapes != "" && !p.oneLoad &&
		slices.ContainsFunc(p.Figures, func(f Figure) bool {
			return f.Method == Exact && f.Better != nil
		}) {
		parts = append(parts, "Counts are exact only for these two databases ("+p.shapes+
			"): another load gives slightly different counts.")
	}

	return strings.Join(append(parts,
		doc.Each(p.Notes, func(note string) string { return note + "." })...), " ")
}

// Document says which figures differ between the sides.
func (c *Comparison) Document() *doc.Document {
	page := &doc.Document{Title: "Comparison"}
	var all doc.Warnings
	for _, p := range c.Pairs {
		of := ""
		if len(c.Pairs) > 1 {
			of = cmp.Or(p.At, p.B)
		}

		page.Answer(p.Title(), p.lead())
		for _, d := range p.Allowed {
			all.Add("allowed", "measured under different conditions: "+d.String(),
				"measure both alike", of)
		}

		words := func(name string, of func(Figure) string) doc.Column[Figure] {
			return doc.Column[Figure]{Name: name, Left: true, Words: of}
		}
		change := func(name string, of func(Figure) float64) doc.Column[Figure] {
			return doc.Optional(name, "%", nil, func(f Figure) *float64 {
				return doc.When(f.Relative && (name == "change" || !f.few), 100*of(f))
			})
		}

		table := doc.TableOf(
			p.Figures,
			nil,
			words("figure", func(f Figure) string { return f.metric.Noun }),
			words("baseline, middle run", func(f Figure) string { return f.metric.print(f.A) }),
			words("compared, middle run", func(f Figure) string { return f.metric.print(f.B) }),
			change("change", func(f Figure) float64 { return f.Change }),
			change("from", func(f Figure) float64 { return f.Low }),
			change("to", func(f Figure) float64 { return f.High }),
			words("verdict", func(f Figure) string {
				return strings.ReplaceAll(string(f.Verdict), "_", " ")
			}),
			doc.Optional("p", "", nil, func(f Figure) *float64 {
				return doc.When(!f.few && f.P > 0, f.P)
			}),
			words("method", func(f Figure) string { return f.Method }),
		)

		page.Add(p.Title(),
			doc.Block{List: doc.Each(p.Figures, p.Sentence), Method: "compare.md",
				Texts: doc.Without([]string{p.differing(), p.estimates()})},
			doc.Block{Title: "Changes", Detail: true, Method: "compare.md", Chart: changes(p)},
			doc.Block{Title: "Figures", Detail: true, Method: "compare.md", Table: table,
				Note: fmt.Sprintf("Runs: %d and %d. %s", p.Runs[0], p.Runs[1], p.confidence())})
	}

	page.Add("Not compared", doc.Block{List: c.Unmatched})
	page.Warnings = all.List()
	return page
}

// confidence says how sure the intervals are.
func (p Pair) confidence() string {
	if p.PerFigure == 0 {
		return "All figures are exact counts."
	}
	return fmt.Sprintf("The intervals of the %d figures that need statistics hold together with "+
		"95 %% confidence.", p.PerFigure)
}

// estimates says how a change is estimated, and why the middle runs can differ by another one;
// "" if no figure has such an estimate.
func (p Pair) estimates() string {
	if !slices.ContainsFunc(p.Figures, func(f Figure) bool { return f.Method == Test && !f.few }) {
		return ""
	}
	return fmt.Sprintf("A change is the median of the ratios of all pairs of runs: the middle "+
		"runs can differ by more or less. \"No difference found\" needs an interval within ±%s%% "+
		"(--margin).",
		doc.WithoutZeros(percent(p.margin)))
}

// changes is a bar of every relative change that these runs tell, with its interval.
func changes(p Pair) *doc.Chart {
	told := doc.Where(p.Figures, func(f Figure) bool {
		return f.Relative && f.Verdict != difference.CannotTell
	})
	return doc.Ranges(
		"change of each figure that these runs decide",
		"figure",
		doc.Axis{Label: "compared / baseline"},
		told,
		func(f Figure) string { return strings.ReplaceAll(f.metric.Noun, " per ", "/") },
		func(f Figure) (at float64, span doc.Range) {
			return 1 + f.Change, doc.Range{Low: 1 + f.Low, High: 1 + f.High}
		},
	)
}
