package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/result"
)

// Alpha is the probability that is accepted of calling any figure of two equal groups of
// runs different: it is shared by all figures of a pair that need statistics.
const Alpha = 0.05

// Margin is the usual one of Options.
const Margin = 0.02

// Verdicts on a figure. Those of statistics are of package difference.
const (
	Same    = "same"    // exact counts that are equal
	Changed = "changed" // exact counts that are not
)

// Methods by which figures are compared.
const (
	Exact = "exact count"
	Test  = "Mann-Whitney test"
)

// Schema is the version of a comparison's JSON.
const Schema = "statelab.compare/1"

// Comparison is what compare says. The first side is the baseline.
type Comparison struct {
	Schema string `json:"schema"`
	Pairs  []Pair `json:"pairs"`
	// Unmatched are settings that one side alone has measured.
	Unmatched []string `json:"unmatched,omitempty"`
	sides     []Side
}

// Pair compares a group of runs with the baseline's.
type Pair struct {
	A         string       `json:"baseline"`
	B         string       `json:"compared"`
	At        string       `json:"at,omitempty"` // the setting that both share
	Runs      [2]int       `json:"runs"`         // that are ok
	Failed    [2]int       `json:"failed_runs"`
	Differs   []Difference `json:"differs"` // in what is compared
	Allowed   []Difference `json:"differs_although,omitempty"`
	Notes     []string     `json:"notes,omitempty"`
	Figures   []Figure     `json:"figures"`
	Shared    float64      `json:"alpha"` // of each figure
	PerFigure int          `json:"figures_with_statistics"`

	twoDatabases bool // of different shape
	margin       float64
}

// Figure is a verdict on one figure.
type Figure struct {
	Name    string    `json:"name"`
	Verdict string    `json:"verdict"`
	Method  string    `json:"method"`
	A       float64   `json:"baseline_median"` // of an even number of runs the worse of the two in the middle
	B       float64   `json:"compared_median"`
	Values  [2]Values `json:"values"`
	// Change is B's over A's, as a share where relative is true, else B - A.
	Change   float64 `json:"change"`
	Low      float64 `json:"change_low"`
	High     float64 `json:"change_high"`
	Relative bool    `json:"relative"`
	P        float64 `json:"p,omitempty"`
	Needs    int     `json:"needs_runs,omitempty"` // in each group, about; of cannot_tell
	Better   *bool   `json:"better,omitempty"`     // of a difference

	metric metric
	few    bool // so few runs that they give no interval
}

// Values are a figure's of all runs.
type Values []float64

// Options are what a comparison may be told.
type Options struct {
	Allow  []string // conditions that may differ
	Alpha  float64  // 0: Alpha
	Margin float64  // a change, as a share, that is too small to matter
}

// Of compares sides with the first one.
func Of(sides []Side, o Options) (*Comparison, error) {
	c := &Comparison{Schema: Schema, sides: sides}
	o.Alpha = cmp.Or(o.Alpha, Alpha)
	for _, side := range sides[1:] {
		if a, b := sides[0].kind(), side.kind(); a != b {
			return nil, fmt.Errorf("%s holds %s, %s holds %s: they have no figure in common", sides[0].Name, a, side.Name, b)
		}
		matched, left := pairs(sides[0], side)
		c.Unmatched = append(c.Unmatched, left...)
		if len(matched) == 0 {
			return nil, fmt.Errorf("%s and %s have no setting in common: %s. "+
				"Measure one of these settings in both; --allow does not help here, since it is for conditions",
				sides[0].Name, side.Name, strings.Join(left, ", "))
		}
		for _, p := range matched {
			judged, err := p.judge(sides[0].Name, side.Name, o)
			if err != nil {
				return nil, err
			}
			c.Pairs = append(c.Pairs, judged)
		}
	}
	return c, nil
}

// kind is what the runs of a side measured.
func (s Side) kind() string {
	at := slices.IndexFunc(s.Groups, func(g Group) bool { return len(g.Runs) > 0 })
	if at < 0 {
		return ""
	}
	switch run := s.Groups[at].Runs[0]; {
	case run.Figures.State != nil:
		return "lookups in state layouts"
	case run.Changes != nil:
		return "a replay of changes into state trees"
	}
	return "operations of engines"
}

func (p pair) judge(a, b string, o Options) (Pair, error) {
	out := Pair{A: a, B: b, At: p.at, margin: o.Margin, Runs: [2]int{len(p.a.Runs), len(p.b.Runs)},
		Failed: [2]int{p.a.All - len(p.a.Runs), p.b.All - len(p.b.Runs)}}
	if len(p.a.Runs) == 0 || len(p.b.Runs) == 0 {
		out.Notes = append(out.Notes, "one side has no run that succeeded")
		return out, nil
	}
	refused := &refusal{a: a, b: b}
	for _, g := range []Group{p.a, p.b} { // the runs of a group, too: a folder may have been added to
		for _, run := range g.Runs {
			for _, d := range differing(p.a.Runs[0], run, conditions) {
				switch known := slices.Contains(refused.list, d) || slices.Contains(out.Allowed, d); {
				case known:
				case slices.Contains(o.Allow, d.Setting):
					out.Allowed = append(out.Allowed, d)
				default:
					refused.list = append(refused.list, d)
				}
			}
		}
	}
	if len(refused.list) > 0 {
		return out, refused
	}
	first, second := p.a.Runs[0], p.b.Runs[0]
	out.Differs = changed(first, second)
	if x, y := first.Database, second.Database; x.Dir != y.Dir && (x.Bytes != y.Bytes || x.Files != y.Files) {
		out.twoDatabases = true
		out.Notes = append(out.Notes, fmt.Sprintf("the databases differ in shape (%s): loading again gives slightly other counts", shapes(x, y)))
	}
	if share := busiest(append(slices.Clone(p.a.Runs), p.b.Runs...)); share > 0.2 {
		out.Notes = append(out.Notes, fmt.Sprintf("other processes used up to %.0f %% of the processors during these runs: "+
			"times are less certain, counts are not affected", 100*share))
	}
	for _, m := range metrics() {
		f := Figure{Name: m.name, metric: m, Values: [2]Values{values(m, p.a.Runs), values(m, p.b.Runs)}}
		if len(f.Values[0]) < len(p.a.Runs) || len(f.Values[1]) < len(p.b.Runs) {
			continue
		}
		f.A, f.B = m.middle(f.Values[0]), m.middle(f.Values[1])
		f.Method = Test
		if m.count && p.repeatsExactly(f) {
			f.Method = Exact
		} else if f.A == 0 && f.B == 0 {
			continue // nothing of it happened
		} else {
			out.PerFigure++
		}
		out.Figures = append(out.Figures, f)
	}
	out.Shared = o.Alpha / float64(max(1, out.PerFigure))
	for i := range out.Figures {
		out.Figures[i].judge(out.Shared, o.Margin)
	}
	return out, nil
}

func (f *Figure) judge(alpha, margin float64) {
	if f.Method == Exact {
		f.Verdict, f.Relative = Same, f.A > 0
		if f.Change = f.B - f.A; f.Relative {
			f.Change /= f.A
		}
		f.Low, f.High = f.Change, f.Change
		if f.Change != 0 {
			f.Verdict = Changed
		}
	} else {
		r := difference.Compare(f.Values[0], f.Values[1], alpha)
		f.few = r.Verdict == difference.CannotTell
		r = r.Within(f.metric.edge(margin, f.A, f.B, r.Relative))
		f.Verdict, f.Change, f.Low, f.High, f.Relative, f.P, f.Needs = string(r.Verdict), r.Change, r.Low, r.High, r.Relative, r.P, r.Needs
	}
	if f.Certain() {
		better := f.metric.better(f.Change)
		f.Better = &better
	}
}

// Certain tells whether the figure differs beyond chance.
func (f Figure) Certain() bool {
	return f.Verdict == Changed || f.Verdict == string(difference.Differs)
}

// repeatsExactly tells whether a count is a property of the settings: one thread that
// asks for the same keys, nobody that writes, and no repeat that gave another count.
func (p pair) repeatsExactly(f Figure) bool {
	of := p.a.Runs[0].Workload
	for _, run := range append(slices.Clone(p.a.Runs), p.b.Runs...) {
		w := run.Workload
		if w.Threads > 1 || run.Figures.Puts > 0 || w.Seed != of.Seed || w.WarmupGets != of.WarmupGets || run.Absent["seed"] != "" {
			return false
		}
	}
	for _, group := range f.Values {
		if slices.Min(group) != slices.Max(group) {
			return false
		}
	}
	return true
}

func values(m metric, runs []*result.Run) (all Values) {
	for _, run := range runs {
		if v := m.value(run); v != nil && view.Sane(*v) {
			all = append(all, *v)
		}
	}
	return all
}

// shapes tells the sizes of two databases, to the byte where they are as good as equal.
func shapes(x, y result.Database) string {
	size := view.ShortBytes
	if size(x.Bytes) == size(y.Bytes) {
		size = func(bytes int64) string { return unit.Count(uint64(bytes)) + " bytes" }
	}
	return fmt.Sprintf("%s in %d files and %s in %d files", size(x.Bytes), x.Files, size(y.Bytes), y.Files)
}
