package treetest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/statelab/statelab/engine/conformance"
	"github.com/statelab/statelab/tree"
)

func (s suite) testInfo(t *testing.T) {
	i := s.info
	if i.Name == "" || i.Version == "" || i.Route == "" || i.Licence == "" || i.RootRule == "" ||
		i.Durability == "" || i.History == "" {
		t.Errorf("incomplete: %+v", i)
	}

	if i.Has(tree.IsDurable) == i.Has(tree.IsVolatile) {
		t.Error("a tree is either durable or volatile")
	}

	if _, is := s.tree.(tree.Harvester); is != i.Has(tree.Harvests) {
		t.Errorf("a Harvester: %v, but the capabilities are %v", is, i.Capabilities)
	}

	if len(i.Profiles) == 0 {
		t.Error("no profile")
	}

	for _, p := range i.Profiles {
		if errs := s.tree.Check(tree.Options{
			Dir:     newDir(t),
			Profile: p.Name,
			Create:  true,
			Stores:  storeNames(),
		}); len(errs) > 0 {
			t.Errorf("profile %s: %v", p.Name, errs)
		}
	}
}

func (s suite) testCheck(t *testing.T) {
	for name, o := range map[string]tree.Options{
		"unknown profile":        {Profile: "no-such-profile"},
		"unknown override":       {Overrides: map[string]string{"no-such-option": "1"}},
		"negative cache":         {CacheNodes: -1},
		"negative budget":        {MemoryBytes: -1},
		"negative first version": {FirstVersion: -1},
		"no stores":              {Stores: []string{}},
		"a store without a name": {Stores: []string{"bank", ""}},
		"the same store twice":   {Stores: []string{"bank", "bank"}},
	} {
		o.Dir, o.Create = newDir(t), true
		if o.Stores == nil {
			o.Stores = storeNames()
		}

		if errs := s.tree.Check(o); len(errs) == 0 {
			t.Errorf("%s: passes Check", name)
		}

		if f, err := s.tree.Open(t.Context(), o); err == nil {
			t.Errorf("%s: opens", name)
			must(t, f.Close())
		}
	}
}

func (s suite) testChanges(t *testing.T) {
	f := s.create(t)
	if f.Version() != 0 {
		t.Errorf("a new forest is at version %d", f.Version())
	}

	set(t, f, bank, "a", "1")
	set(t, f, bank, "b", "2")
	set(t, f, wasm, "a", "")
	remove(t, f, staking, "absent")
	commit(t, f)
	expect(t, f, bank, "a", "1")
	expect(t, f, bank, "b", "2")
	expect(t, f, wasm, "a", "")
	expectMissing(t, f, wasm, "b")
	expectMissing(t, f, staking, "absent")
	expectMissing(t, f, empty, "a")
	expectLeaves(t, f, 2, 0, 0, 1)

	set(t, f, bank, "a", "3")
	remove(t, f, bank, "b")
	remove(t, f, wasm, "absent")
	set(t, f, wasm, "c", "5")
	remove(t, f, wasm, "c")
	remove(t, f, wasm, "a")
	set(t, f, wasm, "a", "6")
	commit(t, f)
	expect(t, f, bank, "a", "3")
	expectMissing(t, f, bank, "b")
	expectMissing(t, f, wasm, "c")
	expect(t, f, wasm, "a", "6")
	expectLeaves(t, f, 1, 0, 0, 1)
	if len(f.Effective()) == 0 {
		t.Error("no option is told")
	}
}

func (s suite) testBuffersAreTheCallers(t *testing.T) {
	f := s.create(t)
	key, value := []byte("key-0"), []byte("value-0")
	for i := byte('0'); i <= '9'; i++ {
		key[4], value[6] = i, i
		must(t, f.Set(bank, key, value))
		if i%3 == 0 {
			must(t, f.Remove(bank, key))
		}
	}

	roots := commit(t, f)
	clear(key)
	clear(value)
	kept := bytes.Clone(roots[bank])
	set(t, f, bank, "another", "x")
	commit(t, f)
	if !bytes.Equal(roots[bank], kept) {
		t.Error("a later commit changed the roots that an earlier one returned")
	}

	for i := byte('0'); i <= '9'; i++ {
		if i%3 == 0 {
			expectMissing(t, f, bank, "key-"+string(i))
		} else {
			expect(t, f, bank, "key-"+string(i), "value-"+string(i))
		}
	}

	r := reader(t, f)
	dst := make([]byte, 0, 64)
	got, _, err := r.Get(bank, []byte("key-1"), dst)
	must(t, err)
	if &got[0] != &dst[:1][0] {
		t.Error("Get does not use the buffer it is given")
	}

	clear(got)
	expect(t, f, bank, "key-1", "value-1")
}

// testEmptyStores: a store that never held anything and one that was emptied
// have the same root.
func (s suite) testEmptyStores(t *testing.T) {
	f := s.create(t)
	roots := commit(t, f)
	for store := range roots {
		if !bytes.Equal(roots[store], roots[empty]) {
			t.Errorf("%s has root %x before the first change, %s has %x", storeNames()[store],
				roots[store], storeNames()[empty], roots[empty])
		}
	}

	set(t, f, bank, "a", "1")
	if full := commit(t, f); bytes.Equal(full[bank], full[empty]) {
		t.Error("a store that holds a key has the root of an empty one")
	}

	remove(t, f, bank, "a")
	if emptied := commit(t, f); !sameRoots(emptied, roots) {
		t.Errorf("an emptied store has root %x, want %x", emptied[bank], roots[bank])
	}

	expectLeaves(t, f, 0, 0, 0, 0)
	set(t, f, bank, "a", "1")
	commit(t, f)
	expect(t, f, bank, "a", "1")
}

func (s suite) testEmptyVersions(t *testing.T) {
	f := s.create(t)
	commit(t, f)
	commit(t, f)
	set(t, f, bank, "a", "1")
	before := commit(t, f)
	if after := commit(t, f); !sameRoots(before, after) {
		t.Errorf("a version without changes moved the roots from %x to %x", before, after)
	}

	set(t, f, bank, "a", "1")
	if again := commit(t, f); s.info.RootRule == "iavl" && bytes.Equal(again[bank], before[bank]) {
		t.Error("the same value again made no leaf of the new version")
	}

	expectLeaves(t, f, 1, 0, 0, 0)
}

func (s suite) testFirstVersion(t *testing.T) {
	const first = 1000
	o := tree.Options{Dir: newDir(t), Create: true, Stores: storeNames(), FirstVersion: first}
	if errs := s.tree.Check(o); len(errs) > 0 {
		t.Skipf("starts at version 1 only: %v", errs)
	}

	f := s.open(t, o)
	set(t, f, bank, "a", "1")
	c, err := f.Commit(t.Context())
	must(t, err)
	must(t, complete(c, f, first))
	commit(t, f)
	expect(t, f, bank, "a", "1")
	must(t, f.Close())
	if s.info.Has(tree.IsVolatile) {
		return
	}

	o.Create = false
	f = s.open(t, o)
	if f.Version() != first+1 {
		t.Errorf("reopened at version %d, want %d", f.Version(), first+1)
	}

	commit(t, f)
	must(t, f.Close())
}

// testReadersSideBySide reads from several goroutines between commits.
func (s suite) testReadersSideBySide(t *testing.T) {
	f := s.create(t)
	for v, made := range stream()[:6] {
		must(t, write(f, made))
		commit(t, f)
		want := stateAt(int64(v) + 1)
		failed := make(chan error)
		const readers = 4
		for range readers {
			go func() { failed <- want.compare(f) }()
		}

		for range readers {
			if err := <-failed; err != nil {
				t.Errorf("version %d: %v", v+1, err)
			}
		}
	}
}

func (s suite) testCountersOnlyGrow(t *testing.T) {
	f := s.create(t)
	before := counted(f)
	if s.info.Has(tree.CountsReads) && before["db_gets"] == nil {
		t.Error("no lookups are told")
	}

	if s.info.Has(tree.CountsCache) &&
		(before["cache_hits"] == nil || before["cache_misses"] == nil) {
		t.Error("no cache hits and misses are told")
	}

	for v, made := range stream()[:9] {
		must(t, write(f, made))
		commit(t, f)
		after := counted(f)
		conformance.Grown(t, fmt.Sprint("version ", v+1), before, after)
		before = after
	}

	for name, minimum := range map[string]int64{"nodes": 2000, "db_sets": 1, "db_bytes": 100_000} {
		if n := before[name]; n != nil && *n < minimum {
			t.Errorf("%s is %d after %d changes", name, *n, firstChanges+8*laterChanges)
		}
	}
}

func counted(f tree.Forest) map[string]*int64 {
	c := f.Counters()
	return map[string]*int64{
		"nodes": c.Nodes, "cache_hits": c.CacheHits, "cache_misses": c.CacheMisses,
		"db_gets": c.DBGets, "db_sets": c.DBSets, "db_bytes": c.DBBytes, "log_hits": c.LogHits,
	}
}

// testCloseEndsAllWork closes forests that were left at rest by a Sync, forests that were not, and
// forests whose Sync was interrupted. The versions lie around 1000, where trees begin snapshots by
// default.
func (s suite) testCloseEndsAllWork(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, c := range []struct {
		name  string
		first int64
		sync  context.Context // nil: none
	}{
		{"Synced", 0, t.Context()}, {"NotSynced", 0, nil}, {"Interrupted", 0, interrupted},
		{"BehindASnapshot", 999, nil}, {"InterruptedBehindASnapshot", 999, interrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			conformance.CloseEndsAllWork(t, func(dir string) {
				o := tree.Options{
					Dir:          dir,
					Create:       true,
					Stores:       storeNames(),
					FirstVersion: c.first,
				}

				if errs := s.tree.Check(o); len(errs) > 0 {
					t.Skipf("starts at version 1 only: %v", errs)
				}

				f := s.open(t, o)
				for _, made := range stream()[:5] {
					must(t, write(f, made))
					_, err := f.Commit(t.Context())
					must(t, err)
				}

				if c.sync != nil {
					if err := f.Sync(c.sync); err != nil && c.sync.Err() == nil {
						t.Fatal(err)
					}
				}

				must(t, f.Close())
			})
		})
	}
}
