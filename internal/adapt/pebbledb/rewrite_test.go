package pebbledb_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	v1 "github.com/cockroachdb/pebble"
	v2 "github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
)

// iterator is what both versions' have.
type iterator interface {
	First() bool
	Next() bool
	Key() []byte
	Value() []byte
	Error() error
}

// written is what both versions' databases have.
type written struct {
	set                   func(k, v []byte) error
	remove                func(k []byte) error
	flush, compact, close func() error
}

// TestRewrite rewrites databases that Pebble wrote through its own API, with keys that were deleted
// and written again, and compares what Pebble's own iterators find in both.
func TestRewrite(t *testing.T) {
	const keys = 40_000
	write := func(t *testing.T, open func(compactions bool) written) {
		db, random := open(true), rand.New(rand.NewPCG(1, 1))
		for round := range 6 {
			if round == 5 { // What comes now stays on level 0, and all before it is below.
				must(t, errors.Join(db.compact(), db.close()))
				db = open(false)
			}

			for range keys / 6 {
				k := fmt.Appendf(nil, "key-%08d", random.IntN(keys))
				var err error
				if round > 0 && random.IntN(5) == 0 {
					err = db.remove(k)
				} else {
					err = db.set(k, fmt.Appendf(nil, "%d %x", round, random.Uint64()))
				}

				must(t, err)
			}

			must(t, db.flush())
		}

		must(t, db.close())
	}

	first, last := []byte("key"), []byte("kez")
	read := func(t *testing.T, i iterator, err error, closed ...io.Closer) (all []string) {
		if err != nil {
			t.Fatal(err)
		}

		for more := i.First(); more; more = i.Next() {
			all = append(all, string(i.Key())+"="+string(i.Value()))
		}

		errs := []error{i.Error()}
		for _, c := range closed {
			errs = append(errs, c.Close())
		}

		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}

		return all
	}

	t.Run("pebble1", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "from")
		write(t, func(compactions bool) written {
			db, err := v1.Open(dir,
				&v1.Options{
					LBaseMaxBytes:               64 << 10,
					MemTableSize:                256 << 10,
					DisableAutomaticCompactions: !compactions,
				})

			must(t, err)
			return written{
				func(k, v []byte) error { return db.Set(k, v, v1.NoSync) },
				func(k []byte) error { return db.Delete(k, v1.NoSync) },
				db.Flush,
				func() error { return db.Compact(first, last, false) },
				db.Close,
			}
		})

		checkRewritten(t, pebble1.Engine{}, dir, func(dir string) []string {
			db, err := v1.Open(dir, &v1.Options{ReadOnly: true})
			must(t, err)
			i, err := db.NewIter(nil)
			return read(t, i, err, i, db)
		})
	})

	t.Run("pebble2", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "from")
		write(t, func(compactions bool) written {
			db, err := v2.Open(dir,
				&v2.Options{
					LBaseMaxBytes:               64 << 10,
					MemTableSize:                256 << 10,
					DisableAutomaticCompactions: !compactions,
				})

			must(t, err)
			return written{
				func(k, v []byte) error { return db.Set(k, v, v2.NoSync) },
				func(k []byte) error { return db.Delete(k, v2.NoSync) },
				db.Flush,
				func() error { return db.Compact(t.Context(), first, last, false) },
				db.Close,
			}
		})

		checkRewritten(t, pebble2.Engine{}, dir, func(dir string) []string {
			db, err := v2.Open(dir, &v2.Options{ReadOnly: true})
			must(t, err)
			i, err := db.NewIter(nil)
			return read(t, i, err, i, db)
		})
	})
}

func checkRewritten(t *testing.T, e engine.Engine, dir string, all func(dir string) []string) {
	want := all(dir)
	from, err := e.Open(t.Context(), engine.Options{Dir: dir, Foreign: true, ReadOnly: true})
	must(t, err)
	other := filepath.Join(t.TempDir(), "to")
	to, err := e.Open(t.Context(), engine.Options{
		Dir:    other,
		Create: true,
		Overrides: map[string]string{"BlockSize": "16KiB",
			"DisableAutomaticCompactions": "true"},
	})

	must(t, err)
	must(t, to.(engine.Rewriter).Rewrite(t.Context(), from, func(int, int) {}))
	before, err := from.Shape()
	must(t, err)
	after, err := to.Shape()
	must(t, err)
	must(t, errors.Join(from.Close(), to.Close()))
	if have := all(other); len(have) != len(want) {
		t.Fatalf("%d keys, rewritten %d", len(want), len(have))
	} else {
		for i := range want {
			if have[i] != want[i] {
				t.Fatalf("%s, rewritten %s", want[i], have[i])
			}
		}
	}

	if len(before.Levels) < 2 || before.Levels[0].Level != 0 ||
		len(before.Levels) != len(after.Levels) {
		t.Fatalf("levels %+v, rewritten %+v", before.Levels, after.Levels)
	}

	for i, l := range before.Levels {
		if now := after.Levels[i]; l.Level != now.Level || l.Files != now.Files ||
			l.Keys != now.Keys || l.DataBlocks < 3*now.DataBlocks {
			t.Errorf("level %+v, rewritten %+v", l, now)
		}
	}
}
