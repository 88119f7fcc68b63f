package goleveldb

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/statelab/statelab/engine"
)

// TestRewrite rewrites a database that goleveldb wrote through its own API, with keys that were
// deleted and written again, and compares what goleveldb's own iterator, Gets and list of levels
// say of both.
func TestRewrite(t *testing.T) {
	const keys = 40_000
	dir, other := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	own, err := leveldb.OpenFile(dir,
		&opt.Options{
			WriteBuffer:         128 << 10,
			CompactionTableSize: 64 << 10,
			CompactionTotalSize: 32 << 10,
			Filter:              filter.NewBloomFilter(10),
		})

	must(t, err)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 2 * keys {
		k := fmt.Appendf(nil, "key-%08d", random.IntN(keys))
		if i > keys && random.IntN(5) == 0 {
			must(t, own.Delete(k, nil))
		} else {
			must(t, own.Put(k, fmt.Appendf(nil, "%d %x", i, random.Uint64()), nil))
		}
	}

	flushed, err := own.OpenTransaction()
	must(t, err)
	flushed.Discard()
	must(t, own.Close())

	from, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true, ReadOnly: true})
	must(t, err)
	options, err := from.(engine.Rewriter).RewriteOptions()
	must(t, err)
	options["BlockSize"], options["BloomBitsPerKey"] = "16KiB", "16"
	to, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:       other,
		Create:    true,
		Overrides: options,
	})

	must(t, err)
	must(t, to.(engine.Rewriter).Rewrite(t.Context(), from, func(int, int) {}))
	before, err := from.Shape()
	must(t, err)
	after, err := to.Shape()
	must(t, err)
	r, err := to.Reader() // of the database that was reopened
	must(t, err)
	if _, _, err := r.Get([]byte("key-00000001"), nil); err != nil {
		t.Error(err)
	}

	must(t, r.Close())
	must(t, from.Close())
	must(t, to.Close())
	if len(before.Levels) < 2 || after.Files != before.Files ||
		len(after.Levels) != len(before.Levels) {
		t.Fatalf("%+v, rewritten %+v", before, after)
	}

	for i, l := range before.Levels {
		if a := after.Levels[i]; a.Files != l.Files ||
			l.Files > 0 && (a.DataBlocks >= l.DataBlocks || a.FilterBytes <= l.FilterBytes) {
			t.Errorf("level %+v, rewritten %+v", l, a)
		}
	}

	if diff := cmp.Diff(everything(t, dir), everything(t, other)); diff != "" {
		t.Error(diff)
	}
}

// everything is what goleveldb itself finds in a database: by an iterator, by a Get of each key,
// and in its levels.
func everything(t *testing.T, dir string) (all []string) {
	t.Helper()
	db, err := leveldb.OpenFile(dir,
		&opt.Options{ReadOnly: true, Filter: filter.NewBloomFilter(10)})
	must(t, err)
	i := db.NewIterator(nil, nil)
	for i.Next() {
		all = append(all, string(i.Key())+"="+string(i.Value()))
		if value, err := db.Get(i.Key(), nil); err != nil || string(value) != string(i.Value()) {
			t.Fatalf("Get %s: %q, the iterator has %q: %v", i.Key(), value, i.Value(), err)
		}
	}

	must(t, i.Error())
	i.Release()
	var stats leveldb.DBStats
	must(t, db.Stats(&stats))
	must(t, db.Close())
	return append(all, fmt.Sprint(stats.LevelTablesCounts))
}
