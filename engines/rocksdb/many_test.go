//go:build cgo

package rocksdb

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// batchesAgree compares the blocks that batches of Gets of keys below n are said to ask for with
// RocksDB's counters of its MultiGet. The keys of a batch are near each other, so that they share
// blocks, and some are asked for twice.
func batchesAgree(t *testing.T, d *db, resolver *blockbased.Resolver, n uint64) {
	t.Helper()
	opened, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}

	defer opened.Close()
	r, is := opened.(engine.ManyGetter)
	if !is {
		t.Fatal("no MultiGet")
	}

	walk := resolver.Walk().(*blockbased.Walker)
	rng := rand.New(rand.NewPCG(3, 4))
	before := d.Counters()
	var want [engine.NumBlockTypes]int64
	alone := int64(0) // what the same Gets ask for one by one
	for round := range 60 {
		span := uint64(200)
		if round%2 == 0 {
			span = n
		}

		low := rng.Uint64N(n)
		keys := make([][]byte, 1+rng.IntN(100))
		for i := range keys {
			keys[i] = keyOf(low + rng.Uint64N(span))
		}

		answers, found := make([]engine.Answer, len(keys)), make([]bool, len(keys))
		if err := r.GetMany(keys, false, answers); err != nil {
			t.Fatal(err)
		}

		numbers, err := walk.GetMany(keys, make([]bool, len(keys)), found, nil)
		if err != nil {
			t.Fatal(err)
		}

		for i, a := range answers {
			if a.Found != found[i] {
				t.Fatalf("batch %d, key %d: found %v and %v", round, i, a.Found, found[i])
			}

			one, _, err := resolver.Walk().Get(keys[i], false, nil)
			if err != nil {
				t.Fatal(err)
			}

			alone += int64(len(one))
		}

		for _, number := range numbers {
			b, err := resolver.Block(number)
			if err != nil {
				t.Fatal(err)
			}
			want[b.Type]++
		}
	}

	said, counted := byKind(want), byKind(*d.Counters().Sub(before).Accesses)
	if !maps.Equal(said, counted) {
		t.Errorf("batches: %v, RocksDB counts %v", said, counted)
	}

	t.Logf("batches: %v, %d one by one", said, alone)
}

// byKind are accesses to data, filters and all parts of indexes.
func byKind(of [engine.NumBlockTypes]int64) map[string]int64 {
	return map[string]int64{"data": of[engine.Data], "filter": of[engine.Filter],
		"index": of[engine.Index] + of[engine.SingleIndex] + of[engine.TopIndex]}
}
