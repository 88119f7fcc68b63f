//go:build cgo

package rocksdb_test

import (
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/engines/rocksdb/familytest"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestResolvedRanges: deletions of ranges and merges, in tables of several levels and in a log that
// is written over an older one if RocksDB has given that up in time, are resolved as RocksDB counts
// them.
func TestResolvedRanges(t *testing.T) {
	const keys = 6000
	dir := filepath.Join(t.TempDir(), "db")
	if err := familytest.WriteRanges(dir, keys); err != nil {
		t.Fatal(err)
	}

	if missing := comparedRanges(t, dir, keys,
		open(t, engine.Options{Dir: dir})); missing < keys/10 || missing > keys*9/10 {
		t.Errorf("%d keys of %d are deleted", missing, keys)
	}

	// Open for writing, RocksDB counts accesses, when the log is in a table.
	o := engine.Options{
		Dir: dir,
		Overrides: map[string]string{
			"merge_operator":                "stringappend",
			"disable_auto_compactions":      "true",
			"cache_index_and_filter_blocks": "true",
		},
	}

	for range 2 {
		db, err := rocksdb.Engine{}.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}

		comparedRanges(t, dir, keys, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// comparedRanges gets all keys and some absent ones, and returns how many are missing.
func comparedRanges(t *testing.T, dir string, keys int, db engine.DB) (missing int) {
	t.Helper()
	resolver, err := blockbased.Open(dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}

	defer resolver.Close()
	reader, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	walk, numbers, value := resolver.Walk(), []uint32(nil), make([]byte, 0, 1<<10)
	before, said := db.Counters(), map[engine.BlockType]int64{}
	for i := range keys + 100 {
		key := familytest.PlainKey(i)
		_, found, err := reader.Get(key, value)
		if err != nil {
			t.Fatal(err)
		}

		var foundToo bool
		if numbers, foundToo, err = walk.Get(key, found, numbers); err != nil || found != foundToo {
			t.Fatalf("%s: found %v and %v: %v", key, found, foundToo, err)
		}

		if !found {
			missing++
		}

		for _, number := range numbers {
			b, err := resolver.Block(number)
			if err != nil {
				t.Fatal(err)
			}
			said[b.Type]++
		}
	}

	if counted := db.Counters().Sub(before).Accesses; counted != nil {
		for _, kind := range []engine.BlockType{engine.Data, engine.Filter} {
			if said[kind] != counted[kind] {
				t.Errorf("%d accesses of %s, RocksDB counts %d", said[kind], kind, counted[kind])
			}
		}

		if n := counted[engine.Index] + counted[engine.SingleIndex] +
			counted[engine.TopIndex]; said[engine.SingleIndex] != n {
			t.Errorf("%d accesses of indexes, RocksDB counts %d", said[engine.SingleIndex], n)
		}
	}

	t.Log(said, missing)
	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	return missing
}
