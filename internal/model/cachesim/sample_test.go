package cachesim

import (
	"math"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// sampled is the sample of a trace as Trace keeps it.
func sampled(t testing.TB, trace *Trace, shift int) *Trace {
	t.Helper()
	s := NewSampler(shift, trace.WarmupGets)
	for i, start := range trace.Gets {
		end := len(trace.Accesses)
		if i+1 < len(trace.Gets) {
			end = int(trace.Gets[i+1])
		}

		if err := s.Get(trace.Accesses[start:end], trace.Blocks); err != nil {
			t.Fatal(err)
		}
	}

	return s.Trace()
}

// TestSampleOfAllIsTheTrace: with every block in the sample, only the error is
// an estimate.
func TestSampleOfAllIsTheTrace(t *testing.T) {
	trace := mixedTrace(t, 3, 20_000, 3000, 6000, 1)
	for _, policy := range Policies() {
		sizes := []int64{100_000, 1 << 20, 8 << 20}
		exact, err := Curve(t.Context(), trace, Setup{Policy: policy, Cores: 1}, sizes)
		if err != nil {
			t.Fatal(err)
		}

		estimates, err := Curve(t.Context(), sampled(t, trace, 0), Setup{Policy: policy, Cores: 1},
			sizes)
		if err != nil {
			t.Fatal(err)
		}

		for i := range sizes {
			have := estimates[i]
			have.ReadsPerGetError = 0
			if have != exact[i] {
				t.Errorf("%s: %+v, want %+v", policy, have, exact[i])
			}
		}
	}
}

// TestSampleIsWithinItsError compares estimates from one of 8 and of 64 blocks
// with the exact curve. The interval is of 95 %, so some may miss; hashes are
// fixed, so the same ones always do.
func TestSampleIsWithinItsError(t *testing.T) {
	testring.Outer(t, "it plays large traces")
	all, outside, worst, widest := 0, 0, 0.0, 0.0
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}

	for seed := range seeds {
		trace := mixedTrace(t, 20+seed, 200_000, 150_000, 6000, 1)
		for _, policy := range Policies() {
			sizes := []int64{4 << 20, 16 << 20, 64 << 20, 256 << 20}
			exact, err := Curve(t.Context(), trace, Setup{Policy: policy, Cores: 1}, sizes)
			if err != nil {
				t.Fatal(err)
			}

			for _, shift := range []int{3, 6} {
				estimates, err := Curve(t.Context(), sampled(t, trace, shift),
					Setup{Policy: policy, Cores: 1}, sizes)
				if err != nil {
					t.Fatal(err)
				}

				for i := range sizes {
					want, have := exact[i].BlockReadsPerGet(), estimates[i].BlockReadsPerGet()
					off := math.Abs(have - want)
					if all++; off > estimates[i].ReadsPerGetError {
						outside++
						t.Logf("%s, 1/%d, %d MiB: %.4f +- %.4f, exact %.4f", policy, 1<<shift,
							sizes[i]>>20, have, estimates[i].ReadsPerGetError, want)
					}

					if shift == 3 {
						worst, widest = max(worst, off/want),
							max(widest, estimates[i].ReadsPerGetError/want)
					}
				}
			}
		}
	}

	t.Logf("%d of %d outside; with one of 8 blocks off by up to %.2f %%, at most %.2f %% said",
		outside, all, 100*worst, 100*widest)
	if outside*20 > all || widest > 0.2 {
		t.Errorf("%d of %d estimates are outside their interval, the worst off by %.3f, the "+
			"widest interval %.3f", outside, all, worst, widest)
	}
}

func TestSampleRefuses(t *testing.T) {
	trace := smallTrace(t)
	if _, err := Curve(
		t.Context(),
		sampled(t, trace, 12),
		Setup{Policy: LRUPolicy, Cores: 1},
		[]int64{1 << 20},
	); err == nil {
		t.Error("a sample without any filter estimates a curve")
	}

	trace.WarmupGets = len(trace.Gets)
	if _, err := Curve(
		t.Context(),
		sampled(t, trace, 0),
		Setup{Policy: LRUPolicy, Cores: 1},
		[]int64{1 << 20},
	); err == nil {
		t.Error("a sample of a warm-up only estimates a curve")
	}
}
