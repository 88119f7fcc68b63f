//go:build cgo

package rocksdb

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/inspect"
)

const lintKeys, lintCache = 60_000, 512 << 10

// lintOptions make three levels of few keys.
func lintOptions(more map[string]string) map[string]string {
	o := map[string]string{
		"write_buffer_size":        "262144",
		"max_bytes_for_level_base": "1048576",
		"target_file_size_base":    "262144",
	}
	maps.Copy(o, more)
	return o
}

// twice is a folder in which RocksDB wrote keys with options, and then few again with later ones;
// nil: once.
func twice(t *testing.T, profile string, options, later map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	write := func(o engine.Options, to uint64) {
		opened, err := Engine{}.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}

		fillInSteps(t, opened.(*db), to)
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}

	write(
		engine.Options{Dir: dir, Create: true, Profile: profile, Overrides: lintOptions(options)},
		lintKeys,
	)

	if later != nil {
		later = maps.Clone(later)
		later["disable_auto_compactions"] = "true" // the tables stay
		write(engine.Options{Dir: dir, Profile: profile, Overrides: lintOptions(later)}, 100)
	}

	return dir
}

// lintOf are the findings about a database.
func lintOf(t *testing.T, dir string, cacheBytes int64) []inspect.Finding {
	t.Helper()
	opened, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:      dir,
		ReadOnly: true,
		Foreign:  true,
	})
	if err != nil {
		t.Fatal(err)
	}

	shape, err := opened.(*db).Shape()
	if err = errors.Join(err, opened.Close()); err != nil {
		t.Fatal(err)
	}

	if _, _, err := curve.Inspect(t.Context(), dir, "rocksdb", Engine{}.Info().Version, "",
		shape.Levels, 0); err != nil {
		t.Fatal(err)
	}

	found, err := inspect.Lint(t.Context(), dir, []engine.Table{{Levels: shape.Levels}}, cacheBytes)
	if err != nil {
		t.Fatal(err)
	}

	return found
}

// TestLint: each option that is not in force is seeded by RocksDB itself, named alone, and its
// price is what RocksDB's own counters say of the database as it is and as it would be.
func TestLint(t *testing.T) {
	parted := map[string]string{"partition_filters": "true", "index_type": "kTwoLevelIndexSearch"}
	made := map[string]string{} // databases, which are only read, by what they were made with
	database := func(profile string, options, later map[string]string) string {
		as := fmt.Sprint(profile, options, later, later == nil)
		if made[as] == "" {
			made[as] = twice(t, profile, options, later)
		}
		return made[as]
	}

	for _, c := range []struct {
		code, profile string
		// remedy: of the database as it would be; nil: its reads are the same
		options, later, remedy map[string]string
		within                 float64 // reads per Get
	}{
		{"", "partitioned", nil, nil, nil, 0},
		{"", "partitioned", nil, map[string]string{}, nil, 0},
		// filters of keys and prefixes, twice as large
		{"", "partitioned", map[string]string{"prefix_extractor": "fixed:8"}, nil, nil, 0},
		// Here the two databases have levels of other sizes.
		{inspect.NoFilters, "partitioned",
			map[string]string{"filter_policy": "nullptr", "partition_filters": "false"}, nil,
			map[string]string{}, 0.09},
		{inspect.NotParted, "monolithic", nil, parted, parted, 0.2},
		{
			inspect.OtherBits,
			"partitioned",
			map[string]string{"filter_policy": "bloomfilter:2:false"},
			map[string]string{"filter_policy": "bloomfilter:16:false"},
			map[string]string{"filter_policy": "bloomfilter:16:false"},
			0.03,
		},
		{
			inspect.OtherBlocks,
			"partitioned",
			map[string]string{"block_size": "16384"},
			map[string]string{"block_size": "4096"},
			map[string]string{},
			0.06,
		},
		{inspect.UnaskedFilters, "partitioned", nil,
			map[string]string{"optimize_filters_for_hits": "true"}, nil, 0},
		{inspect.UnboundedMemory, "default", nil, nil, nil, 0},
	} {
		t.Run(c.code, func(t *testing.T) {
			dir := database(c.profile, c.options, c.later)
			cacheBytes := int64(lintCache)
			switch c.code {
			case inspect.UnboundedMemory:
				cacheBytes = 64 << 10
			case inspect.NotParted: // which holds some of the whole filters and indexes
				cacheBytes = 128 << 10
			}

			found := lintOf(t, dir, cacheBytes)
			if c.code == "" {
				if len(found) > 0 {
					t.Errorf("%+v of a clean database", found)
				}
				return
			}

			at := slices.IndexFunc(found, func(f inspect.Finding) bool { return f.Code == c.code })
			if at < 0 || len(found) > 1 {
				t.Fatalf("%+v, want %s alone", found, c.code)
			}

			f := found[at]
			t.Logf("%+v", f)
			if c.remedy == nil {
				if f.ExtraReads != 0 || f.MemoryBytes+f.DiskBytes == 0 {
					t.Errorf("priced %+v", f)
				}
				return
			}

			reads := func(dir string, options map[string]string) float64 {
				return readsOf(t,
					engine.Options{Dir: dir, Profile: c.profile, Overrides: lintOptions(options)},
					cacheBytes, lintKeys, 10_000)
			}

			last := c.options
			if c.later != nil {
				last = c.later
			}

			measured := reads(dir, last) - reads(database(c.profile, c.remedy, nil), c.remedy)
			t.Logf("%+.4f block reads per Get told, %+.4f measured", f.ExtraReads, measured)
			if math.Abs(f.ExtraReads-measured) > c.within {
				t.Errorf("%+.4f block reads per Get told, %+.4f measured", f.ExtraReads, measured)
			}
		})
	}
}
