package enginetest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/statelab/statelab/engine"
)

// testGetMany compares GetMany with Get: present and absent keys, the same key twice,
// values that do not fit where they should go, batches of no and of many keys.
func (s suite) testGetMany(t *testing.T) {
	const keys = 20_000
	db := s.open(t, engine.Options{Dir: s.loaded(t, keys), ReadOnly: true})
	t.Cleanup(func() { must(t, db.Close()) })
	r := reader(t, db)
	many, is := r.(engine.ManyGetter)
	if !is {
		t.Fatalf("%s says %s, but its readers have no GetMany", s.info.Name, engine.CanGetMany)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 2, 33, 1000} {
		for _, sorted := range []bool{false, true} {
			batch, answers := make([][]byte, size), make([]engine.Answer, size)
			for i := range batch {
				batch[i] = keyOf(rng.Uint64N(keys * 5 / 4))
				answers[i].Value = make([]byte, 0, rng.IntN(200))
			}
			if size > 1 {
				batch[1] = bytes.Clone(batch[0])
			}
			if sorted {
				slices.SortFunc(batch, bytes.Compare)
			}
			must(t, many.GetMany(batch, sorted, answers))
			for i, key := range batch {
				want, found, err := r.Get(key, nil)
				must(t, err)
				if answers[i].Found != found || !bytes.Equal(answers[i].Value, want) {
					t.Fatalf("key %d of %d (sorted: %v): found %v with %d bytes, Get says %v with %d", i, size, sorted, answers[i].Found,
						len(answers[i].Value), found, len(want))
				}
			}
		}
	}
	s.getManyUsesItsBuffers(t, many)
}

// getManyUsesItsBuffers asks twice: answers are written where the first ones were, and
// nothing is allocated for them.
func (s suite) getManyUsesItsBuffers(t *testing.T, many engine.ManyGetter) {
	batch, answers := make([][]byte, 64), make([]engine.Answer, 64)
	for i := range batch {
		batch[i], answers[i].Value = keyOf(uint64(i)), make([]byte, 0, 256)
	}
	if allocs := testing.AllocsPerRun(20, func() {
		if err := many.GetMany(batch, false, answers); err != nil {
			t.Error(err)
		}
	}); allocs > 0 && !s.info.Has(engine.AllocatesPerGet) {
		t.Errorf("%v allocations of Go memory in a GetMany of %d keys", allocs, len(batch))
	}
}
