package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Methods by which figures are compared.
const (
	Exact  = "exact count"
	Test   = "Mann-Whitney test"
	ByKeys = "chance of the keys"
	// ByLoads is of sides that were measured on several databases each.
	ByLoads = "t-test of load means"
)

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
	Loads     [2]int       `json:"loads"`        // databases that they read
	Failed    [2]int       `json:"failed_runs"`
	Differs   []Difference `json:"differs"` // in what is compared
	Allowed   []Difference `json:"differs_although,omitempty"`
	Notes     []string     `json:"notes,omitempty"`
	Figures   []Figure     `json:"figures"`
	Shared    float64      `json:"alpha"` // of each figure
	PerFigure int          `json:"figures_with_statistics"`

	shapes string // of two databases that differ in it
	// each side is one database, and they were loaded apart: what is judged is two databases
	oneLoad bool
	shared  bool // both sides read the same databases
	turns   bool // the sides took turns
	margin  float64
}

// Figure is a verdict on one figure.
type Figure struct {
	Name    string             `json:"name"`
	Verdict difference.Verdict `json:"verdict"`
	Reason  difference.Reason  `json:"reason,omitempty"` // of cannot_tell
	Method  string             `json:"method"`
	// of an even number of runs the worse of the two in the middle
	A      float64   `json:"baseline_median"`
	B      float64   `json:"compared_median"`
	Values [2]Values `json:"values"`
	// Change is B's over A's, as a share where relative is true, else B - A.
	Change   float64 `json:"change"`
	Low      float64 `json:"change_low"`
	High     float64 `json:"change_high"`
	Relative bool    `json:"relative"`
	P        float64 `json:"p,omitempty"`
	Needs    int     `json:"needs_runs,omitempty"` // in each group, about; of cannot_tell
	// so many times as many Gets, about; of cannot_tell
	Longer float64 `json:"needs_times_gets,omitempty"`
	// databases of each side, about; of cannot_tell
	NeedsLoads int `json:"needs_loads,omitempty"`
	// of the half-width of an interval over several loads
	Parts *difference.Parts `json:"interval_parts,omitempty"`
	// of a difference that is too small to matter
	Within bool  `json:"within_margin,omitempty"`
	Better *bool `json:"better,omitempty"` // of one that is not

	metric metric
	few    bool // there is no interval
	about  bool // of several loads: it differs, by more or less than the margin
	drawn  bool // the seeds are the same: keys that differ were drawn from two databases
}

// Values are a figure's of all runs.
type Values []float64

// Options are what a comparison may be told.
type Options struct {
	Allow  []string // conditions that may differ
	Alpha  float64  // 0: Alpha
	Margin float64  // a change, as a share, that is too small to matter
}

// Folders compares folders of results, or one folder by an axis. They have their paths as names, if
// they are given none.
func Folders(folders, names []string, by string, o Options) (*Comparison, error) {
	var sides []Side
	for i, folder := range folders {
		side, err := Open(folder)
		if err != nil {
			return nil, err
		}

		if i < len(names) {
			side.Name = names[i]
		}

		sides = append(sides, side)
	}

	if by != "" {
		var err error
		if sides, err = sides[0].Split(by); err != nil {
			return nil, err
		}
	}

	return Sides(sides, o)
}

// Sides compares sides with the first one.
func Sides(sides []Side, o Options) (*Comparison, error) {
	c := &Comparison{Schema: schema.Comparison, sides: sides}
	o.Alpha = cmp.Or(o.Alpha, difference.Alpha)
	for _, side := range sides[1:] {
		if a, b := sides[0].kind(), side.kind(); a != b {
			return nil, fmt.Errorf("%s holds %s, %s holds %s: they have no figure in common",
				sides[0].Name, a, side.Name, b)
		}

		matched, left := pairs(sides[0], side)
		c.Unmatched = append(c.Unmatched, left...)
		if len(matched) == 0 {
			return nil, fmt.Errorf("%s and %s have no setting in common: %s. "+
				"Measure one of these settings in both; --allow does not help here, since it is "+
				"for conditions",
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
	runs := doc.Flat(s.Groups, func(g Group) []*result.Run { return g.Runs })
	if len(runs) == 0 {
		return ""
	}

	switch run := runs[0]; {
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
	// The runs of a group are compared, too: a folder may have been added to.
	all := doc.Flat(slices.Concat(p.a.Runs, p.b.Runs), func(run *result.Run) []Difference {
		return differing(p.a.Runs[0], run, conditions)
	})
	for _, d := range doc.Distinct(all, func(d Difference) Difference { return d }) {
		if slices.Contains(o.Allow, d.Setting) {
			out.Allowed = append(out.Allowed, d)
		} else {
			refused.list = append(refused.list, d)
		}
	}

	if len(refused.list) > 0 {
		return out, refused
	}

	first, second := p.a.Runs[0], p.b.Runs[0]
	out.Differs = changed(first, second)
	if x, y := first.Database, second.Database; x.Dir != y.Dir &&
		(x.Bytes != y.Bytes || x.Files != y.Files) {
		out.shapes = shapes(x, y)
	}

	out.Loads = [2]int{len(p.a.loads()), len(p.b.loads())}
	out.oneLoad, out.shared = p.loadedApart(), slices.Equal(slices.Sorted(slices.Values(
		p.a.loads())), slices.Sorted(slices.Values(p.b.loads())))
	several := max(out.Loads[0], out.Loads[1]) > 1
	out.turns = p.tookTurns()
	if share := busiest(slices.Concat(p.a.Runs, p.b.Runs)); share > 0.2 && out.turns {
		out.Notes = append(out.Notes,
			fmt.Sprintf("Other processes used up to %.0f %% of the processors meanwhile",
				100*share))
	}

	if note := mixNote(p.a.watch, p.b.watch); note != "" {
		out.Notes = append(out.Notes, note)
	}

	for _, m := range metrics() {
		f := Figure{Name: m.Key, metric: m, Values: [2]Values{values(m, p.a.Runs), values(m,
			p.b.Runs)}}
		if len(f.Values[0]) < len(p.a.Runs) || len(f.Values[1]) < len(p.b.Runs) {
			continue
		}

		f.A, f.B = m.middle(f.Values[0]), m.middle(f.Values[1])
		f.Method = Test
		if several {
			f.Method = ByLoads
		}

		if !several && m.Repeats && p.sameKeys() && p.repeats(f) {
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
		out.Figures[i].judge(p, difference.Rule{Alpha: out.Shared, Interleaved: out.turns},
			o.Margin)
	}

	return out, nil
}

// judge asks the rule of all comparisons (model/difference).
func (f *Figure) judge(p pair, rule difference.Rule, margin float64) {
	rule.Exact = f.Method == Exact
	rule.Machine = !f.metric.Repeats || !p.repeats(*f)
	rule.Margin = func(relative bool) float64 { return f.metric.edge(margin, f.A, f.B, relative) }
	r := difference.Decide(p.a.sample(f.Values[0]), p.b.sample(f.Values[1]), rule)
	if r.ByKeys {
		f.Method = ByKeys
	}

	f.few, f.drawn = !r.Interval, seeds(p.a.Runs[0]) == seeds(p.b.Runs[0])
	f.Verdict, f.Reason, f.Change, f.Low, f.High, f.Relative, f.P, f.Needs = r.Verdict, r.Reason,
		r.Change, r.Low, r.High, r.Relative, r.P, r.Needs
	f.Longer, f.Within = r.GetsFactor, r.Certain() && !r.Matters
	if f.NeedsLoads = r.NeedsLoads; r.ByLoads && r.Interval {
		f.Parts = &r.Parts
	}

	edge := rule.Margin(r.Relative)
	f.about = r.ByLoads && r.Certain() && min(math.Abs(r.Low), math.Abs(r.High)) <= edge &&
		max(math.Abs(r.Low), math.Abs(r.High)) > edge
	if f.about {
		f.Within = false // another seed would move the change to the other side of the margin
	}

	if r.Matters || f.about {
		better := f.metric.IsBetter(f.Change)
		f.Better = &better
	}
}

// Certain tells whether the figure differs beyond chance.
func (f Figure) Certain() bool {
	return f.Verdict == difference.Changed || f.Verdict == difference.Differs
}

// keys names what keys a run asked for: with equal seeds and warm-ups, the same ones. Those of a
// tool that records no seed are its own. Keys that were drawn from another program's database are
// those of this database alone, which a copy of it has as well.
func keys(r *result.Run) string {
	if r.Absent["seed"] != "" {
		return fmt.Sprintf("%p", r)
	}
	name := seeds(r)
	if r.Workload.KeyOrder == "foreign" {
		name += fmt.Sprintf(" of %d bytes in %d files", r.Database.Bytes, r.Database.Files)
	}
	return name
}

func seeds(r *result.Run) string { return fmt.Sprint(r.Workload.Seed, r.Workload.WarmupGets) }

// sample is a figure of the runs with the chance that their keys give it. What reads more blocks is
// as much slower at the most, so of any figure the chance is taken to be as large a share as of
// block reads.
func (g Group) sample(values Values) difference.Sample {
	s := difference.Sample{Values: values}
	for i, run := range g.Runs {
		s.Loads = append(s.Loads, run.Load())
		s.Streams = append(s.Streams, keys(run))
		f := run.Figures
		if !f.Has(figure.BlockReadsPerGet) || !f.Has(figure.BlockReadsPerGet.Error()) {
			continue
		}

		share := 0.
		if f.OrZero(figure.BlockReadsPerGet) > 0 {
			share = f.OrZero(figure.BlockReadsPerGet.Error()) / f.OrZero(figure.BlockReadsPerGet)
		}

		s.StdErr = append(s.StdErr, share*values[i])
	}

	if len(s.StdErr) < len(g.Runs) {
		s.StdErr = nil
	}

	return s
}

// loads are the databases that the runs read.
func (g Group) loads() []string { return doc.Distinct(g.Runs, (*result.Run).Load) }

// loadedApart tells whether each side is one database that statelab loaded, and not the same one or
// a copy of it.
func (p pair) loadedApart() bool {
	x, y := p.a.Runs[0], p.b.Runs[0]
	loaded := func(r *result.Run) bool {
		return r.Verb == "read" && r.Database.Written == "statelab"
	}
	same := x.Load() == y.Load() || x.Workload.LoadSeed == y.Workload.LoadSeed &&
		x.Engine.Name == y.Engine.Name && x.Database.Bytes == y.Database.Bytes &&
		x.Database.Files == y.Database.Files
	return loaded(x) && loaded(y) && !same && len(p.a.loads()) == 1 && len(p.b.loads()) == 1
}

// sameKeys tells whether all runs asked for the same keys.
func (p pair) sameKeys() bool {
	return !slices.ContainsFunc(slices.Concat(p.a.Runs, p.b.Runs), func(run *result.Run) bool {
		return keys(run) != keys(p.a.Runs[0])
	})
}

// repeats tells whether a count is a property of the settings and keys: one thread, nobody that
// writes, and no repeat that gave another count.
func (p pair) repeats(f Figure) bool {
	for side, g := range []Group{p.a, p.b} {
		counts := map[string]float64{}
		for i, run := range g.Runs {
			of := run.Load() + keys(run)
			before, known := counts[of]
			if run.Workload.Threads > 1 || run.Figures.Puts > 0 ||
				known && before != f.Values[side][i] {
				return false
			}

			counts[of] = f.Values[side][i]
		}
	}

	return true
}

// tookTurns tells whether the runs of the sides alternated, so that what changed on the machine
// meanwhile met both alike. Runs in turns change sides about as often as one of them has runs, and
// so do runs in a random order; two folders that were measured one after the other change once. One
// run of each side is too few to tell, and to compare: the answer then says how to get more that
// take turns.
func (p pair) tookTurns() bool {
	type turn struct {
		at    time.Time
		first bool
	}

	turns := append(
		doc.Each(p.a.Runs, func(run *result.Run) turn { return turn{run.Started, true} }),
		doc.Each(p.b.Runs, func(run *result.Run) turn { return turn{run.Started, false} })...,
	)

	slices.SortStableFunc(turns, func(x, y turn) int { return x.at.Compare(y.at) })
	changes := 0
	for i := range turns[1:] {
		if turns[i].first != turns[i+1].first {
			changes++
		}
	}

	return 3*changes >= 2*min(len(p.a.Runs), len(p.b.Runs))
}

func values(m metric, runs []*result.Run) (all Values) {
	for _, run := range runs {
		if v := m.value(run); v != nil && doc.Sane(*v) {
			all = append(all, *v)
		}
	}
	return all
}

// shapes tells the sizes of two databases, to the byte where they are as good as equal.
func shapes(x, y result.Database) string {
	size := doc.ShortBytes
	if size(x.Bytes) == size(y.Bytes) {
		size = func(bytes int64) string { return unit.Count(uint64(bytes)) + " bytes" }
	}
	return fmt.Sprintf("%s in %d files and %s in %d files", size(x.Bytes), x.Files, size(y.Bytes),
		y.Files)
}
