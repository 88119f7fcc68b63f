// Package difference tells whether a figure of two groups of runs differs, and by how
// much. It makes no assumption about how the figure is distributed.
//
// The test is Mann and Whitney's, as in benchstat, whose statistics library it uses
// (github.com/aclements/go-moremath). The interval is the one that belongs to that test:
// all ratios of a run of B to a run of A, sorted, without as many at either end as the
// test's distribution allows (Hodges and Lehmann, Annals of Mathematical Statistics 34,
// 1963). docs/compare.md explains both in words.
//
// Non-goals: exact counts, which need no statistics (explain/compare).
package difference

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// Verdict is what two groups of runs show.
type Verdict string

// Verdicts.
const (
	Differs    Verdict = "differs"
	NotFound   Verdict = "no_difference_found" // what may be left is in the interval
	CannotTell Verdict = "cannot_tell"         // the runs are too few, or of Within, too noisy
)

// Result compares B with A.
type Result struct {
	Verdict Verdict
	P       float64 // of Mann and Whitney's test, two-sided
	// Change is the median of all differences between a run of B and one of A; Low and
	// High are its interval. They are shares of A (0.1: B is 10 % more) where Relative,
	// else in the unit of the figure: a figure that can be 0 has no ratio.
	Change, Low, High float64
	Relative          bool
	Needs             int // runs in each group that could show a difference; of CannotTell
	runs              int // of the smaller group
}

// Within tells whether any change that is still possible is at most edge, in the measure of
// Change. If not, no difference is a claim that these runs cannot support: the verdict becomes
// CannotTell, and Needs is about how many runs would decide it: their interval lies within edge,
// or, if the change is what it seems, does not hold 0. Its width falls with the square root of
// their number.
func (r Result) Within(edge float64) Result {
	if r.Verdict != NotFound || r.Low >= -edge && r.High <= edge {
		return r
	}
	measure := func(v float64) float64 { return v }
	if r.Relative {
		measure = math.Log1p
	}
	wide := (measure(r.High) - measure(r.Low)) / 2 / max(measure(edge), math.Abs(measure(r.Change)))
	r.Verdict = CannotTell
	r.Needs = max(r.runs+1, int(math.Min(math.Ceil(float64(r.runs)*wide*wide), math.MaxInt32)))
	return r
}

// Compare judges b against a; alpha is the probability of calling two equal groups
// different that is accepted, 0 < alpha < 1.
func Compare(a, b []float64, alpha float64) Result {
	r := Result{Relative: positive(a) && positive(b), P: 1, Verdict: NotFound, runs: min(len(a), len(b))}
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
	if len(shifts) == 0 {
		r.Verdict, r.Needs = CannotTell, Needs(alpha)
		return r
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
	case least(len(a), len(b)) > alpha:
		r.Verdict, r.Needs = CannotTell, Needs(alpha)
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

// least is the smallest p-value that groups of n and m runs can give.
func least(n, m int) float64 {
	ways := 1.0 // n+m choose n
	for i := range n {
		ways = ways * float64(m+i+1) / float64(i+1)
	}
	return min(1, 2/ways)
}

// Needs is the least number of runs in each of two groups that can show a difference.
func Needs(alpha float64) int {
	n := 1
	for least(n, n) > alpha {
		n++
	}
	return n
}

func positive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) })
}
