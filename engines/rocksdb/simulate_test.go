//go:build cgo

package rocksdb

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blocktable"
)

// TestSimulatedReads compares what a simulated cache reads with what RocksDB reads: blocks by type, at
// several sizes, with metadata outside and inside of the cache, pinned and in partitions.
func TestSimulatedReads(t *testing.T) {
	const n, warmup, gets = 30_000, 10_000, 10_000
	for name, set := range map[string]map[string]string{
		"outside": {"cache_index_and_filter_blocks": "false"},
		"inside":  {"cache_index_and_filter_blocks": "true"},
		"inside, low priority": {"cache_index_and_filter_blocks": "true", "cache_index_and_filter_blocks_with_high_priority": "false",
			"compression": "kNoCompression"},
		"partitions, top pinned": {"cache_index_and_filter_blocks": "true", "index_type": "kTwoLevelIndexSearch", "partition_filters": "true",
			"metadata_block_size": "1024", "pin_top_level_index_and_filter": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			set["write_buffer_size"], set["target_file_size_base"], set["max_bytes_for_level_base"] = "1048576", "262144", "1048576"
			o := engine.Options{Dir: filepath.Join(t.TempDir(), "db"), Create: true, CacheBytes: 1 << 20, Overrides: set}
			t.Run("write", func(t *testing.T) { fill(t, openAt(t, o), n) })
			o.Create, set["disable_auto_compactions"] = false, "true"
			for _, cacheBytes := range []int64{600_000, 1 << 20, 3 << 20} {
				o.CacheBytes = cacheBytes
				t.Run("read", func(t *testing.T) { simulatedReads(t, o, n, warmup, gets) })
			}
		})
	}
}

func simulatedReads(t *testing.T, o engine.Options, n uint64, warmup, gets int) {
	d := openAt(t, o)
	r := reading(t, d)
	resolver, err := blocktable.Open(o.Dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resolver.Close()
	trace := &cachesim.Trace{WarmupGets: warmup + 1, CacheKeys: resolver.CacheKeys()}
	touch := func(numbers []uint32) {
		trace.BeginGet()
		for _, number := range numbers {
			b, err := resolver.Block(number)
			if err == nil {
				err = trace.Touch(b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	touch(resolver.Opening())
	walk := resolver.Walk()
	rng := rand.New(rand.NewPCG(1, 2))
	var before engine.Counters
	var numbers []uint32
	dst := make([]byte, 0, 128)
	for i := range warmup + gets {
		if i == warmup {
			before = d.Counters()
		}
		key := keyOf(rng.Uint64N(n + n/10))
		_, found, err := r.Get(key, dst)
		if err != nil {
			t.Fatal(err)
		}
		if numbers, _, err = walk.Get(key, found, numbers); err != nil {
			t.Fatal(err)
		}
		touch(numbers)
	}
	c := d.Counters().Sub(before)
	points, err := cachesim.Curve(t.Context(), trace, cachesim.Setup{Policy: cachesim.PooledLRUPolicy, Cores: 1, HashSeed: blocktable.HostHashSeed()},
		[]int64{o.CacheBytes})
	if err != nil {
		t.Fatal(err)
	}
	p := points[0]
	indexes := func(n func(engine.BlockType) int64) int64 {
		return n(engine.Index) + n(engine.SingleIndex) + n(engine.TopIndex)
	}
	simulated := func(kind engine.BlockType) int64 { return p.Reads[kind] }
	measured := func(kind engine.BlockType) int64 { return c.Reads.Type(kind).Count }
	said := [3]int64{simulated(engine.Data), simulated(engine.Filter), indexes(simulated)}
	read := [3]int64{measured(engine.Data), measured(engine.Filter), indexes(measured)}
	all, allSaid := read[0]+read[1]+read[2], said[0]+said[1]+said[2]
	t.Logf("cache of %d: %v simulated, %v read", o.CacheBytes, said, read)
	// The allocator gives some blocks 16 bytes more than they need, now these and now those.
	if off := math.Abs(float64(allSaid-all)) / float64(max(1, all)); off > 0.005 {
		t.Errorf("cache of %d: reads of data, filters, indexes %v simulated, %v read: off by %.2f %%", o.CacheBytes, said, read, 100*off)
	}
}
