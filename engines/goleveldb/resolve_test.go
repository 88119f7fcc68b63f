package goleveldb

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

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
		filters, blockBytes, errs := Engine{}.ReadsTables(o)
		if len(errs) > 0 {
			t.Fatal(errs)
		}

		o.Overrides["CompactionL0Trigger"] = "100" // from here on nothing is compacted
		must(t, opened(t, o).Close())              // makes a table of the journal
		for _, cacheBytes := range []int64{300_000, 1 << 20, 3 << 20} {
			o.CacheBytes = cacheBytes
			d := opened(t, o)
			resolver, err := blockbased.OpenLevel(o.Dir, filters, blockBytes)
			must(t, err)
			r, err := d.Reader()
			must(t, err)
			walk, rng := resolver.Walk(), rand.New(rand.NewPCG(1, 2))
			trace := &cachesim.Trace{}
			var numbers []uint32
			before := d.Counters()
			for range 10_000 {
				i := rng.Uint64N(keys + keys/5)
				_, found, err := r.Get(key(i), nil)
				must(t, err)
				var foundToo bool
				if numbers, foundToo, err = walk.Get(key(i), found, numbers); err != nil ||
					found != foundToo {
					t.Fatalf("key %d: found %v and %v: %v", i, found, foundToo, err)
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
				t.Errorf("%s: %d accesses, goleveldb counts %d", profile, len(trace.Accesses),
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
					t.Errorf("%s, cache of %d: %d reads of %s simulated, %d read", profile,
						cacheBytes, points[0].Reads[kind], kind, read)
				}
			}

			t.Logf("%s, cache of %d: %d accesses, reads %v", profile, cacheBytes,
				len(trace.Accesses), points[0].Reads)
			must(t, r.Close())
			must(t, resolver.Close())
			must(t, d.Close())
		}
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
