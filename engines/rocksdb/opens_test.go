//go:build cgo

package rocksdb

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestTableCache: with a limit of open files, Gets open as many tables as the model of the table
// cache says. The library writes no option that is in no class.
func TestTableCache(t *testing.T) {
	const keys, gets = 60_000, 10_000
	d := create(t, engine.Options{Overrides: map[string]string{
		"write_buffer_size":        "524288",
		"target_file_size_base":    "65536",
		"max_bytes_for_level_base": "524288",
	}})
	fillInSteps(t, d, keys)
	dir := d.settings.dir
	shape, err := d.Shape()
	if err != nil {
		t.Fatal(err)
	}

	name, sections, err := optionsfile.Read(dir)
	if err != nil || optionsfile.LibraryOf(sections) != optionsfile.RocksDB {
		t.Fatalf("%s: %v", name, err)
	}

	for _, doubt := range optionsfile.Doubts(sections, nil) {
		t.Errorf("%s: [%s] %s=%s is in no class", name, doubt.Section.Kind, doubt.Name, doubt.Value)
	}

	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	*d = db{} // the cleanup closes it again

	tables := shape.Files
	for _, limit := range []int{tables / 10, tables / 2, tables * 9 / 10, tables + 1, tables + 11} {
		o := engine.Options{Dir: dir, Foreign: true, Handles: limit, CacheBytes: 64 << 20}
		limited := openAt(t, o)
		if _, err := limited.Shape(); err != nil {
			t.Fatal(err)
		}

		r := reading(t, limited)
		warm, counted := rand.New(rand.NewPCG(3, 3)), rand.New(rand.NewPCG(4, 4))
		get := func(rng *rand.Rand) {
			var value []byte
			for range gets {
				var found bool
				value, found, err = r.Get(keyOf(rng.Uint64N(keys)), value)
				if err != nil || !found {
					t.Fatal(found, err)
				}
			}
		}

		get(warm)
		before := limited.Counters()
		get(counted)
		c := limited.Counters().Sub(before)

		want := modelledOpens(t, dir, limit, keys, gets)
		t.Logf("%d tables, limit %d: %d opens, %d reads", tables, limit, *c.TableOpens,
			c.Reads.Total().Count)
		if math.Abs(float64(*c.TableOpens-want)) > max(10, 0.01*float64(want)) {
			t.Errorf("%d tables, limit %d: %d opens, the model has %d", tables, limit,
				*c.TableOpens, want)
		}
	}
}

// modelledOpens are the tables that as many Gets open after a warm-up.
func modelledOpens(t *testing.T, dir string, limit int, keys uint64, gets int) (opens int64) {
	t.Helper()
	r, err := blockbased.Open(dir, "", blockbased.Options{"max_open_files": strconv.Itoa(limit)})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := blockbased.LimitOpenTables(r); err != nil {
		t.Fatal(err)
	}

	walk, numbers, opened := r.Walk(), []uint32(nil), []uint32(nil)
	for _, seed := range []uint64{3, 4} {
		rng := rand.New(rand.NewPCG(seed, seed))
		opens = 0
		for range gets {
			if numbers, _, err = walk.Get(keyOf(rng.Uint64N(keys)), true, numbers); err != nil {
				t.Fatal(err)
			}

			opened = r.Open(opened[:0], numbers)
			for _, number := range opened {
				b, err := r.Block(number)
				if err != nil {
					t.Fatal(err)
				}

				const footer = 53
				if b.Type == engine.Meta && b.Marks&cachesim.Uncached != 0 && b.Bytes == footer {
					opens++
				}
			}
		}
	}

	if err := r.Close(); err != nil {
		t.Error(err)
	}

	return opens
}
