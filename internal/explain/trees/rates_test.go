package trees

import (
	"testing"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func TestRatesOverAWindow(t *testing.T) {
	var of replayed
	leaves := uint64(0)
	for i := range 40 { // 100 leaves/s, then 10, half of each second in the tree
		rate := 100.0
		if i >= 20 {
			rate = 10
		}

		leaves += uint64(rate / 2)
		of.ticks = append(of.ticks, result.Tick{Tree: &result.TreeTick{
			Leaves:          leaves,
			LeavesPerSecond: figure.Known(rate),
		}})
	}

	w := window{ticks: 1000}
	var all *float64
	for _, tick := range of.ticks {
		all = w.add(tick.Tree)
	}

	if all == nil || *all != 55 { // 1,100 leaves in 20 seconds
		t.Errorf("the whole run: %v, want 55", all)
	}
}
