package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/resolve"
)

// TestFilterUseOfPebble: filters are found that no Get consults since the options name no policy,
// and tables that lack filters although they name one. Consulted, they spare Gets data blocks, and
// not consulted again, none.
func TestFilterUseOfPebble(t *testing.T) {
	filters := map[string]string{"FilterLevels": "0-5", "FilterBitsPerKey": "10"}
	none := map[string]string{"FilterLevels": "none"}
	use := func(dir string) *advice.FilterUse {
		t.Helper()
		found, err := curve.FilterUse(dir, "pebble2", nil)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	if found := use(pebbleOf(t, pebble2.Engine{}, "bench-kvdb", filters, nil)); found != nil {
		t.Errorf("filters that are consulted: %+v", found)
	}

	lacking := use(pebbleOf(t, pebble2.Engine{}, "bench-kvdb", none, filters))
	if lacking == nil || lacking.Ignored() || lacking.Lacking == 0 || !lacking.Worth() {
		t.Errorf("tables that lack filters: %+v", lacking)
	}

	lost := pebbleOf(t, pebble2.Engine{}, "bench-kvdb", filters, none)
	found := use(lost)
	// A filter of few keys is rounded up.
	if found == nil || !found.Ignored() || found.BitsPerKey < 10 || found.BitsPerKey > 11 ||
		found.Lacking != 0 {
		t.Errorf("lost filters: %+v", found)
	}

	r, err := resolve.Open(lost, cachesim.PebbleV2)
	if err != nil {
		t.Fatal(err)
	}

	r.IgnoreFilters()
	before := accessesOf(t, r)
	if err := r.ConsultFilters(true); err != nil {
		t.Fatal(err)
	}

	with := accessesOf(t, r)
	if err := r.ConsultFilters(false); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(before, accessesOf(t, r)); diff != "" || before[engine.Filter] > 0 {
		t.Errorf("accesses without filters, before and after:\n%s", diff)
	}

	if with[engine.Filter] == 0 || with[engine.Data] >= before[engine.Data] {
		t.Errorf("with filters: %v, without: %v", with, before)
	}

	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// accessesOf are the blocks by type that Gets of some keys access.
func accessesOf(t *testing.T, r *resolve.Resolver) map[engine.BlockType]int {
	t.Helper()
	walk, all := r.Walk(), map[engine.BlockType]int{}
	maker, key := lintKeySpace().Maker(), make([]byte, 32)
	for i := range uint64(lintKeys / 10) {
		maker.Key(key, i)
		numbers, _, err := walk.Get(key, false, nil)
		if err != nil {
			t.Fatal(err)
		}

		for _, number := range numbers {
			b, err := r.Block(number)
			if err != nil {
				t.Fatal(err)
			}
			all[b.Type]++
		}
	}

	return all
}
