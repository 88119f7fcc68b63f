package enginetest

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/statelab/statelab/engine"
)

// testSampleKeys checks that sampled keys exist and are spread evenly: the
// numbers in them fall into equal buckets as chance allows.
func (s suite) testSampleKeys(t *testing.T) {
	const keys, samples, buckets = 50_000, 4000, 16
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
	if p := (distuv.ChiSquared{K: buckets - 1}).Survival(chi2); p < 1e-4 {
		t.Errorf("unevenly spread (p = %.2g): %v", p, count)
	}

	stop := errors.New("enough")
	if err := sampler.SampleKeys(t.Context(), 10, 5, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v, want the one of yield", err)
	}
}

// testBuildSorted builds a database from sorted entries and reads it.
func (s suite) testBuildSorted(t *testing.T) {
	const n = 20_000
	dir := newDir(t)
	db := s.open(t, engine.Options{Dir: dir, Create: true})
	builder, is := db.(engine.SortedBuilder)
	if !is {
		t.Fatal("the capability ingest without a SortedBuilder")
	}
	spec := engine.SortedSpec{Keys: n, KeyBytes: 8, ValueBytes: 110, Seed: 1, Workers: 2}
	must(t, builder.BuildSorted(t.Context(), spec, sortedEntries, func(uint64) {}))
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
