package cachesim

import (
	"math/rand/v2"
	"testing"
)

// TestInferLRUEntries: the size of an LRU cache follows from which lookups were hits, also where
// some of them are out of order.
func TestInferLRUEntries(t *testing.T) {
	const tables, lookups = 200, 20_000
	for _, c := range []struct {
		entries  int
		disorder float64
	}{{1, 0}, {20, 0}, {100, 0}, {180, 0}, {199, 0}, {100, 0.01}} {
		rng := rand.New(rand.NewPCG(1, uint64(c.entries)))
		cache := NewLRU(int64(c.entries))
		var ids []uint64
		var hits []bool
		for range lookups {
			id := rng.Uint64N(tables)
			hit := cache.Access(uint32(id), 1)
			if rng.Float64() < c.disorder {
				hit = !hit
			}
			ids, hits = append(ids, id), append(hits, hit)
		}

		if got := InferLRUEntries(ids, hits); got < c.entries-1 || got > c.entries+1 {
			t.Errorf("%+v: %d entries", c, got)
		}
	}

	if got := InferLRUEntries([]uint64{1, 2, 1, 2}, []bool{false, false, true, true}); got != 0 {
		t.Errorf("without a miss of an id that was there: %d entries", got)
	}
}
