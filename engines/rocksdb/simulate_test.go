//go:build cgo

package rocksdb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestSimulatedReads compares what a simulated cache reads with what RocksDB reads: blocks by type,
// at five sizes of each kind of cache, with metadata outside and inside of the cache, pinned and in
// partitions.
func TestSimulatedReads(t *testing.T) {
	const n, warmup, gets = 30_000, 8_000, 8_000
	for name, set := range map[string]map[string]string{
		"outside": {"cache_index_and_filter_blocks": "false"},
		"inside":  {"cache_index_and_filter_blocks": "true"},
		"inside, low priority": {
			"cache_index_and_filter_blocks":                    "true",
			"cache_index_and_filter_blocks_with_high_priority": "false",
			"compression": "kNoCompression",
		},
		"partitions, top pinned": {
			"cache_index_and_filter_blocks":  "true",
			"index_type":                     "kTwoLevelIndexSearch",
			"partition_filters":              "true",
			"metadata_block_size":            "1024",
			"pin_top_level_index_and_filter": "true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			set["write_buffer_size"] = "1048576"
			set["target_file_size_base"] = "262144"
			set["max_bytes_for_level_base"] = "1048576"
			o := engine.Options{
				Dir:        filepath.Join(t.TempDir(), "db"),
				Create:     true,
				CacheBytes: 1 << 20,
				Overrides:  set,
			}

			t.Run("write", func(t *testing.T) { fill(t, openAt(t, o), n) })
			o.Create, set["disable_auto_compactions"] = false, "true"
			for _, kind := range []string{"lru", "hyper-clock", "hyper-clock:2048"} {
				// whose HyperClockCache is another
				if old := strings.HasPrefix(Engine{}.Info().Version, "7."); kind != "lru" && old {
					continue
				}

				if kind != "lru" && name != "inside" &&
					(name != "partitions, top pinned" || kind != "hyper-clock") {
					continue
				}

				var said, read int64
				for _, cacheBytes := range []int64{300_000, 600_000, 1 << 20, 2 << 20, 3 << 20} {
					o.CacheBytes, set[cacheOption] = cacheBytes, kind
					t.Run(fmt.Sprintf("%s of %d", kind, cacheBytes), func(t *testing.T) {
						s, r := simulatedReads(t, o, n, warmup, gets)
						said, read = said+s, read+r
					})
				}

				t.Logf("%s: %d reads simulated, %d read", kind, said, read)
				if off := math.Abs(float64(said)/float64(read) - 1); off > 0.004 {
					t.Errorf("%s: %d reads simulated, %d read, off by %.2f %%", kind, said, read,
						100*off)
				}
			}
		})
	}
}

func simulatedReads(t *testing.T, o engine.Options, n uint64, warmup, gets int) (said, read int64) {
	d := openAt(t, o)
	r := reading(t, d)
	resolver, err := blockbased.Open(o.Dir, "", nil)
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
	policy, entryBytes, err := cachesim.ParseRocksCache(o.Overrides[cacheOption])
	if err != nil {
		t.Fatal(err)
	}

	setup := cachesim.Setup{Policy: policy, EntryBytes: entryBytes, Cores: 1}
	setup.HashSeed, setup.Before83 = blockbased.CacheOf(Engine{}.Info().Version)
	points, err := cachesim.Curve(t.Context(), trace, setup, []int64{o.CacheBytes})
	if err != nil {
		t.Fatal(err)
	}

	p := points[0]
	indexes := func(n func(engine.BlockType) int64) int64 {
		return n(engine.Index) + n(engine.SingleIndex) + n(engine.TopIndex)
	}
	simulated := func(kind engine.BlockType) int64 { return p.Reads[kind] }
	measured := func(kind engine.BlockType) int64 { return c.Reads.Type(kind).Count }
	saidOf := [3]int64{simulated(engine.Data), simulated(engine.Filter), indexes(simulated)}
	readOf := [3]int64{measured(engine.Data), measured(engine.Filter), indexes(measured)}
	said, read = saidOf[0]+saidOf[1]+saidOf[2], readOf[0]+readOf[1]+readOf[2]
	t.Logf("%v simulated, %v read, %d bytes and %d", saidOf, readOf, p.UsedBytesAtEnd,
		*d.Counters().CacheUsedBytes)
	// The allocator gives some blocks 16 bytes more than they need, now these and now those. Which
	// blocks are evicted then differs, and few reads scatter as a count does; the sum over the
	// sizes is held to less.
	most := max(0.01, 1/math.Sqrt(float64(max(1, read))))
	if off := math.Abs(float64(said-read)) / float64(max(1, read)); off > most {
		t.Errorf("cache of %d: reads of data, filters, indexes %v simulated, %v read: off by "+
			"%.2f %%", o.CacheBytes, saidOf, readOf, 100*off)
	}

	return said, read
}
