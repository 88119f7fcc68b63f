package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/result/figure"
)

// TestAdviceForAGrownRocksDB: what is predicted of a database of RocksDB that grows to twice its
// keys is what a load of as many has, and what Gets of that read. The short form takes the first
// case, and of it one cache.
func TestAdviceForAGrownRocksDB(t *testing.T) {
	testring.Outer(t, "it loads two databases")
	withCRunners(t)
	// Without filters, each table that chance leaves in L0 would be one read more.
	bare := []string{"filter_policy=nullptr", "level0_file_num_compaction_trigger=1"}
	static := []string{"level_compaction_dynamic_level_bytes=false",
		"max_bytes_for_level_multiplier=4"}
	for _, c := range []struct {
		name, profile string
		caches        []string
		set           []string
	}{
		{"whole metadata in the cache", "monolithic", []string{"8MiB", "512KiB"}, nil},
		{"metadata outside", "default", []string{"1MiB", "8MiB"}, nil},
		{"no filters", "default", []string{"1MiB", "8MiB"}, bare},
		{"partitions", "partitioned", []string{"512KiB", "8MiB"}, nil},
		{"static levels", "partitioned", []string{"512KiB", "8MiB"}, static},
		{"static levels, no filters", "default", []string{"1MiB", "8MiB"},
			append(bare, static...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() {
				if c.profile != "monolithic" {
					t.Skip("make slow runs it")
				}
				c.caches = c.caches[:1]
			}

			dir := t.TempDir()
			set := append([]string{"write_buffer_size=1048576", "target_file_size_base=524288",
				"max_bytes_for_level_base=2097152",
				// compactions keep up with the load, as with the writes of a node
				"level0_stop_writes_trigger=4", "level0_slowdown_writes_trigger=4",
				"soft_pending_compaction_bytes_limit=1", "hard_pending_compaction_bytes_limit=1"},
				c.set...)
			for _, keys := range []string{"100k", "200k"} {
				args := []string{"load", "--engine", "rocksdb", "--profile", c.profile, "--keys",
					keys, "--db", filepath.Join(dir, keys), "--quiet"}
				for _, option := range set {
					args = append(args, "--set", option)
				}
				must(t, args...)
			}

			for _, cache := range c.caches {
				var a advise.RocksAdvice
				if err := json.Unmarshal([]byte(must(t, "advise", filepath.Join(dir, "100k"),
					"--cache", cache, "--state-growth", "2x", "--json", "--quiet").stdout),
					&a); err != nil {
					t.Fatal(err)
				}

				g, out := a.Growth, filepath.Join(t.TempDir(), "R")
				must(t, "sweep", "--db", filepath.Join(dir, "200k"), "--cache", cache, "--gets",
					"60k", "--warmup", "60k", "--threads", "1", "--access-gets", "0", "--quiet",
					"--out", out)
				loaded := readSweep(t, out)
				measured := loaded.Points[0].Figures.OrZero(figure.BlockReadsPerGet)
				off := g.Then.BlockReadsPerGet/measured - 1
				t.Logf("%s: %.4f block reads per Get now, %.4f predicted, %.4f measured (%+.2f %%)",
					cache, g.Now.BlockReadsPerGet, g.Then.BlockReadsPerGet, measured, 100*off)
				// Of so few tables, chance decides which are in L0 and what upper levels span:
				// loads of the same keys differ by up to 6 %.
				const near, nearBytes = 0.12, 0.03
				if math.Abs(off) > near {
					t.Errorf("%s: off by %.1f %%", cache, 100*off)
				}

				if size := float64(loaded.Database.Bytes); math.Abs(
					float64(g.Bytes)/size-1) > nearBytes {
					t.Errorf("%d bytes of tables predicted, %.0f there", g.Bytes, size)
				}

				if g.Now.BlockReadsPerGet != a.Now.BlockReadsPerGet || g.Same == nil ||
					g.Same.CacheBytes < g.Now.CacheBytes || g.Near != nil {
					t.Errorf("%+v", g)
				}
			}
		})
	}
}

// TestGrowthThatIsNotPredicted: what is wrong is named with the flag.
func TestGrowthThatIsNotPredicted(t *testing.T) {
	for growth, words := range map[string]string{
		"0.5x": "from 1x to 100x", "1000x": "from 1x to 100x", "-3%": "a share for each year",
	} {
		refused(t, statelab(t, "advise", t.TempDir(), "--state-growth="+growth), exitUsage,
			fmt.Sprintf("--state-growth %q", growth), words)
	}
}

// TestGrowthOfAMix: growth is predicted of one family.
func TestGrowthOfAMix(t *testing.T) {
	testring.Outer(t, "it needs RocksDB's library")
	db := ofRocksDB(t, "families", 40_000)
	refused(t, statelab(t, "advise", db, "--table", "accounts=70,storage=30", "--state-growth",
		"2x"), exitFailed, "2 column families", "name one with --table")
}
