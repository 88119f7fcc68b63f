// Package difference decides whether a figure of two groups of runs differs, and by how
// much: the one rule of every comparison, ranking and limit.
//
// A figure that repeats exactly is compared exactly. Where the two sides asked for different
// keys, the chance in the keys is part of the error: runs with the same keys are copies, and
// together one observation. A figure that depends on the machine is only judged if the sides
// took turns, since the machine changes with time. What remains is tested without assuming how
// the figure is distributed.
//
// The test is Mann and Whitney's, as in benchstat, whose statistics library it uses
// (github.com/aclements/go-moremath). The interval is the one that belongs to that test:
// all ratios of a run of B to a run of A, sorted, without as many at either end as the
// test's distribution allows (Hodges and Lehmann, Annals of Mathematical Statistics 34,
// 1963). docs/compare.md explains all of this in words.
package difference

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// Alpha is the probability that is accepted of calling any figure of two equal groups different.
const Alpha = 0.05

// Margin is the usual change, as a share, that is too small to matter.
const Margin = 0.02

// Verdict is what two groups of runs show.
type Verdict string

// Verdicts.
const (
	Same       Verdict = "same"    // exact figures that are equal
	Changed    Verdict = "changed" // exact figures that are not
	Differs    Verdict = "differs"
	NotFound   Verdict = "no_difference_found" // what may be left is in the interval
	CannotTell Verdict = "cannot_tell"
)

// Reason is why a verdict is CannotTell.
type Reason string

// Reasons.
const (
	FewRuns Reason = "few_runs"     // Needs says how many give an interval
	Noise   Reason = "noise"        // the interval is wider than the margin: Needs
	NoTurns Reason = "not_in_turns" // the machine may have changed between the sides
	// the chance in the keys is larger than the margin: Longer
	FewKeys Reason = "few_keys"
	// the keys differ, and the runs do not say how much that matters
	OtherKeys Reason = "chance_of_the_keys"
	// too few loads, or loads that differ by more than the margin: NeedsLoads
	FewLoads Reason = "few_loads"
)

// Sample is a figure of the runs of one side.
type Sample struct {
	Values []float64
	// Streams name the keys that each run asked for. Runs of the same stream are copies of each
	// other in all that depends on the keys.
	Streams []string
	// StdErr is the standard error, in the figure's unit, that the choice of keys gives the figure
	// of each run. nil: unknown.
	StdErr []float64
	// Loads name the database that each run read. nil: all read the same one.
	Loads []string
}

// Rule is how two samples are judged.
type Rule struct {
	Alpha float64 // probability of a false alarm that is accepted, 0 < Alpha < 1
	// Exact: the figure follows from the settings and keys, which both sides share.
	Exact bool
	// Machine: it also depends on what else the machine does; then Turns says whether the
	// sides were measured in turns.
	Machine, Interleaved bool
	// Margin is the largest change that does not matter: a share where relative, else in the
	// figure's unit.
	Margin func(relative bool) float64
}

// Result compares B with A.
type Result struct {
	Verdict Verdict
	Reason  Reason  // of CannotTell
	P       float64 // of the test, two-sided
	// Change is the median of all differences between a run of B and one of A; Low and
	// High are its interval. They are shares of A (0.1: B is 10 % more) where Relative,
	// else in the unit of the figure: a figure that can be 0 has no ratio.
	Change, Low, High float64
	Relative          bool
	Interval          bool    // Low and High are known
	Matters           bool    // it certainly differs, and by more than the edge
	ByKeys            bool    // judged by the chance in the keys alone
	ByLoads           bool    // judged by the means of loads
	Parts             Parts   // of the interval, ByLoads
	Needs             int     // runs in each group that could decide
	NeedsLoads        int     // loads of each group that could decide
	GetsFactor        float64 // so many times as many Gets could decide
	runs              int     // of the smaller group
	loads             loadTest
}

// Certain tells whether the groups differ beyond chance.
func (r Result) Certain() bool { return r.Verdict == Changed || r.Verdict == Differs }

// Decide judges b against a.
func Decide(a, b Sample, rule Rule) Result {
	var r Result
	switch {
	case len(a.Values) == 0 || len(b.Values) == 0:
		return Result{Verdict: CannotTell, Reason: FewRuns, Needs: Needs(rule.Alpha)}
	case a.loads() > 1 || b.loads() > 1:
		if r = byLoads(a, b, rule); r.Reason != "" {
			return r
		}
	case rule.Exact:
		r = exactly(a.Values[0], b.Values[0])
	case rule.Machine && !rule.Interleaved:
		r = compare(a.Values, b.Values, rule.Alpha)
		return Result{Verdict: CannotTell, Reason: NoTurns, Change: r.Change, Relative: r.Relative}
	default:
		if r = judge(a, b, rule); r.Reason != "" {
			return r
		}
	}

	r = r.within(rule.Margin(r.Relative))
	r.Matters = r.Certain() && math.Abs(r.Change) > rule.Margin(r.Relative)
	return r
}

func exactly(a, b float64) Result {
	r := Result{Verdict: Same, Change: b - a, Relative: a > 0, Interval: true, P: 1}
	if r.Relative {
		r.Change /= a
	}

	if r.Change != 0 {
		r.Verdict, r.P = Changed, 0
	}

	r.Low, r.High = r.Change, r.Change
	return r
}

// judge compares samples that are not exact.
func judge(a, b Sample, rule Rule) Result {
	switch {
	case a.sameKeys(b):
		return compare(a.Values, b.Values, rule.Alpha)
	case a.StdErr == nil || b.StdErr == nil: // each stream of keys is one observation
		r := compare(a.byStream(), b.byStream(), rule.Alpha)
		if r.Reason == FewRuns {
			r.Reason = OtherKeys
		}
		return r
	case !rule.Machine: // of copies the first says all
		r := compare(a.byStream(), b.byStream(), rule.Alpha)
		r.Verdict, r.Reason, r.Interval, r.ByKeys = NotFound, "", true, true
		r.Low, r.High = r.Change, r.Change
		return r.widened(a, b, rule.Alpha)
	}

	r := compare(a.Values, b.Values, rule.Alpha)
	if r.Reason != "" {
		return r
	}

	return r.widened(a, b, rule.Alpha)
}

// widened adds the chance in the keys to the interval: of a change that holds 0 nothing is certain.
func (r Result) widened(a, b Sample, alpha float64) Result {
	error := math.Hypot(a.chance(r.Relative), b.chance(r.Relative))
	wide := studentQuantile(alpha, keyFreedom) * error
	move := func(v, by float64) float64 {
		if r.Relative {
			return math.Expm1(math.Log1p(v) + by)
		}
		return v + by
	}

	r.Low, r.High = move(r.Low, -wide), move(r.High, wide)
	holds := r.Low <= 0 && r.High >= 0
	switch {
	case holds:
		r.Verdict = NotFound
	case r.ByKeys:
		r.Verdict = Differs
	}

	if r.ByKeys && error > 0 {
		change := r.Change
		if r.Relative {
			change = math.Log1p(change)
		}
		r.P = 2 * stats.TDist{V: keyFreedom}.CDF(-math.Abs(change)/error)
	}

	return r
}

// keyFreedom are the degrees of freedom of an error that is estimated from parts of a run:
// fewer than it has parts, since neighbouring parts are added up.
const keyFreedom = 14

// chance is the standard error of the mean of all streams, as a share of it where relative.
func (s Sample) chance(relative bool) float64 {
	seen, squares, mean := map[string]bool{}, 0.0, 0.0
	for i, v := range s.Values {
		if name := s.Streams[i]; !seen[name] {
			seen[name] = true
			squares += s.StdErr[i] * s.StdErr[i]
		}
		mean += v / float64(len(s.Values))
	}

	error := math.Sqrt(squares) / float64(len(seen))
	if relative {
		error /= mean
	}

	return error
}

// byStream is the mean of each stream's runs.
func (s Sample) byStream() (means []float64) {
	var names []string
	runs := map[string][]float64{}
	for i, v := range s.Values {
		name := s.Streams[i]
		if runs[name] == nil {
			names = append(names, name)
		}
		runs[name] = append(runs[name], v)
	}

	for _, name := range names {
		means = append(means, stats.Mean(runs[name]))
	}

	return means
}

// sameKeys tells whether both sides asked for the same keys: what they share is no chance.
func (s Sample) sameKeys(other Sample) bool {
	names := func(s Sample) []string {
		return slices.Compact(slices.Sorted(slices.Values(s.Streams)))
	}
	return slices.Equal(names(s), names(other))
}

// within tells whether any change that is still possible is at most edge, in the measure of
// Change. If not, no difference is a claim that these runs cannot support: the verdict becomes
// CannotTell, and Needs is about how many runs would decide it: their interval lies within edge,
// or, if the change is what it seems, does not hold 0. Its width falls with the square root of
// their number. Of the chance in the keys, the same is said of the number of Gets.
func (r Result) within(edge float64) Result {
	if r.Verdict != NotFound || r.Low >= -edge && r.High <= edge {
		return r
	}

	measure := func(v float64) float64 { return v }
	if r.Relative {
		measure = math.Log1p
	}

	target := max(measure(edge), math.Abs(measure(r.Change)))
	wide := (measure(r.High) - measure(r.Low)) / 2 / target
	r.Verdict = CannotTell
	if r.ByLoads {
		return r.needed(target)
	}

	if r.ByKeys {
		r.Reason, r.GetsFactor = FewKeys, max(2, math.Ceil(wide*wide))
		return r
	}

	r.Reason, r.Needs = Noise,
		max(r.runs+1, int(math.Min(math.Ceil(float64(r.runs)*wide*wide), math.MaxInt32)))
	return r
}

// compare tests b against a, as if each run were an observation of its own.
func compare(a, b []float64, alpha float64) Result {
	r := Result{
		Relative: positive(a) && positive(b),
		P:        1,
		Verdict:  NotFound,
		Interval: true,
		runs:     min(len(a), len(b)),
	}

	shifts := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			if r.Relative {
				shifts = append(shifts, math.Log(y/x))
			} else {
				shifts = append(shifts, y-x)
			}
		}
	}

	slices.Sort(shifts)
	cut := outside(len(a), len(b), alpha)
	low, high := shifts[cut], shifts[len(shifts)-1-cut]
	middle := (shifts[(len(shifts)-1)/2] + shifts[len(shifts)/2]) / 2
	if r.Relative {
		low, middle, high = math.Expm1(low), math.Expm1(middle), math.Expm1(high)
	}

	r.Change, r.Low, r.High = middle, low, high
	test, err := stats.MannWhitneyUTest(b, a, stats.LocationDiffers)
	if err == nil { // else every run of both gave the same
		r.P = test.P
	}

	switch {
	case r.P <= alpha:
		r.Verdict = Differs
	case minimum(len(a), len(b)) > alpha:
		r.Verdict, r.Reason, r.Interval, r.Needs = CannotTell, FewRuns, false, Needs(alpha)
	}

	return r
}

// outside is how many of the sorted shifts lie outside the interval at either end. k
// values of the test's statistic are together at most alpha/2 likely; the interval runs
// from the k-th shift to the k-th from the end, as in R's wilcox.test.
func outside(n, m int, alpha float64) int {
	if n > stats.MannWhitneyExactLimit || m > stats.MannWhitneyExactLimit { // as the test does
		z := math.Sqrt2 * math.Erfinv(1-alpha)
		mean, deviation := float64(n*m)/2, math.Sqrt(float64(n*m*(n+m+1))/12)
		return max(0, int(math.Floor(mean-z*deviation)))
	}

	u := stats.UDist{N1: n, N2: m}
	k := 0
	for below := u.PMF(0); below <= alpha/2 && 2*k < n*m; below += u.PMF(float64(k)) {
		k++
	}

	return max(0, k-1)
}

// minimum is the smallest p-value that groups of n and m runs can give.
func minimum(n, m int) float64 {
	ways := 1.0 // n+m choose n
	for i := range n {
		ways = ways * float64(m+i+1) / float64(i+1)
	}
	return min(1, 2/ways)
}

// Needs is the least number of runs in each of two groups that can show a difference.
func Needs(alpha float64) int {
	n := 1
	for minimum(n, n) > alpha {
		n++
	}
	return n
}

func positive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) })
}
