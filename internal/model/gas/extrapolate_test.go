package gas

import (
	"math"
	"testing"

	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// TestExtrapolateByHand: a model that says one read for every decade of accounts.
func TestExtrapolateByHand(t *testing.T) {
	model := func(s Size) (statemodel.Reads, bool) {
		return statemodel.Reads{Mean: math.Log10(float64(s.Accounts))}, true
	}
	row := func(accounts uint64, reads float64) result.PriceRow {
		return result.PriceRow{
			Accounts: accounts,
			Reads:    result.Estimate{Value: reads, Low: reads, High: reads},
			CPUNanos: figure.Known(1000),
		}
	}

	size := Size{Accounts: 1_000_000}
	for name, c := range map[string]struct {
		built []result.PriceRow
		want  float64
		ok    bool
	}{
		"nothing was built": {nil, 0, false},
		"it was built": {[]result.PriceRow{row(size.Accounts, 7)}, 0,
			false},
		"one size: twice what the model says": {[]result.PriceRow{row(10_000, 8)}, 12, true},
		"as the model says": {[]result.PriceRow{row(10_000, 4),
			row(100_000, 5)}, 6, true},
		"always twice what the model says": {[]result.PriceRow{row(10_000, 8),
			row(100_000, 10)}, 12, true},
		"always one more than what the model says": {[]result.PriceRow{row(10_000, 5),
			row(100_000, 6)}, 7, true},
	} {
		r, ok := Extrapolate(c.built, size, 1, model)
		if ok != c.ok ||
			ok && (math.Abs(r.Reads.Value-c.want) > 1e-9 || !r.Predicted || SizeOf(r) != size) {
			t.Errorf("%s: %v, %+v", name, ok, r)
		}
	}

	unknown := func(Size) (statemodel.Reads, bool) { return statemodel.Reads{}, false }
	if _, ok := Extrapolate([]result.PriceRow{row(10_000, 4)}, size, 1, unknown); ok {
		t.Error("a model that does not know the size predicts it")
	}
}

// TestWithMemoryByHand: a fifth of a read at 1000 ns a read more than the 500 ns of a warm lookup,
// in a band of the reads and of what one of them takes the CPU.
func TestWithMemoryByHand(t *testing.T) {
	cold := result.PriceRow{
		Reads:    result.Estimate{Value: 4, Low: 4, High: 4},
		CPUNanos: figure.Known(4500),
	}
	first := cold
	first.Reads, first.CPUError = within(10, .3), figure.Known(.5)
	warm := result.PriceRow{Condition: result.HeldLookups, CPUNanos: figure.Known(500)}
	r := WithMemory(first, cold, warm, 1<<30, .2, .3, true)
	if r.CPUNanos.OrZero() != 700 || math.Abs(r.CPUError.OrZero()-.5) > 1e-9 ||
		math.Abs(r.Reads.Low-.2/1.3) > 1e-9 || r.MemoryBytes != 1<<30 ||
		r.Condition != result.HeldLookups {
		t.Errorf("%+v", r)
	}

	unknown := cold
	unknown.CPUNanos = figure.Unavailable("nobody counted")
	if r := WithMemory(first, unknown, warm, 1<<30, .2, .3, false); r.IsPriced() {
		t.Errorf("priced with a CPU time that is not known: %+v", r)
	}
}
