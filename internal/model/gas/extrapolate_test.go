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
