package compare

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/model/difference"
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

// runsEach is "10 runs each", "5 and 6 runs".
func (p Pair) runsEach() string {
	switch {
	case p.Runs[0] != p.Runs[1]:
		return fmt.Sprintf("%d and %d runs", p.Runs[0], p.Runs[1])
	case p.Runs[0] == 1:
		return "1 run each"
	}
	return fmt.Sprintf("%d runs each", p.Runs[0])
}

// exact says of what a count is exact.
func (p Pair) exact() string {
	if p.twoDatabases {
		return "exact count of these two databases"
	}
	return Exact
}

// Sentence is the verdict on a figure.
func (p Pair) Sentence(f Figure) string {
	m := f.metric
	between := m.print(f.A) + " and " + m.print(f.B)
	if f.Method == Test && max(p.Runs[0], p.Runs[1]) > 1 {
		between = "middle runs " + between
	}
	evidence := func(low, high string) string {
		return fmt.Sprintf("(95 %% CI %s to %s, %s; %s)", low, high, p.runsEach(), between)
	}
	percent := func(v float64) string { return unit.Significant(100*v, 2) }
	switch f.Verdict {
	case Same:
		return fmt.Sprintf("the same %s: %s (%s)", m.noun, m.print(f.A), p.exact())
	case string(difference.CannotTell):
		text := m.noun + ": cannot tell: " + f.needs(min(p.Runs[0], p.Runs[1]))
		if f.few {
			return text + " (" + between + ")"
		}
		return text + " " + evidence(f.ends())
	case string(difference.NotFound):
		return "no difference found in " + m.noun + " " + evidence(f.ends())
	}
	if f.Verdict == Changed {
		by := m.print(math.Abs(f.B - f.A))
		if f.Relative {
			by = percent(math.Abs(f.Change)) + " %"
		}
		return fmt.Sprintf("%s %s %s (%s, %s; %s)", by, m.direction(f.Change), m.noun, p.exact(), p.runsEach(), between)
	}
	low, high := math.Abs(f.Low), math.Abs(f.High)
	if low > high {
		low, high = high, low
	}
	if !f.Relative {
		return fmt.Sprintf("%s %s %s %s", m.print(math.Abs(f.Change)), m.direction(f.Change), m.noun, evidence(m.print(low), m.print(high)))
	}
	return fmt.Sprintf("%s %% %s %s %s", percent(math.Abs(f.Change)), m.direction(f.Change), m.noun, evidence(percent(low), percent(high)+" %"))
}

// ends are the ends of the interval, with their signs.
func (f Figure) ends() (low, high string) {
	if !f.Relative {
		return signed(f.Low, f.metric.print), signed(f.High, f.metric.print)
	}
	percent := func(v float64) string { return unit.Significant(100*v, 2) }
	return signed(f.Low, percent), signed(f.High, percent) + " %"
}

// mostRepeats is how many repeats are worth asking for.
const mostRepeats = 200

// needs says how many runs could decide the figure; has 0: without how many there are.
func (f Figure) needs(has int) string {
	n, about := f.Needs, ""
	if !f.few { // an estimate has two digits
		round := math.Pow(10, max(0, math.Floor(math.Log10(float64(n)))-1))
		n, about = int(math.Ceil(float64(n)/round)*round), "about "
	}
	text := "needs " + about + unit.Count(int64(n)) + " runs each"
	if has == 0 {
		return text
	}
	text += fmt.Sprintf(", has %d", has)
	if n > mostRepeats {
		return text + ": measure longer runs, or on a quieter machine"
	}
	return text + fmt.Sprintf(": --repeats %d", n)
}

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
	return "They differ in " + view.List(p.Differs, Difference.String) + "."
}

// lead is the answer in one sentence.
func (p Pair) lead() string {
	var better, worse, unclear []string
	for _, f := range p.Figures {
		switch {
		case f.Better != nil && *f.Better:
			better = append(better, f.metric.noun)
		case f.Better != nil:
			worse = append(worse, f.metric.noun)
		case f.Verdict == string(difference.CannotTell):
			unclear = append(unclear, f.metric.noun)
		}
	}
	join := func(list []string) string { return strings.Join(list, ", ") }
	rest := "."
	if len(unclear) > 0 {
		rest = ". Cannot tell: " + join(unclear) + "."
	}
	switch {
	case len(p.Figures) == 0:
		return "Nothing can be compared: " + cmp.Or(strings.Join(p.Notes, "; "), "the runs have no figure in common") + "."
	case len(better) == 0 && len(worse) == 0 && len(unclear) > 0:
		return "Cannot tell: " + join(unclear) + "."
	case len(better) == 0 && len(worse) == 0:
		return "No difference found."
	case len(worse) == 0:
		return "Better: " + join(better) + rest
	case len(better) == 0:
		return "Worse: " + join(worse) + rest
	}
	return "Better: " + join(better) + ". Worse: " + join(worse) + rest
}

// unsaid are the notes that the lead does not tell.
func (p Pair) unsaid() []string {
	if len(p.Figures) == 0 {
		return nil
	}
	return p.Notes
}

// Text writes the verdicts for a terminal.
func (c *Comparison) Text(w io.Writer) error {
	out := view.NewText(w, 80)
	for i, p := range c.Pairs {
		if i > 0 {
			out.Line("")
		}
		out.Wrap(p.Title(), "")
		out.Wrap(p.lead(), "")
		out.Wrap(p.differing(), "")
		for _, d := range p.Allowed {
			out.Wrap("Warning: measured under different conditions: "+d.String(), "  ")
		}
		for _, note := range p.unsaid() {
			out.Wrap("Warning: "+note, "  ")
		}
		for _, f := range p.Figures {
			out.Wrap("- "+p.Sentence(f), "  ")
		}
		if note := p.estimates(); note != "" {
			out.Wrap(note, "")
		}
	}
	for _, left := range c.Unmatched {
		out.Wrap("Not compared: "+left, "  ")
	}
	return out.Flush()
}

// JSON is the comparison for a program.
func (c *Comparison) JSON() any { return c }

// row is a figure of a pair in the page's table.
type row struct {
	p Pair
	f Figure
}

// Page is the comparison for a browser.
func (c *Comparison) Page() *view.Page {
	page := &view.Page{Title: "Comparison"}
	var all view.Warnings
	for _, p := range c.Pairs {
		of := ""
		if len(c.Pairs) > 1 {
			of = cmp.Or(p.At, p.B)
		}
		page.Answer(of, p.lead())
		for _, d := range p.Allowed {
			all.Add("allowed", "measured under different conditions: "+d.String(), "measure both alike", of)
		}
		for _, note := range p.unsaid() {
			all.Add("note", note, "", of)
		}
		var rows []row
		for _, f := range p.Figures {
			rows = append(rows, row{p, f})
		}
		words := func(name string, of func(row) string) view.Column[row] {
			return view.Column[row]{Name: name, Left: true, Words: of}
		}
		change := func(name string, of func(Figure) float64) view.Column[row] {
			return view.Column[row]{Name: name, Unit: "%", Value: func(r row) *float64 {
				if !r.f.Relative || name != "change" && !r.f.judged() {
					return nil
				}
				return view.Some(100 * of(r.f))
			}}
		}
		table := view.TableOf(rows, nil,
			words("figure", func(r row) string { return r.f.metric.noun }), words("baseline, middle run", func(r row) string { return r.f.metric.print(r.f.A) }),
			words("compared, middle run", func(r row) string { return r.f.metric.print(r.f.B) }),
			change("change", func(f Figure) float64 { return f.Change }), change("from", func(f Figure) float64 { return f.Low }),
			change("to", func(f Figure) float64 { return f.High }),
			words("verdict", func(r row) string { return strings.ReplaceAll(r.f.Verdict, "_", " ") }),
			view.Column[row]{Name: "p", Value: func(r row) *float64 {
				if !r.f.judged() {
					return nil
				}
				return view.Of(r.f.P)
			}}, words("method", func(r row) string { return r.f.Method }))
		var sentences [][]string
		for _, f := range p.Figures {
			sentences = append(sentences, []string{p.Sentence(f)})
		}
		page.Add(p.Title(),
			view.Block{Title: "Verdicts", Note: p.differing(), Method: "compare.md", Table: view.Listing([]string{"verdict"}, sentences), Picture: changes(p)},
			view.Block{Title: "Figures", Note: strings.TrimSpace(fmt.Sprintf("Runs: %d and %d. %s %s", p.Runs[0], p.Runs[1], p.confidence(), p.estimates())),
				Method: "compare.md", Table: table})
	}
	page.Warnings = all.List()
	return page
}

// judged is whether there are enough runs for an interval, or none is needed.
func (f Figure) judged() bool { return !f.few }

// confidence says how sure the intervals are.
func (p Pair) confidence() string {
	needs := 0
	for _, f := range p.Figures {
		if !f.judged() {
			needs = max(needs, f.Needs)
		}
	}
	switch {
	case p.PerFigure == 0:
		return "All figures are exact counts."
	case needs > 0:
		return fmt.Sprintf("Figures without an interval need statistics, and for that %d runs each.", needs)
	}
	return fmt.Sprintf("The intervals of the %d figures that need statistics hold together with 95 %% confidence.", p.PerFigure)
}

// estimates says how a change is estimated, and why the middle runs can differ by another one;
// "" if no figure has such an estimate.
func (p Pair) estimates() string {
	if !slices.ContainsFunc(p.Figures, func(f Figure) bool { return f.Method == Test && !f.few }) {
		return ""
	}
	return fmt.Sprintf("A change is the median of the ratios of all pairs of runs: the middle runs can differ by more or less. "+
		"\"No difference found\" needs an interval within ±%s%% (--margin).", view.WithoutZeros(unit.Significant(100*p.margin, 2)))
}

// changes is a bar of every relative change, with its interval.
func changes(p Pair) *view.Picture {
	bars := view.Bars{About: "change of each figure", X: "figure", Panels: []view.BarPanel{{Y: "compared / baseline"}}}
	set := view.BarSet{Color: view.CurveStyle(0).Color, Values: [][]float64{nil}}
	for _, f := range p.Figures {
		if f.Relative {
			bars.Groups = append(bars.Groups, strings.ReplaceAll(f.metric.noun, " per ", "/"))
			set.Values[0], set.Spans = append(set.Values[0], 1+f.Change), append(set.Spans, view.Range{Low: 1 + f.Low, High: 1 + f.High})
			set.Failed = append(set.Failed, false)
		}
	}
	if len(bars.Groups) == 0 {
		return nil
	}
	bars.Sets = []view.BarSet{set}
	return bars.Picture(nil)
}
