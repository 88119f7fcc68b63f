//go:build cgo

package rocksdb

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/predict"
)

// TestProfilesAreInForce: RocksDB's own OPTIONS file of a new database says what its profile does,
// as RocksDB takes it.
func TestProfilesAreInForce(t *testing.T) {
	for _, p := range rocksoptions.Profiles() {
		d := create(t, engine.Options{Profile: p.Name})
		_, sections, err := optionsfile.Read(d.settings.dir)
		if err != nil {
			t.Fatal(err)
		}

		have := map[string]string{}
		for _, s := range sections {
			if s.Name == "" || s.Name == defaultFamily {
				for name, value := range s.Values {
					have[name] = value
				}
			}
		}

		for name, want := range rocksoptions.Sanitize(p.Settings.All(nil)) {
			if !rocksoptions.Same(name, have[name], want) {
				t.Errorf("%s: %s=%s in RocksDB's OPTIONS file, %s in the profile", p.Name, name,
					have[name], want)
			}
		}
	}
}

// TestPredictedReads: levels and reads that follow from the number of keys and the options alone,
// compared with a database that RocksDB wrote and its own counters.
func TestPredictedReads(t *testing.T) {
	const keys, gets = 150_000, 30_000
	for i, c := range []struct {
		profile string
		set     map[string]string
		caches  []int64 // above what filters and indexes take, but for the first one
		within  []float64
	}{
		{
			"default",
			map[string]string{"write_buffer_size": "4194304", "target_file_size_base": "2097152"},
			[]int64{1 << 20, 8 << 20},
			[]float64{0.02, 0.02},
		},
		{
			"partitioned",
			map[string]string{"write_buffer_size": "4194304", "target_file_size_base": "2097152"},
			[]int64{256 << 10, 2 << 20, 8 << 20},
			[]float64{0.08, 0.02, 0.02},
		},
		// One shard in which a few of the whole filters and indexes fit: the order of a Get's
		// accesses decides.
		{
			"monolithic",
			map[string]string{"write_buffer_size": "4194304", "target_file_size_base": "2097152"},
			[]int64{64 << 10, 128 << 10, 8 << 20},
			[]float64{0.02, 0.02, 0.02},
		},
		// Levels of fixed sizes: which tables they give to the next one decides how much they span.
		{
			"partitioned",
			map[string]string{
				"level_compaction_dynamic_level_bytes": "false",
				"write_buffer_size":                    "1048576",
				"target_file_size_base":                "524288",
				"max_bytes_for_level_base":             "2097152",
				"max_bytes_for_level_multiplier":       "4",
			},
			[]int64{256 << 10, 512 << 10, 2 << 20, 8 << 20},
			[]float64{0.04, 0.03, 0.03, 0.03},
		},
		{
			"ethrex-2026.06",
			map[string]string{"write_buffer_size": "2097152", "target_file_size_base": "524288"},
			[]int64{4 << 20, 8 << 20},
			[]float64{0.02, 0.02},
		},
		{
			"nethermind-1.39-storage",
			map[string]string{"write_buffer_size": "2097152", "target_file_size_base": "2097152"},
			[]int64{1 << 20, 8 << 20},
			[]float64{0.02, 0.02},
		},
		{
			"monolithic",
			map[string]string{
				"level_compaction_dynamic_level_bytes": "false",
				"write_buffer_size":                    "524288",
				"target_file_size_base":                "524288",
				"max_bytes_for_level_base":             "4194304",
				"optimize_filters_for_hits":            "true",
			},
			[]int64{256 << 10, 2 << 20, 8 << 20},
			[]float64{0.05, 0.03, 0.03},
		},
	} {
		// one shard, and levels of fixed sizes: the long form has all
		if testing.Short() && i != 2 && i != 3 {
			continue
		}

		t.Run(c.profile, func(t *testing.T) {
			o := engine.Options{
				Profile:   c.profile,
				Overrides: c.set,
				Dir:       filepath.Join(t.TempDir(), "db"),
				Create:    true,
			}

			opened, err := Engine{}.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}

			d := opened.(*db)
			fillInSteps(t, d, keys)
			shape, err := d.Shape()
			if err = errors.Join(err, d.Close()); err != nil {
				t.Fatal(err)
			}

			o.Create = false
			layout, err := rocksoptions.Find(c.profile)
			if err != nil {
				t.Fatal(err)
			}

			load, reads, err := rocksoptions.ModelFromOptions(layout.All(c.set))
			if err != nil {
				t.Fatal(err)
			}

			load.Keys, load.KeyBytes, load.ValueBytes = keys, keyBytes, valueBytes
			in := predict.Input{
				Levels:     load.Levels(),
				Blocks:     reads,
				Cores:      1,
				WarmupGets: gets,
				Gets:       gets,
				Seeds:      []uint64{1},
				CacheBytes: c.caches,
			}

			// by memtables, of which those of 1 MiB hold fewer keys than computed
			sizedLevels := c.set["level_compaction_dynamic_level_bytes"] == "false"
			for _, l := range shape.Levels {
				p := in.Levels[l.Level]
				t.Logf("L%d: %d files and %d keys predicted, %.2f outside; %d, %d, %.2f there",
					l.Level, p.Files, p.Keys, p.Outside, l.Files, l.Keys, l.Outside)
				near := func(what string, have, want int64, within float64) {
					if math.Abs(float64(have)/float64(want)-1) > within && !sizedLevels {
						t.Errorf("L%d: %d %s predicted, %d there", l.Level, have, what, want)
					}
				}

				// memtables as small as these are flushed some hundred keys earlier or later
				near("keys", p.Keys, l.Keys, 0.08)
				near("data blocks", p.DataBlocks, l.DataBlocks, 0.08)
				near("bytes of filters", p.FilterBytes, l.FilterBytes, 0.08)
				// offsets in small tables are shorter
				near("bytes of indexes", p.IndexBytes, l.IndexBytes, 0.15)
			}

			points, err := predict.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}

			for i, cacheBytes := range c.caches {
				measured := readsOf(t, o, cacheBytes, keys, gets)
				off := points[i].BlockReadsPerGet/measured - 1
				t.Logf("%d KiB: %.4f block reads per Get predicted, %.4f measured (%+.2f %%)",
					cacheBytes>>10, points[i].BlockReadsPerGet, measured, 100*off)
				if math.Abs(off) > c.within[i] {
					t.Errorf("%d KiB: off by %.1f %%", cacheBytes>>10, 100*off)
				}
			}
		})
	}
}

// readsOf are block reads of a Get by RocksDB's counters, after as many Gets.
func readsOf(t *testing.T, o engine.Options, cacheBytes int64, keys uint64, gets int) float64 {
	o.CacheBytes = cacheBytes
	opened, err := Engine{}.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}

	d := opened.(*db)
	defer d.Close()
	r, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}

	defer r.Close()
	rng := rand.New(rand.NewPCG(uint64(cacheBytes), 1))
	var value []byte
	var before engine.Counters
	for i := range 2 * gets {
		if i == gets {
			before = d.Counters()
		}

		var found bool
		if value, found, err = r.Get(keyOf(rng.Uint64N(keys)), value); err != nil || !found {
			t.Fatal(found, err)
		}
	}

	return float64(d.Counters().Sub(before).Reads.Total().Count) / float64(gets)
}
