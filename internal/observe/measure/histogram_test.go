package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// durations are log-uniform over the whole range.
func durations(seed uint64, n int) []int64 {
	r := rand.New(rand.NewPCG(seed, 0))
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(math.Exp(r.Float64() * math.Log(MaxNanos)))
	}
	return values
}

func TestCountersTileTheRange(t *testing.T) {
	if highest(numCounters-1) != MaxNanos {
		t.Fatalf("the last counter ends at %d, the range at %d", highest(numCounters-1),
			int64(MaxNanos))
	}

	lowest := int64(0)
	for i := range numCounters {
		if counter(lowest) != i || counter(highest(i)) != i {
			t.Fatalf("counter %d should hold %d..%d, but those go to %d and %d",
				i, lowest, highest(i), counter(lowest), counter(highest(i)))
		}

		if width := highest(i) - lowest; width > lowest/1000 {
			t.Fatalf("counter %d: %d..%d is wider than 0.1 %%", i, lowest, highest(i))
		}

		lowest = highest(i) + 1
	}
}

func TestHistogramAgainstHdrHistogram(t *testing.T) {
	ours, theirs := NewHistogram(), hdrhistogram.New(1, MaxNanos, 3)
	values := durations(1, 100_000)
	for _, v := range values {
		ours.Add(v)
		if err := theirs.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}

	if !ours.HDR().Equals(theirs) {
		t.Error("the export differs from an HdrHistogram of the same values")
	}

	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 0.99999} {
		// theirs knows no exact maximum
		want := min(theirs.ValueAtQuantile(100*q), slices.Max(values))
		if got := ours.Quantile(q); got != want {
			t.Errorf("quantile %v is %d, HdrHistogram says %d", q, got, want)
		}
	}

	var sum float64
	for _, v := range values {
		sum += float64(v)
	}

	if got, want := ours.Mean(), sum/float64(len(values)); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("mean is %v, want %v", got, want)
	}

	if got, want := ours.Max(), slices.Max(values); got != want || ours.Quantile(1) != want {
		t.Errorf("max is %d, quantile 1 is %d, want %d", got, ours.Quantile(1), want)
	}
}

func TestQuantilesAreRanks(t *testing.T) {
	h := NewHistogram()
	for v := range int64(1000) {
		h.Add(v + 1)
	}

	for q, want := range map[float64]int64{
		0:     1,
		0.001: 1,
		0.07:  70,
		0.5:   500,
		0.9:   900,
		0.99:  990,
		0.999: 999,
		1:     1000,
	} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v of 1..1000 is %d, want %d", q, got, want)
		}
	}

	s := h.Summary()
	if s.P50 != 500 || s.P90 != 900 || s.P99 != 990 || s.P999 != 999 || s.Max != 1000 ||
		s.Mean != 500.5 || s.N != 1000 {
		t.Errorf("summary of 1..1000 is %+v", s)
	}

	if empty := NewHistogram(); empty.Quantile(0.5) != 0 || empty.Mean() != 0 || empty.Max() != 0 {
		t.Error("an empty histogram has figures")
	}
}

func TestOutsideIsCounted(t *testing.T) {
	h := NewHistogram()
	for _, v := range []int64{-1, 0, 5, MaxNanos, MaxNanos + 1, 2 * MaxNanos} {
		h.Add(v)
	}

	if h.N() != 5 || h.TooLong() != 2 || h.Negative() != 1 {
		t.Errorf("n %d, too long %d, negative %d; want 5, 2, 1", h.N(), h.TooLong(), h.Negative())
	}

	if h.Max() != 2*MaxNanos || h.Quantile(0.7) != 2*MaxNanos {
		t.Errorf("max %d, quantile 0.7 %d: neither may shrink to the range", h.Max(),
			h.Quantile(0.7))
	}

	if h.Quantile(0.6) != MaxNanos || h.Sum() != 5+4*int64(MaxNanos)+1 {
		t.Errorf("quantile 0.6 is %d, sum %d", h.Quantile(0.6), h.Sum())
	}
}

func TestMergedPartsAreTheWhole(t *testing.T) {
	early, late, whole := NewHistogram(), NewHistogram(), NewHistogram()
	for i, v := range append(durations(2, 5000), -1, MaxNanos+1) {
		part := early
		if i%3 == 0 {
			part = late
		}

		part.Add(v)
		whole.Add(v)
	}

	early.Merge(late)
	if !same(early, whole) {
		t.Error("merged parts differ from the whole")
	}

	whole.Reset()
	if !same(whole, NewHistogram()) {
		t.Error("Reset leaves something")
	}
}

// same tells whether two histograms counted the same; counters that were never needed
// are counters of nothing.
func same(a, b *Histogram) bool {
	for i := range numParts {
		if *a.part(i) != *b.part(i) {
			return false
		}
	}
	return a.n == b.n && a.sum == b.sum && a.max == b.max && a.tooLong == b.tooLong &&
		a.negative == b.negative
}

func TestAddAllocatesNothing(t *testing.T) {
	h, r, c := NewHistogram(), NewRecorder(), NewClock()
	if n := testing.AllocsPerRun(1000, func() {
		start := c.Ticks()
		h.Add(c.Nanos(c.Ticks() - start))
		r.Add(c.Nanos(c.Ticks() - start))
	}); n != 0 {
		t.Errorf("%v allocations per operation", n)
	}
}

// The values of a benchmark lie within a factor of 16, like service times.
func BenchmarkAdd(b *testing.B) {
	var values [4096]int64
	r := rand.New(rand.NewPCG(3, 0))
	for i := range values {
		values[i] = int64(2000 * math.Exp(r.Float64()*math.Log(16)))
	}

	b.Run("histogram", func(b *testing.B) {
		b.ReportAllocs()
		h := NewHistogram()
		for i := range b.N {
			h.Add(values[i&4095])
		}
	})

	b.Run("recorder", func(b *testing.B) {
		b.ReportAllocs()
		h := NewRecorder()
		for i := range b.N {
			h.Add(values[i&4095])
		}
	})
}
