//go:build cgo

package rocksdb

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

// One table of 21 MB, whose filter and index are each too large to stay in the
// small cache beside the other.
const (
	layoutKeys  = 150_000
	layoutGets  = 3000
	smallCache  = 256 << 10
	ampleCache  = 8 << 20
	layoutTable = "one table with a filter of 187 KB and an index of 156 KB"
)

// TestLayouts: where filters and indexes live decides how many blocks a Get reads,
// and how large they are.
func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		profile            string
		cache              int64
		minReads, reads    float64 // a Get
		minBytes, bytes    float64 // a Get
		filters, someIndex bool    // are read
	}{
		{"default", smallCache, 0.97, 1, 3500, 5000, false, false},
		{"default", ampleCache, 0.5, 0.9, 2000, 4000, false, false},
		{"monolithic", smallCache, 2.2, 3, 200_000, 400_000, true, true},
		{"monolithic", ampleCache, 0.5, 0.9, 2000, 5000, false, false},
		{"partitioned", smallCache, 1.5, 3, 5000, 13_000, true, true},
		{"partitioned", ampleCache, 0.5, 1, 2000, 5000, false, false},
	} {
		t.Run(fmt.Sprintf("%s/%dKiB", c.profile, c.cache>>10), func(t *testing.T) {
			dir := layoutDir(t, c.profile)
			d := openAt(t, engine.Options{Dir: dir, Profile: c.profile, CacheBytes: c.cache})
			r := reading(t, d)
			getRandom(t, r, layoutKeys, layoutGets, 1)
			before := d.Counters()
			getRandom(t, r, layoutKeys, layoutGets, 2)
			reads := d.Counters().Sub(before).Reads
			total := reads.Total()
			perGet, bytes := float64(total.Count)/layoutGets, float64(total.Bytes)/layoutGets
			t.Logf("%.3f reads, %.0f bytes a Get: data %v, index %v, whole index %v, filter %v",
				perGet, bytes,
				reads.Type(engine.Data), reads.Type(engine.Index), reads.Type(engine.SingleIndex),
				reads.Type(engine.Filter))

			if perGet < c.minReads || perGet > c.reads || bytes < c.minBytes || bytes > c.bytes {
				t.Errorf("%.3f reads and %.0f bytes a Get of %s, want %.2f to %.2f and %.0f to "+
					"%.0f", perGet, bytes, layoutTable, c.minReads, c.reads, c.minBytes, c.bytes)
			}

			index := reads.Type(engine.SingleIndex)
			if c.profile == "partitioned" {
				index = reads.Type(engine.Index)
			}

			if filter := reads.Type(engine.Filter); (filter.Count > layoutGets/10) != c.filters ||
				(index.Count > layoutGets/10) != c.someIndex {
				t.Errorf("%d filters and %d indexes read by %d Gets", filter.Count, index.Count,
					layoutGets)
			}
		})
	}
}

// TestReadOnlyCountsTheSameReads: a database opened for reading only counts the
// reads of Gets by one ticker, a writable one by the misses of its block cache. The
// two agree in every run. Between two runs they do only where nothing is evicted: a
// cache charges what malloc gave for a block, and that differs by a few bytes from
// run to run, so that the last block to fit may be another one.
func TestReadOnlyCountsTheSameReads(t *testing.T) {
	const evictsNothing = 64 << 20
	for profile, as := range map[string]engine.BlockType{
		"default":     engine.Data,
		"partitioned": engine.Page,
	} {
		dir := layoutDir(t, profile)
		gets := func(o engine.Options) (reads *engine.BlockReads, blocks int64) {
			o.Dir, o.Profile = dir, profile
			opened, err := Engine{}.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}

			d := opened.(*db)
			before, now := d.Counters(), d.statistics()
			getRandom(t, reading(t, d), layoutKeys, layoutGets, 1)
			c, blocks := d.Counters().Sub(before),
				d.statistics().count(getBlocks)-now.count(getBlocks)
			if err := d.Close(); err != nil {
				t.Error(err)
			}

			return c.Reads, blocks
		}

		for _, cache := range []int64{smallCache, evictsNothing} {
			reads, blocks := gets(engine.Options{CacheBytes: cache})
			if reads.Total().Count != blocks || blocks < layoutGets/2 {
				t.Errorf("%s, cache of %d: %d misses of a writable database, %d blocks read",
					profile, cache, reads.Total().Count, blocks)
			}

			reads, blocks = gets(engine.Options{CacheBytes: cache, ReadOnly: true})
			if reads.Type(as).Count != blocks || reads.Total().Count != blocks {
				t.Errorf("%s, cache of %d: %v %s reads of %v in all, %d blocks read", profile,
					cache, reads.Type(as), as, reads.Total(), blocks)
			}
		}

		writable, _ := gets(engine.Options{CacheBytes: evictsNothing})
		readOnly, _ := gets(engine.Options{CacheBytes: evictsNothing, ReadOnly: true})
		if writable.Total() != readOnly.Total() {
			t.Errorf("%s: %v reads, want the %v of a writable database", profile, readOnly.Total(),
				writable.Total())
		}
	}
}

// layoutDirs are databases by profile, each made once and removed after all tests.
var layoutDirs = map[string]string{}

// layoutDir is a copy of a settled database of layoutKeys keys.
func layoutDir(t *testing.T, profile string) string {
	t.Helper()
	if layoutDirs[profile] == "" {
		dir, err := os.MkdirTemp("", "statelab-layout-")
		if err != nil {
			t.Fatal(err)
		}

		opened, err := Engine{}.Open(t.Context(), engine.Options{
			Dir:     dir,
			Create:  true,
			Profile: profile,
		})
		if err != nil {
			t.Fatal(err)
		}

		fill(t, opened.(*db), layoutKeys)
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}

		layoutDirs[profile] = dir
	}

	dir := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(dir, os.DirFS(layoutDirs[profile])); err != nil {
		t.Fatal(err)
	}

	return dir
}

// TestBytesAgreeWithTheKernel holds the tickers against what the kernel says the
// process read: by calls, and under O_DIRECT from the device.
func TestBytesAgreeWithTheKernel(t *testing.T) {
	for _, profile := range []string{"default", "monolithic", "partitioned"} {
		dir := layoutDir(t, profile)
		for _, direct := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/direct=%t", profile, direct), func(t *testing.T) {
				opened, err := Engine{}.Open(t.Context(), engine.Options{
					Dir:        dir,
					Profile:    profile,
					CacheBytes: smallCache,
					Direct:     direct,
				})

				if err != nil && strings.Contains(err.Error(), "O_DIRECT") {
					t.Skip(err)
				}

				if err != nil {
					t.Fatal(err)
				}

				d := opened.(*db)
				r := reading(t, d)
				getRandom(t, r, layoutKeys, 500, 1)
				before, kernel := d.Counters(), processIO(t)
				getRandom(t, r, layoutKeys, layoutGets, 2)
				c, now := d.Counters().Sub(before), processIO(t)
				ours, field := c.Reads.Total().Bytes, "rchar"
				if direct {
					ours, field = *c.DirectBytes, "read_bytes"
				}

				theirs := now[field] - kernel[field]
				t.Logf("%d bytes counted, %s %d: %+.2f %%", ours, field, theirs,
					100*(float64(theirs)/float64(ours)-1))
				if off := theirs - ours; off < -ours/50 || off > ours/50 {
					t.Errorf("%d bytes counted, %s says %d: more than 2 %% apart", ours, field,
						theirs)
				}

				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// processIO is /proc/self/io.
func processIO(t *testing.T) map[string]int64 {
	t.Helper()
	file, err := os.Open("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}

	found := map[string]int64{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if found[name], err = strconv.ParseInt(value, 10, 64); err != nil {
			t.Fatal(err)
		}
	}

	if err := file.Close(); err != nil {
		t.Fatal(err)
	}

	return found
}
