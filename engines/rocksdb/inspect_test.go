//go:build cgo

package rocksdb

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
)

// TestInspectedGets: what Gets are said to read with an empty cache, blocks by type and bytes, is
// what RocksDB reads with a cache that nothing fits into; the sizes of filters are those that
// RocksDB's properties have.
func TestInspectedGets(t *testing.T) {
	const n, gets = 30_000, 5_000
	for _, profile := range []string{"monolithic", "partitioned"} {
		t.Run(profile, func(t *testing.T) {
			o := engine.Options{
				Dir:        filepath.Join(t.TempDir(), "db"),
				Create:     true,
				Profile:    profile,
				CacheBytes: 1 << 20,
				Overrides: map[string]string{
					"pin_top_level_index_and_filter": "false",
					"compression":                    "kZSTD",
				},
			}

			t.Run("write", func(t *testing.T) { fill(t, openAt(t, o), n) })
			o.Create, o.CacheBytes = false, 1
			d := openAt(t, o)
			shape, err := d.Shape()
			if err != nil {
				t.Fatal(err)
			}

			filterBytes := shape.Levels[0].FilterBytes
			cost, _, err := curve.Inspect(t.Context(), o.Dir, "rocksdb", wantVersion, "",
				shape.Levels, gets)
			if err != nil || cost == nil {
				t.Fatal(cost, err)
			}

			if l := shape.Levels[0]; profile == "monolithic" && l.FilterBytes != filterBytes+5 ||
				l.FilterCacheBytes < filterBytes || !l.InCacheKnown {
				t.Errorf("filters take %d bytes and %d in a cache, RocksDB counts %d",
					l.FilterBytes, l.FilterCacheBytes, filterBytes)
			}

			r, rng := reading(t, d), rand.New(rand.NewPCG(4, 4))
			for name, said := range map[string]map[string]curve.PerGet{
				"present": cost.Present,
				"absent":  cost.Absent,
			} {
				before, dst := d.Counters(), make([]byte, 0, 256)
				for range gets {
					key := keyOf(rng.Uint64N(n))
					if name == "absent" {
						for i := len(key) / 2; i < len(key); i++ {
							key[i] = byte(rng.Uint32())
						}
					}

					if _, found, err := r.Get(key,
						dst); err != nil || found != (name == "present") {
						t.Fatal(found, err)
					}
				}

				c := d.Counters().Sub(before)
				near := func(what string, said, counted float64) {
					t.Logf("%s: %s: %.4g said, %.4g counted", name, what, said, counted)
					if math.Abs(said-counted) > 0.02*counted+0.02 {
						t.Errorf("%s: %s per Get: %.4g said, RocksDB counts %.4g", name, what,
							said, counted)
					}
				}

				near(
					"filters",
					said["filter"].Reads,
					float64(c.Reads.Type(engine.Filter).Count)/gets,
				)

				near("data", said["data"].Reads, float64(c.Reads.Type(engine.Data).Count)/gets)
				near("all", said["all"].Reads, float64(c.Reads.Total().Count)/gets)
				near("KiB", said["all"].Bytes/1024, float64(c.Reads.Total().Bytes)/gets/1024)
			}
		})
	}
}
