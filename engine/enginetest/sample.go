package enginetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/statelab/statelab/engine"
)

// testSampleKeys checks that sampled keys exist and are spread evenly: the
// numbers in them fall into equal buckets as chance allows.
func (s suite) testSampleKeys(t *testing.T) {
	const keys, samples, buckets = blockKeys, 4000, 16
	dir := s.loaded(t, keys)
	db := s.open(t, engine.Options{Dir: dir})
	defer func() { must(t, db.Close()) }()
	sampler, is := db.(engine.KeySampler)
	if !is {
		t.Skip("the engine samples no keys")
	}

	w := writer(t, db)
	const deleted = 100
	for i := range uint64(deleted) {
		must(t, w.Delete(keyOf(i)))
	}

	must(t, w.Commit())
	must(t, w.Close())
	must(t, db.Sync(t.Context()))

	before := db.Counters()
	var got []uint64
	must(t, sampler.SampleKeys(t.Context(), samples, 5, func(key []byte) error {
		got = append(got, binary.BigEndian.Uint64(key[24:]))
		return nil
	}))

	if c := db.Counters().Sub(before); c.Reads != nil && c.Reads.Total().Count != 0 {
		t.Errorf("sampling moved the counters by %d reads", c.Reads.Total().Count)
	}

	if len(got) != samples {
		t.Errorf("%d keys, want %d", len(got), samples)
	}

	r := reader(t, db)
	var count [buckets]float64
	for _, i := range got {
		if i < deleted {
			t.Fatalf("key %d is deleted", i)
		}
		expect(t, r, keyOf(i), valueOf(i))
		count[i*buckets/keys]++
	}

	var chi2 float64
	for _, c := range count {
		expected := float64(len(got)) / buckets
		chi2 += (c - expected) * (c - expected) / expected
	}

	if p := (distuv.ChiSquared{K: buckets - 1}).Survival(chi2); p < 1e-10 {
		t.Errorf("unevenly spread (p = %.2g): %v", p, count)
	}

	stop := errors.New("enough")
	if err := sampler.SampleKeys(t.Context(), 10, 5,
		func([]byte) error { return stop }); !errors.Is(
		err,
		stop,
	) {
		t.Errorf("error %v, want the one of yield", err)
	}
}

// testBuildSorted builds a database from sorted entries and reads it.
func (s suite) testBuildSorted(t *testing.T) {
	const n = 20_000
	dir := newDir(t)
	db := s.open(t, engine.Options{Dir: dir, Create: true})
	spec := engine.SortedSpec{Keys: n, KeyBytes: 8, ValueBytes: 110, Seed: 1, Workers: 2}
	must(t, db.(engine.SortedBuilder).BuildSorted(t.Context(), spec, sortedEntries,
		func(uint64) {}))
	must(t, db.Settle(t.Context(), nil))
	must(t, db.Close())
	db = s.open(t, engine.Options{Dir: dir})
	defer func() { must(t, db.Close()) }()
	r := reader(t, db)
	for i := range uint64(n) {
		expect(t, r, sortedKey(i), valueOf(i))
	}

	expectMissing(t, r, sortedKey(n))
}

func sortedKey(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }

func sortedEntries(from, to uint64) engine.Entries {
	next := from
	return func(bool) (key, value []byte, err error) {
		if next == to {
			return nil, nil, io.EOF
		}
		next++
		return sortedKey(next - 1), valueOf(next - 1), nil
	}
}

// testGetMany compares GetMany with Get: present and absent keys, the same key twice,
// values that do not fit where they should go, batches of no and of many keys.
func (s suite) testGetMany(t *testing.T) {
	const keys = 20_000
	db := s.open(t, engine.Options{Dir: s.loaded(t, keys), ReadOnly: true})
	t.Cleanup(func() { must(t, db.Close()) })
	r := reader(t, db)
	many := r.(engine.ManyGetter)

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
					t.Fatalf("key %d of %d (sorted: %v): found %v with %d bytes, Get says %v "+
						"with %d", i, size, sorted, answers[i].Found,
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

// testMemoryBudget checks that the parts of a budget are its size, and that the
// block cache among them is the one the engine runs with.
func (s suite) testMemoryBudget(t *testing.T) {
	const budget = 96 << 20
	db := s.open(t, engine.Options{Dir: newDir(t), Create: true, MemoryBytes: budget})
	defer func() { must(t, db.Close()) }()
	reporter, is := db.(engine.MemoryReporter)
	if !is {
		t.Fatal("the capability memory_budget without a MemoryReporter")
	}

	load(t, db, 1000)
	var sum int64
	shares := reporter.Memory()
	for i, share := range shares {
		sum += share.Bytes
		if i > 0 && share.Bytes > shares[i-1].Bytes {
			t.Errorf("not the largest first: %+v", shares)
		}

		switch share.Basis {
		case "limit", "measured", "estimate":
		default:
			t.Errorf("%s: basis %q", share.Use, share.Basis)
		}
	}

	if sum > budget || sum < budget*9/10 {
		t.Errorf("the parts add up to %d of a budget of %d: %+v", sum, budget, shares)
	}

	if errs := s.engine.Check(engine.Options{
		Dir:         newDir(t),
		MemoryBytes: budget,
		CacheBytes:  cacheBytes,
	}); len(errs) == 0 {
		t.Error("a budget and a cache pass Check")
	}
}
