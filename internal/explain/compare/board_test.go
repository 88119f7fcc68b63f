package compare

import (
	"testing"

	"github.com/statelab/statelab/result"
)

// TestLoadsOfARank: two databases that statelab loaded, one that it did not.
func TestLoadsOfARank(t *testing.T) {
	run := func(dir, written string) *result.Run {
		r := &result.Run{Verb: "read"}
		r.Database.Dir, r.Database.Written = dir, written
		return r
	}

	for name, c := range map[string]struct {
		runs []*result.Run
		want int
	}{
		"two loads":  {[]*result.Run{run("a", "statelab"), run("b", "statelab")}, 2},
		"one":        {[]*result.Run{run("a", "statelab"), run("a", "statelab")}, 1},
		"not loaded": {[]*result.Run{run("a", "geth")}, 0},
	} {
		if got := (Ranked{group: Group{Runs: c.runs}}).Loads(); got != c.want {
			t.Errorf("%s: %d loads, want %d", name, got, c.want)
		}
	}
}
