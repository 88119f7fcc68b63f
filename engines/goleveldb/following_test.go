package goleveldb

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// While goleveldb writes, flushes and compacts, Gets ask for as many blocks as it counts, and find
// what it finds. Afterwards that is worked out for each at its moment, although most of those
// tables are gone.
func TestFollowing(t *testing.T) {
	const keys, steps, puts, gets = 10_000, 20, 900, 300
	const levelBlock = 4 << 10 // goleveldb's default
	o := engine.Options{
		Dir:        filepath.Join(t.TempDir(), "db"),
		Create:     true,
		Profile:    "geth-legacy",
		CacheBytes: 300_000,
		Overrides: map[string]string{
			"WriteBuffer":            "64KiB",
			"CompactionTableSize":    "64KiB",
			"CompactionTotalSize":    "128KiB",
			"DisableSeeksCompaction": "true",
		},
	}

	churned(t, o, keys)
	o.Create = false
	d := opened(t, o)
	known := map[string]bool{}
	following, err := blockbased.Follow(o.Dir, levelBlock, func() (paths []string, err error) {
		entries, err := os.ReadDir(o.Dir)
		for _, e := range entries {
			if path := filepath.Join(o.Dir, e.Name()); e.Name() == "CURRENT" || !known[path] {
				known[path] = true
				paths = append(paths, path)
			}
		}

		return paths, err
	})

	must(t, err)
	type get struct {
		step  int
		key   []byte
		found bool
	}

	var all []get
	var accesses [steps + 1]int64
	rng, value := rand.New(rand.NewPCG(7, 7)), make([]byte, 110)
	for step := 1; step <= steps; step++ {
		w, err := d.Writer()
		must(t, err)
		for n := range puts {
			if i := rng.Uint64N(keys); i%7 == 0 {
				must(t, w.Delete(key(i)))
			} else {
				must(t, w.Put(key(i), value))
			}

			if n%100 == 0 {
				must(t, w.Commit())
			}
		}

		must(t, w.Commit())
		if step%2 == 0 {
			must(t, d.Settle(t.Context(), nil))
			must(t, w.Put(key(1), value))
		} else {
			must(t, d.flush())
			for range 100 { // stay in memory
				must(t, w.Put(key(rng.Uint64N(keys)), value))
			}
		}

		must(t, w.Commit())
		must(t, w.Close())
		awaitLevels(t, d.leveldb, d.settings.translate(o))
		following.Poll(time.Duration(step))
		r, err := d.Reader()
		must(t, err)
		before := d.Counters()
		for range gets {
			k := key(rng.Uint64N(keys + keys/5))
			_, found, err := r.Get(k, nil)
			must(t, err)
			all = append(all, get{step, append([]byte(nil), k...), found})
		}

		c := d.Counters().Sub(before)
		accesses[step] = *c.CacheHits + *c.CacheMisses
		must(t, r.Close())
	}

	must(t, d.Close())
	source, err := following.Source([]string{""})
	must(t, err)
	walk := source.Walk()
	var numbers []uint32
	for _, g := range all {
		var found bool
		if numbers, found, err = walk.Get(lsmtail.AppendTime(append([]byte{0}, g.key...),
			time.Duration(g.step)), false, numbers); err != nil || found != g.found {
			t.Fatalf("step %d, key %x: found %v, goleveldb %v: %v", g.step, g.key, found, g.found,
				err)
		}

		accesses[g.step] -= int64(len(numbers))
	}

	for step, off := range accesses {
		if off != 0 {
			t.Errorf("step %d: goleveldb counts %d accesses more", step, off)
		}
	}

	gone := 0
	changes, _ := following.Changes(0, true)
	for _, c := range changes {
		if c.TableDeleted > 0 {
			gone++
		}
	}

	if gone < steps || len(following.TablesAdded()) < gone {
		t.Errorf("%d tables are gone", gone)
	}

	must(t, following.Close())
}
