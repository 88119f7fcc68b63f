package lsm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/statelab/statelab/result"
)

// The published databases were loaded in random order and settled: the level
// table worked out from their number of keys must be theirs.
func TestNaturalAgainstPublishedLevels(t *testing.T) {
	for _, c := range []struct {
		file string
		keys uint64
	}{
		{"small", 200_000_000},
		{"medium", 2_000_000_000},
		{"large", 20_000_000_000},
	} {
		sweep, err := result.ReadSweep("../../../studies/bench_kvdb/runs/published-" + c.file)
		if err != nil {
			t.Fatal(err)
		}

		published := sweep.Database.Levels
		natural := SteadyStateLevels(BenchKVDB(c.keys))
		base := true
		for level := 1; level < ModelLevels; level++ {
			have, want := natural[level], published[level]
			if want.Files == 0 {
				if have.Files != 0 {
					t.Errorf("%s: L%d should be empty", c.file, level)
				}
				continue
			}

			if have.IndexBytes >= have.IndexCacheBytes ||
				have.TopIndexBytes >= have.TopIndexCacheBytes {
				t.Errorf("%s L%d: indexes take as much on disk, where they are compressed, as in "+
					"the cache", c.file, level)
			}

			// The base level is compacted away as soon as it is full: it stands
			// somewhere below.
			limit := 0.05
			if base {
				limit = 0.16
			}

			base = false
			for _, f := range []struct {
				name       string
				have, want int64
				limit      float64
			}{
				{"keys", have.Keys, want.Keys, limit},
				{"data blocks", have.DataBlocks, want.DataBlocks, limit},
				{"index blocks", have.IndexBlocks, want.IndexBlocks, limit},
				// Pebble tells them before compression
				{"index bytes", have.IndexCacheBytes, want.IndexBytes, limit},
				{"filter bytes", have.FilterBytes, want.FilterBytes, limit},
				{"data bytes", have.DataBytes, want.DataBytes, limit},
				{"files", int64(have.Files), int64(want.Files), 0.25},
			} {
				if off := relative(float64(f.have), float64(f.want)); off > f.limit {
					t.Errorf("%s L%d %s: %d, published %d (%.1f %%)", c.file, level, f.name,
						f.have, f.want, 100*off)
				}
			}
		}
	}
}

func TestNaturalSmallDatabaseIsOneLevel(t *testing.T) {
	for _, keys := range []uint64{0, 1, 100, 100_000} {
		levels := SteadyStateLevels(BenchKVDB(keys))
		var total int64
		for _, l := range levels {
			total += l.Keys
			if l.Level != lastLevel && l.Files != 0 {
				t.Errorf("%d keys: L%d has %d files", keys, l.Level, l.Files)
			}
		}

		if total != int64(keys) {
			t.Errorf("%d keys: levels hold %d", keys, total)
		}
	}
}

// Shared prefixes and separators of sorted random keys, counted.
func TestHashedKeyLengths(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{20_000, 200_000, 2_000_000} {
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = random.Uint64()
		}

		slices.Sort(keys)
		var shared, separator float64
		for i := range n - 1 {
			s := 0
			for keys[i]>>(56-8*s) == keys[i+1]>>(56-8*s) {
				s++
			}

			shared += float64(s)
			separator += float64(s + 1)
			if keys[i]>>(56-8*s)+1 == keys[i+1]>>(56-8*s) {
				separator++
			}
		}

		if have, want := sharedBytes(float64(n)), shared/float64(n-1); math.Abs(have-want) > 0.01 {
			t.Errorf("%d keys share %.3f bytes, counted %.3f", n, have, want)
		}

		have, want := separatorBytes(float64(n)), separator/float64(n-1)
		if math.Abs(have-want) > 0.015 {
			t.Errorf("%d keys: separators of %.3f bytes, counted %.3f", n, have, want)
		}
	}
}

func TestWithCharge(t *testing.T) {
	levels := SteadyStateLevels(BenchKVDB(200_000_000))
	charged := WithCharge(levels, 336)
	last := lastLevel
	if have, want := charged[last].IndexCacheBytes-levels[last].IndexCacheBytes,
		336*levels[last].IndexBlocks; have != want {
		t.Errorf("index charge %d, want %d", have, want)
	}

	if have, want := charged[last].FilterCacheBytes-levels[last].FilterCacheBytes,
		336*int64(levels[last].Files); have != want {
		t.Errorf("filter charge %d, want %d", have, want)
	}
}

func relative(have, want float64) float64 {
	return max(have-want, want-have) / want
}
