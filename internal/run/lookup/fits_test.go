package lookup

import (
	"testing"

	"github.com/statelab/statelab/result"
)

func TestAStateFitsInMemory(t *testing.T) {
	for _, c := range []struct {
		held   float64 // device bytes of a warm lookup
		budget int64
		want   bool
	}{{0, 0, true}, {0, 1, true}, {5, 0, false}, {5, 99, false}, {5, 100, true}} {
		state := &result.State{DiskBytes: 100, Lookups: []result.Lookups{
			{Condition: result.ColdLookups, DeviceBytes: 4096},
			{Condition: result.HeldLookups, DeviceBytes: c.held},
		}}

		if got := fits(state, c.budget); got != c.want {
			t.Errorf("%g bytes a lookup, a budget of %d: %v", c.held, c.budget, got)
		}
	}
}
