//go:build cgo

package rocksdb_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/engines/rocksdb/familytest"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestMixInOneCache: two families that share a cache, three Gets of ten for the one, read as many
// blocks as the simulated cache.
func TestMixInOneCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if err := familytest.Write(t.Context(), dir, familyKeys); err != nil {
		t.Fatal(err)
	}

	var members []*blockbased.Resolver
	for _, name := range []string{familytest.Accounts, familytest.Storage} {
		r, err := blockbased.Open(dir, name, nil)
		if err != nil {
			t.Fatal(err)
		}

		defer r.Close()
		members = append(members, r)
	}

	mix := blockbased.NewMix(members...)
	for _, c := range []struct {
		bytes int64
		kind  string
	}{{1 << 20, "lru"}, {4 << 20, "lru"}, {4 << 20, "hyper-clock"}} {
		cacheBytes := c.bytes
		db := open(t, engine.Options{
			Dir:        dir,
			CacheBytes: cacheBytes,
			Overrides:  map[string]string{"table": "accounts=3;storage=7", "cache-kind": c.kind},
		})

		reader, err := db.Reader()
		if err != nil {
			t.Fatal(err)
		}

		const warmup, gets = 20_000, 20_000
		trace := &cachesim.Trace{WarmupGets: warmup + 1, CacheKeys: mix.CacheKeys()}
		touch := func(numbers []uint32) {
			trace.BeginGet()
			for _, number := range numbers {
				b, err := mix.Block(number)
				if err == nil {
					err = trace.Touch(b)
				}

				if err != nil {
					t.Fatal(err)
				}
			}
		}

		touch(mix.Opening())
		walk, rng := mix.Walk(), rand.New(rand.NewPCG(3, 3))
		var before engine.Counters
		var numbers []uint32
		var value []byte
		for i := range warmup + gets {
			if i == warmup {
				before = db.Counters()
			}

			key := []byte{0}
			if rng.Float64() < 0.7 {
				key[0] = 1
			}

			key = append(key, familytest.Key(rng.Uint64N(familyKeys))...)
			found, foundToo := false, false
			if value, found, err = reader.Get(key, value); err != nil || !found {
				t.Fatal(found, err)
			}

			if numbers, foundToo, err = walk.Get(key, false, numbers); err != nil || !foundToo {
				t.Fatal(foundToo, err)
			}

			touch(numbers)
		}

		measured := float64(db.Counters().Sub(before).Reads.Total().Count) / gets
		policy, _, err := cachesim.ParseRocksCache(c.kind)
		if err != nil {
			t.Fatal(err)
		}

		setup := cachesim.Setup{Policy: policy, Cores: 1}
		setup.HashSeed, setup.Before83 = blockbased.CacheOf(rocksdb.Engine{}.Info().Version)
		points, err := cachesim.Curve(t.Context(), trace, setup, []int64{cacheBytes})
		if err != nil {
			t.Fatal(err)
		}

		simulated := points[0].BlockReadsPerGet()
		t.Logf("cache of %d: %.4f block reads per Get simulated, %.4f measured", cacheBytes,
			simulated, measured)
		if math.Abs(simulated/measured-1) > 0.005 {
			t.Errorf("cache of %d: %.4f block reads per Get simulated, %.4f measured", cacheBytes,
				simulated, measured)
		}

		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
}
