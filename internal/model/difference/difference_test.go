package difference

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Of groups that do not overlap, the p-value is 2 / (10 choose 5), and the interval is
// the one that the distribution of U gives by counting.
func TestAgreesWithTheDefinition(t *testing.T) {
	a := []float64{1.1, 2.2, 3.3, 4.4, 5.5}
	b := []float64{10, 11, 12, 13, 14}
	r := compare(a, b, 0.05)
	if r.Verdict != Differs || math.Abs(r.P-2.0/252) > 1e-12 || !r.Relative {
		t.Errorf("%+v", r)
	}

	// P(U <= 2) = 4/252 = 0.0159 and P(U <= 3) = 7/252 = 0.0278 > 0.025: the interval
	// starts at the third of the 25 ratios.
	if got := outside(5, 5, 0.05); got != 2 {
		t.Errorf("%d ratios are outside, 2 expected", got)
	}

	if !(r.Low > 0 && r.Low < r.Change && r.Change < r.High) {
		t.Errorf("%+v", r)
	}
}

func TestTooFewRuns(t *testing.T) {
	for alpha, want := range map[float64]int{0.05: 4, 0.05 / 6: 5, 0.05 / 7: 6} {
		if got := Needs(alpha); got != want {
			t.Errorf("alpha %v needs %d runs, %d expected", alpha, got, want)
		}
	}

	if r := compare([]float64{1, 2, 3}, []float64{7, 8, 9}, 0.05); r.Verdict != CannotTell ||
		r.Needs != 4 {
		t.Errorf("%+v", r)
	}

	if r := Decide(Sample{}, Sample{Values: []float64{1}},
		Rule{Alpha: 0.05}); r.Verdict != CannotTell {
		t.Errorf("%+v", r)
	}

	if r := compare([]float64{5, 5, 5, 5}, []float64{5, 5, 5, 5}, 0.05); r.Verdict != NotFound ||
		r.Change != 0 || r.Low != 0 || r.High != 0 {
		t.Errorf("equal: %+v", r)
	}

	if r := compare([]float64{0, 0, 0, 0}, []float64{1, 1, 1, 1}, 0.05); r.Verdict != Differs ||
		r.Relative || r.Change != 1 {
		t.Errorf("from 0: %+v", r)
	}
}

// No difference is found only where none that matters is possible, and what is said to be
// needed is enough.
func TestWithin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	of := func(n int) Result { // two groups without a difference
		group := skewed(rng, n, 1)
		return compare(group, group, 0.05)
	}

	few := of(10)
	if few.Verdict != NotFound {
		t.Fatalf("%+v", few)
	}

	if same := few.within(10); same != few {
		t.Errorf("within 1000 %%: %+v", same)
	}

	wide := few.within(0.1)
	if wide.Verdict != CannotTell || wide.Low != few.Low || wide.Needs <= 10 {
		t.Errorf("%+v", wide)
	}

	if r := of(3 * wide.Needs).within(0.1); r.Verdict != NotFound {
		t.Errorf("%d runs were said to be needed: %+v", wide.Needs, r)
	}

	likely := compare([]float64{10, 11, 12, 13, 14, 15}, []float64{12, 13, 14, 15, 16, 17}, 0.05/3).
		within(0.02)
	if likely.Verdict != CannotTell || likely.Needs < 7 || likely.Needs > 20 {
		t.Errorf("a change that a few more runs would show: %+v", likely)
	}

	if none := few.within(0); none.Verdict != CannotTell {
		t.Errorf("within nothing: %+v", none)
	}

	if r := compare([]float64{0, 1, 2, 0, 1}, []float64{1, 0, 0, 2, 1},
		0.05).within(0.5); r.Verdict != CannotTell || r.Relative {
		t.Errorf("in the unit of the figure: %+v", r)
	}
}

// Of equal groups at most alpha are called different, and the interval holds the true
// ratio as often as it says, for skewed figures and any number of runs.
func TestErrorRatesHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		n, m  int
		alpha float64
	}{{4, 4, 0.05}, {5, 5, 0.05 / 6}, {10, 10, 0.05}, {6, 12, 0.05}, {60, 60, 0.05}} {
		rounds, alarms, missed := 2000, 0, 0
		if c.n > 20 {
			rounds = 300
		}

		for range rounds {
			a, b := skewed(rng, c.n, 1), skewed(rng, c.m, 1)
			if compare(a, b, c.alpha).Verdict == Differs {
				alarms++
			}

			if r := compare(a, scaled(b, 1.18), c.alpha); r.Low > 0.18+1e-9 || r.High < 0.18-1e-9 {
				missed++
			}
		}

		// Four standard deviations of the binomial above alpha.
		maximum := int(float64(rounds)*c.alpha + 4*math.Sqrt(float64(rounds)*c.alpha))
		if alarms > maximum || missed > maximum {
			t.Errorf("%d against %d runs, alpha %.4f: %d false alarms and %d intervals without "+
				"the truth in %d", c.n, c.m, c.alpha, alarms, missed, rounds)
		}
	}
}

func skewed(rng *rand.Rand, n int, scale float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = scale * math.Exp(rng.ExpFloat64()/3)
	}
	return values
}

func scaled(values []float64, by float64) []float64 {
	for i := range values {
		values[i] *= by
	}
	return values
}

// TestRunsThatWereNotInterleaved: what depends on the machine is judged only if both sides met the
// same hours.
func TestRunsThatWereNotInterleaved(t *testing.T) {
	a, b := Sample{Values: []float64{1, 2, 3, 4}}, Sample{Values: []float64{11, 12, 13, 14}}
	rule := Rule{Alpha: 0.05, Machine: true, Margin: func(bool) float64 { return 0 }}
	r := Decide(a, b, rule)
	if r.Verdict != CannotTell || r.Reason != NoTurns || r.Certain() {
		t.Errorf("%+v", r)
	}

	rule.Interleaved = true
	if r := Decide(a, b, rule); !r.Certain() {
		t.Errorf("interleaved: %+v", r)
	}
}
