package goleveldb

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestResolvedGets compares the blocks that Gets are said to ask for, and what a simulated cache
// reads of them, with goleveldb's own counters and with the reads of its files.
func TestResolvedGets(t *testing.T) {
	for _, profile := range []string{"default", "geth-legacy"} {
		if profile == "default" && !testring.All() {
			continue // as the other, without filters
		}

		o := engine.Options{
			Dir:     filepath.Join(t.TempDir(), "db"),
			Create:  true,
			Profile: profile,
			Overrides: map[string]string{
				"WriteBuffer":            "256KiB",
				"CompactionTableSize":    "128KiB",
				"CompactionTotalSize":    "256KiB",
				"DisableSeeksCompaction": "true",
			},
		}

		const keys = 30_000
		churned(t, o, keys)
		o.Create = false
		o.Overrides["CompactionL0Trigger"] = "100" // from here on nothing is compacted
		must(t, opened(t, o).Close())              // makes a table of the journal
		getsAgree(t, o, keys, 300_000, 1<<20, 3<<20)
	}
}

// TestResolvedFewFiles is TestResolvedGets with shapes of few files, which small databases have:
// nothing but a memtable, level 0 alone with files that overlap, a level of one file. A filter of a
// file in level 0 can pass a key that is in another one.
func TestResolvedFewFiles(t *testing.T) {
	for _, shape := range []struct {
		name      string
		files     []int // in percent of the keys, each flushed on its own into level 0
		compacted bool
		inLog     int // percent of the keys that are in no file
	}{
		{name: "a memtable", inLog: 100},
		{name: "one file in L0", files: []int{100}},
		{name: "two in L0", files: []int{50, 50}},
		{name: "a large and a small one in L0", files: []int{90, 10}},
		{name: "a small and a large one in L0", files: []int{10, 90}},
		{name: "seven in L0", files: []int{40, 30, 10, 5, 5, 5, 5}},
		{name: "three in L0 of the same keys", files: []int{100, 100, 100}},
		{name: "one file of a level", files: []int{50, 50}, compacted: true},
		{name: "one in L0, a memtable", files: []int{80}, inLog: 20},
	} {
		for _, profile := range []string{"default", "geth-legacy"} {
			t.Run(shape.name+", "+profile, func(t *testing.T) {
				const keys = 6000
				o := engine.Options{
					Dir:     filepath.Join(t.TempDir(), "db"),
					Create:  true,
					Profile: profile,
					Overrides: map[string]string{
						"WriteBuffer":            "64MiB",
						"CompactionTableSize":    "64MiB",
						"CompactionL0Trigger":    "100",
						"DisableSeeksCompaction": "true",
					},
				}

				next := uint64(0)
				write := func(percent int) {
					next %= keys // all are written: from here on again
					d := opened(t, o)
					w, err := d.Writer()
					must(t, err)
					for to := next + uint64(percent)*keys/100; next < to; next++ {
						must(t, w.Put(key(next), make([]byte, 110)))
					}

					must(t, w.Commit())
					must(t, w.Close())
					must(t, d.Close())
					o.Create = false
				}

				for _, percent := range shape.files {
					write(percent)
					d := opened(t, o) // makes a table of the journal
					if shape.compacted {
						must(t, d.leveldb.CompactRange(util.Range{}))
					}
					must(t, d.Close())
				}

				if shape.inLog > 0 {
					write(shape.inLog)
				}

				files := len(shape.files)
				if shape.compacted {
					files = 1
				}

				o.ReadOnly = true // leaves the journal as it is
				d := opened(t, o)
				tables, err := d.tables()
				must(t, err)
				must(t, d.Close())
				if len(tables) != files {
					t.Fatalf("%d files, want %d", len(tables), files)
				}

				for _, table := range tables {
					if table.Level > 0 != shape.compacted {
						t.Errorf("a file in L%d", table.Level)
					}
				}

				getsAgree(t, o, keys, 100_000)
			})
		}
	}
}

const resolvedGets = 10_000

// getsAgree compares the blocks that Gets are said to ask for, and what simulated caches of these
// sizes read of them, with goleveldb's own counters. Keys 0 to keys-1 may be in the database, and
// every sixth that is asked for is not.
func getsAgree(t *testing.T, o engine.Options, keys uint64, caches ...int64) {
	t.Helper()
	filters, blockBytes, errs := Engine{}.ReadsTables(o)
	if len(errs) > 0 {
		t.Fatal(errs)
	}

	for _, cacheBytes := range caches {
		o.CacheBytes = cacheBytes
		d := opened(t, o)
		resolver, err := blockbased.OpenLevel(o.Dir, filters, blockBytes)
		must(t, err)
		r, err := d.Reader()
		must(t, err)
		walk, rng := resolver.Walk(), rand.New(rand.NewPCG(1, 2))
		trace := &cachesim.Trace{}
		var numbers []uint32
		finds, before := 0, d.Counters()
		for range resolvedGets {
			i := rng.Uint64N(keys + keys/5)
			_, found, err := r.Get(key(i), nil)
			must(t, err)
			var foundToo bool
			if numbers, foundToo, err = walk.Get(key(i), found, numbers); err != nil ||
				found != foundToo {
				t.Fatalf("key %d: found %v and %v: %v", i, found, foundToo, err)
			}

			if found {
				finds++
			}

			trace.BeginGet()
			for _, number := range numbers {
				b, err := resolver.Block(number)
				must(t, err)
				must(t, trace.Touch(b))
			}
		}

		c := d.Counters().Sub(before)
		if counted := *c.CacheHits + *c.CacheMisses; counted != int64(len(trace.Accesses)) {
			t.Errorf("%s: %d accesses, goleveldb counts %d", o.Profile, len(trace.Accesses),
				counted)
		}

		points, err := cachesim.Curve(
			t.Context(),
			trace,
			cachesim.Setup{Policy: cachesim.LRUPolicy, Cores: 1},
			[]int64{cacheBytes},
		)

		must(t, err)
		kinds := []engine.BlockType{engine.Data, engine.Filter, engine.SingleIndex}
		for _, kind := range kinds {
			if read := c.Reads.Type(kind).Count; read != points[0].Reads[kind] {
				t.Errorf("%s, cache of %d: %d reads of %s simulated, %d read", o.Profile,
					cacheBytes, points[0].Reads[kind], kind, read)
			}
		}

		t.Logf("%s, cache of %d: %d found, %d accesses, reads %v", o.Profile, cacheBytes, finds,
			len(trace.Accesses), points[0].Reads)
		must(t, r.Close())
		must(t, resolver.Close())
		must(t, d.Close())
	}
}

// churned makes a database some of whose keys were written again or deleted last.
func churned(t *testing.T, o engine.Options, keys uint64) {
	d := opened(t, o)
	w, err := d.Writer()
	must(t, err)
	rng, value := rand.NewChaCha8([32]byte{}), make([]byte, 110)
	put := func(i uint64) {
		rng.Read(value)
		must(t, w.Put(key(i), value))
		if i%1000 == 0 {
			must(t, w.Commit())
		}
	}

	for i := range keys {
		put(i)
	}

	must(t, w.Commit())
	must(t, d.Settle(t.Context(), nil))
	for i := uint64(0); i < keys; i += 40 {
		if i%80 == 0 {
			must(t, w.Delete(key(i)))
		} else {
			put(i)
		}
	}

	must(t, w.Commit())
	must(t, w.Close())
	must(t, d.Close())
}
