package inspect

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/result"
)

const lintKeys, laterKeys = 24_000, 4_000

func lintKeySpace() keyspace.Keys { return keyspace.Keys{Count: lintKeys + laterKeys, Bytes: 32} }

// pebbleOf is a folder in which Pebble wrote keys with options, and then few again with later ones;
// nil: once.
func pebbleOf(
	t *testing.T, e engine.Engine, profile string, options, later map[string]string,
) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	write := func(create bool, more map[string]string, from, to uint64) {
		small := map[string]string{
			"MemTableSize":   "512KiB",
			"LBaseMaxBytes":  "1MiB",
			"TargetFileSize": "256KiB",
			"DisableWAL":     "true",
		}

		maps.Copy(small, more)
		db, err := e.Open(t.Context(), engine.Options{
			Dir:       dir,
			Create:    create,
			Profile:   profile,
			Overrides: small,
		})
		if err != nil {
			t.Fatal(err)
		}

		w, err := db.Writer()
		if err != nil {
			t.Fatal(err)
		}

		random, maker, key, value := rand.NewChaCha8([32]byte{1}), lintKeySpace().Maker(),
			make([]byte, 32), make([]byte, 100)
		for i := from; i < to; i++ {
			if _, err := random.Read(value); err != nil {
				t.Fatal(err)
			}

			maker.Key(key, i)
			if err := w.Put(key, value); err != nil {
				t.Fatal(err)
			}

			if i%6000 == 5999 {
				if err := errors.Join(w.Commit(), db.Settle(t.Context(), nil)); err != nil {
					t.Fatal(err)
				}
			}
		}

		if err := errors.Join(w.Commit(), w.Close(), db.Settle(t.Context(), nil),
			db.Close()); err != nil {
			t.Fatal(err)
		}
	}

	write(true, options, 0, lintKeys)
	if later != nil {
		later = maps.Clone(later)
		later["DisableAutomaticCompactions"] = "true" // the tables stay
		to := uint64(lintKeys + laterKeys)
		// the model of reads takes level 0 for what a long load leaves there
		if later["FilterLevels"] == "none" {
			to = lintKeys
		}

		write(false, later, lintKeys, to)
	}

	return dir
}

// TestLintOfPebble: each option that is not in force is seeded by Pebble itself, named alone, and
// its price is what Gets read of the database as it is and as it would be.
func TestLintOfPebble(t *testing.T) {
	testring.Outer(t, "it builds a database for each option")
	const cache = 512 << 10
	lacking := map[string]string{"FilterLevels": "0-5"} // which is as good as it gets
	// databases, which are only read, by what they were made with
	made := map[string]string{}
	database := func(e engine.Engine, options, later map[string]string) string {
		as := fmt.Sprint(e.Info().Name, options, later, later == nil)
		if made[as] == "" {
			made[as] = pebbleOf(t, e, "bench-kvdb", options, later)
		}
		return made[as]
	}

	for i, c := range []struct {
		code string
		// remedy: of the database as it would be; nil: its reads are the same
		options, later, remedy map[string]string
	}{
		{"", lacking, nil, nil},
		{"", lacking, lacking, nil},
		// the newest tables have filters
		{NoFilters, map[string]string{"FilterLevels": "none"}, lacking, lacking},
		{OtherBits, map[string]string{"FilterBitsPerKey": "2", "Levels[6].FilterBitsPerKey": "0"},
			lacking, lacking},
		{OtherBlocks, map[string]string{"FilterLevels": "0-5", "BlockSize": "16KiB"}, lacking,
			lacking},
		{UnaskedFilters, nil, nil, nil},
		{UnaskedFilters, lacking, map[string]string{"FilterLevels": "none"}, lacking},
	} {
		for name, e := range map[string]engine.Engine{
			"pebble1": pebble1.Engine{},
			"pebble2": pebble2.Engine{},
		} {
			if testing.Short() && (i%2 == 0) == (name == "pebble1") {
				continue // both are looked at by one code
			}

			t.Run(name+" "+c.code, func(t *testing.T) {
				dir := database(e, c.options, c.later)
				found := inspected(t, e, name, dir, cache).Findings
				if c.code == "" && len(found) == 0 {
					return
				}

				if len(found) != 1 || found[0].Code != c.code ||
					found[0].ExtraReads == 0 && found[0].DiskBytes == 0 {
					t.Fatalf("%+v, want %q alone", found, c.code)
				}

				t.Logf("%+v", found[0])
				if c.remedy == nil {
					return
				}

				again := c.remedy
				if c.code == UnaskedFilters {
					again = nil
				}

				measured := readsOf(t, e, dir, cache) -
					readsOf(t, e, database(e, c.remedy, again), cache)
				t.Logf("%+.4f block reads per Get told, %+.4f measured", found[0].ExtraReads,
					measured)
				if math.Abs(found[0].ExtraReads-measured) > 0.03 {
					t.Errorf("%+.4f block reads per Get told, %+.4f measured", found[0].ExtraReads,
						measured)
				}
			})
		}
	}
}

func inspected(t *testing.T, e engine.Engine, name, dir string, cache int64) *Inspection {
	t.Helper()
	db, err := e.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true, Foreign: true})
	if err != nil {
		t.Fatal(err)
	}

	shape, err := db.Shape()
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}

	run := &result.Run{
		Engine: result.Engine{Name: name},
		Database: result.Database{
			Dir:     dir,
			Levels:  shape.Levels,
			Bytes:   shape.Bytes,
			Written: "foreign",
		},
	}

	run.Host.Cores = runtime.GOMAXPROCS(0)
	found, err := Database(t.Context(), dir, run, engine.Part{}, nil, 0, false, cache)
	if err != nil || len(found.Warnings) > 0 {
		t.Fatal(err, found)
	}

	return found
}

// readsOf are the block reads of a Get of random keys, once the cache is full.
func readsOf(t *testing.T, e engine.Engine, dir string, cache int64) float64 {
	t.Helper()
	const warmup, gets = 20_000, 20_000
	db, err := e.Open(t.Context(), engine.Options{
		Dir:        dir,
		ReadOnly:   true,
		Foreign:    true,
		CacheBytes: cache,
	})
	if err != nil {
		t.Fatal(err)
	}

	r, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	random, maker, key := rand.New(rand.NewPCG(1, 2)), lintKeySpace().Maker(), make([]byte, 32)
	var before engine.Counters
	var value []byte
	for i := range warmup + gets {
		if i == warmup {
			before = db.Counters()
		}

		found := false
		maker.Key(key, random.Uint64N(lintKeys))
		if value, found, err = r.Get(key, value); err != nil || !found {
			t.Fatal(found, err)
		}
	}

	reads := float64(db.Counters().Sub(before).Reads.Total().Count) / gets
	if err := errors.Join(r.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}

	return reads
}
