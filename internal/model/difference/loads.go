package difference

import (
	"math"
	"slices"
	"sort"

	"github.com/aclements/go-moremath/stats"
)

// DefaultLoads is how many databases of each side a comparison asks for: the least number that
// finds a true difference of 3 % in four of five comparisons, where loads of one setting have a
// standard deviation of 1 % and six figures share Alpha (TestLoads of explain/compare).
const DefaultLoads = 6

// maxLoads bounds the search for how many more loads could decide.
const maxLoads = 1000

// Parts are where the half-width of an interval comes from: their squares add up to its square.
// They are in the measure of Change, as logarithms where that is relative.
type Parts struct {
	Loads   float64 `json:"between_loads"`   // databases of one setting that differ
	Keys    float64 `json:"sample_of_keys"`  // keys that were asked for
	Repeats float64 `json:"between_repeats"` // repeats on one database
	// Known: repeats were measured, or a count has none. If not, Loads has what repeats add.
	Known bool `json:"known"`
}

// Total is the half-width.
func (p Parts) Total() float64 { return math.Sqrt(p.Loads*p.Loads + p.squareWithin()) }

func (p Parts) squareWithin() float64 { return p.Keys*p.Keys + p.Repeats*p.Repeats }

// RepeatsHelp tells whether more repeats on the same databases would make the interval markedly
// shorter. It depends on the spread alone and not on the change, so measuring until it is false
// does not favour either verdict.
func (p Parts) RepeatsHelp() bool {
	const negligible = 1. / 3 // of the variance: the whole rest shortens the interval by 18 %
	return !p.Known || p.Repeats*p.Repeats > negligible*p.Total()*p.Total()
}

// loadTest is what a test of load means went by.
type loadTest struct {
	alpha  float64
	paired bool
	count  int // loads of the smaller side
}

// freedom are the degrees of freedom of n loads of each side.
func (t loadTest) freedom(n int) float64 {
	if t.paired {
		return float64(n - 1)
	}
	return float64(2 * (n - 1))
}

// nested are the runs of one side by load: the mean of each, and what varies within a load.
type nested struct {
	names []string
	means []float64
	// variances of the mean of one load: by the repeats on it, by the sample of its keys
	repeats, keys float64
	repeated      bool // repeats is known
}

// loads is how many databases the runs read.
func (s Sample) loads() int {
	return max(1, len(slices.Compact(slices.Sorted(slices.Values(s.Loads)))))
}

// nest estimates the components of variance of a nested design (Searle, Casella and McCulloch,
// Variance Components, 1992): repeats within loads.
func (s Sample) nest(relative bool) nested {
	measure := func(v float64) float64 { return v }
	if relative {
		measure = math.Log
	}

	var n nested
	values, errors := map[string][]float64{}, map[string]float64{}
	for i, v := range s.Values {
		name := ""
		if s.Loads != nil {
			name = s.Loads[i]
		}

		if values[name] == nil {
			n.names = append(n.names, name)
		}

		values[name] = append(values[name], measure(v))
		if s.StdErr != nil { // repeats on a load ask for the same keys
			errors[name] = s.StdErr[i]
			if relative {
				errors[name] /= v
			}
		}
	}

	squares, freedom, perMean := 0.0, 0, 0.0
	for _, name := range n.names {
		all := values[name]
		n.means = append(n.means, stats.Mean(all))
		if len(all) > 1 {
			squares += stats.Variance(all) * float64(len(all)-1)
			freedom += len(all) - 1
		}

		perMean += 1 / float64(len(all)) / float64(len(n.names))
		n.keys += errors[name] * errors[name] / float64(len(n.names))
	}

	if freedom > 0 {
		n.repeats, n.repeated = squares/float64(freedom)*perMean, true
	}

	return n
}

// byLoads compares the means of loads. Where both sides read the same databases, their difference
// is taken load by load, and the test is Student's for pairs; else it is Welch's.
func byLoads(a, b Sample, rule Rule) Result {
	r := Result{
		Relative: positive(a.Values) && positive(b.Values),
		P:        1,
		Verdict:  NotFound,
		Interval: true,
		ByLoads:  true,
		runs:     min(len(a.Values), len(b.Values)),
	}

	x, y := a.nest(r.Relative), b.nest(r.Relative)
	shift := func(v float64) float64 {
		if r.Relative {
			return math.Expm1(v)
		}
		return v
	}

	change := stats.Mean(y.means) - stats.Mean(x.means)
	r.Change = shift(change)
	r.loads = loadTest{alpha: rule.Alpha, count: min(len(x.means), len(y.means)),
		paired: x.sameLoads(y)}
	switch {
	case rule.Machine && !rule.Interleaved:
		r.Verdict, r.Reason, r.Interval = CannotTell, NoTurns, false
		return r
	case r.loads.count < 2:
		r.Verdict, r.Reason, r.Interval, r.NeedsLoads = CannotTell, FewLoads, false, DefaultLoads
		return r
	}

	variance, freedom := welch(x, y)
	nx, ny := float64(len(x.means)), float64(len(y.means))
	repeats, keys := x.repeats/nx+y.repeats/ny, x.keys/nx+y.keys/ny
	if r.loads.paired {
		variance, freedom = paired(x, y)
		keys = 0 // both sides asked for the same keys
	}

	repeats = min(repeats, variance)
	keys = min(keys, variance-repeats)
	error := math.Sqrt(variance)
	wide := studentQuantile(rule.Alpha, freedom) * error
	r.Low, r.High = shift(change-wide), shift(change+wide)
	if error > 0 {
		scale := wide / error
		r.Parts = Parts{
			Loads:   scale * math.Sqrt(variance-repeats-keys),
			Keys:    scale * math.Sqrt(keys),
			Repeats: scale * math.Sqrt(repeats),
		}
		r.P = 2 * stats.TDist{V: freedom}.CDF(-math.Abs(change)/error)
	} else if change != 0 {
		r.P = 0
	}

	r.Parts.Known = !rule.Machine || x.repeated && y.repeated
	if r.P <= rule.Alpha {
		r.Verdict = Differs
	}

	return r
}

// sameLoads tells whether both sides read the same databases.
func (n nested) sameLoads(other nested) bool {
	return slices.Equal(slices.Sorted(slices.Values(n.names)),
		slices.Sorted(slices.Values(other.names)))
}

// welch is the variance of the difference of two means of loads, and its degrees of freedom
// (Welch, Biometrika 34, 1947).
func welch(x, y nested) (variance, freedom float64) {
	nx, ny := float64(len(x.means)), float64(len(y.means))
	vx, vy := stats.Variance(x.means)/nx, stats.Variance(y.means)/ny
	if variance = vx + vy; variance == 0 {
		return 0, nx + ny - 2
	}
	return variance, variance * variance / (vx*vx/(nx-1) + vy*vy/(ny-1))
}

// paired is the variance of the mean of the differences on each load.
func paired(x, y nested) (variance, freedom float64) {
	var differences []float64
	for i, name := range x.names {
		differences = append(differences, y.means[slices.Index(y.names, name)]-x.means[i])
	}
	n := float64(len(differences))
	return stats.Variance(differences) / n, n - 1
}

// MeanOf is the mean of independent values, two or more, and the half-width of its confidence
// interval (Student's): the true mean lies outside with a probability of alpha.
func MeanOf(values []float64, alpha float64) (mean, half float64) {
	n := float64(len(values))
	return stats.Mean(values), studentQuantile(alpha, n-1) * math.Sqrt(stats.Variance(values)/n)
}

// studentQuantile is of Student's distribution, for both ends together.
func studentQuantile(alpha, freedom float64) float64 {
	return stats.InvCDF(stats.TDist{V: freedom})(1 - alpha/2)
}

// needed is an interval of load means that is too wide, with what would bring its half-width to
// target: of loads, repeats and Gets that which contributes most to it, if that suffices.
func (r Result) needed(target float64) Result {
	p := r.Parts
	square := func(v float64) float64 { return v * v }
	// enough is how many times as much of a part is needed; 0: no amount suffices
	enough := func(part float64) float64 {
		left := square(target) - (square(p.Total()) - square(part))
		if left <= 0 {
			return 0
		}
		return max(1, math.Ceil(square(part)/left))
	}

	if times := enough(p.Repeats); p.Known && p.Repeats >= max(p.Loads, p.Keys) && times > 0 {
		r.Reason = Noise
		r.Needs = int(min(max(float64(r.runs)*times, float64(r.runs+1)), math.MaxInt32))
		return r
	}

	if times := enough(p.Keys); p.Keys >= max(p.Loads, p.Repeats) && times > 0 {
		r.Reason, r.GetsFactor = FewKeys, max(2, times)
		return r
	}

	t := r.loads
	error := p.Total() / studentQuantile(t.alpha, t.freedom(t.count))
	more := 1 + sort.Search(maxLoads, func(i int) bool {
		n := t.count + 1 + i
		shrunk := error * math.Sqrt(float64(t.count)/float64(n))
		return studentQuantile(t.alpha, t.freedom(n))*shrunk <= target
	})

	r.Reason, r.NeedsLoads = FewLoads, t.count+more
	return r
}
