package pebbledb_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/result"
)

func engines() []engine.Engine { return []engine.Engine{pebble1.Engine{}, pebble2.Engine{}} }

// Levels a hundred times smaller than the defaults, so that 300,000 keys fill
// three of them.
func smallLevels() map[string]string {
	return map[string]string{
		"LBaseMaxBytes":  "640KiB",
		"TargetFileSize": "64KiB",
		"MemTableSize":   "1MiB",
	}
}

type pairs struct {
	keys   keyspace.Keys
	values *keyspace.Values
}

func newPairs(t testing.TB, n uint64, order string) pairs {
	t.Helper()
	values, err := keyspace.NewValues(keyspace.Random, 110, 1)
	if err != nil {
		t.Fatal(err)
	}
	return pairs{keyspace.Keys{Count: n, Bytes: 32, Order: order, Hash: keyspace.Mix, Seed: 1},
		values}
}

func (p pairs) spec(workers int) engine.SortedSpec {
	return engine.SortedSpec{
		Keys:       p.keys.Count,
		KeyBytes:   32,
		ValueBytes: 110,
		Seed:       1,
		Workers:    workers,
	}
}

func (p pairs) stream(from, to uint64) engine.Entries {
	maker, key := p.keys.Maker(), make([]byte, 32)
	var value []byte
	return func(bool) ([]byte, []byte, error) {
		if from >= to {
			return nil, nil, io.EOF
		}

		maker.Key(key, from)
		value = p.values.Value(value, from, 0)
		from++
		return key, value, nil
	}
}

// check reads every key back and a few that were never written.
func (p pairs) check(t *testing.T, db engine.DB) {
	t.Helper()
	reader, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	maker, checker, key := p.keys.Maker(), p.values.Checker(0), make([]byte, 32)
	var value []byte
	for i := range p.keys.Count + 1000 {
		maker.Key(key, i)
		got, found, err := reader.Get(key, value)
		if err != nil {
			t.Fatalf("get key %d: %v", i, err)
		}

		if found != (i < p.keys.Count) {
			t.Fatalf("key %d: found is %v", i, found)
		}

		if found {
			if err := checker.Check(got, i, false); err != nil {
				t.Fatalf("key %d: %v", i, err)
			}
			value = got
		}
	}
}

func create(t testing.TB, e engine.Engine, overrides map[string]string) (engine.DB, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := e.Open(context.Background(), engine.Options{
		Dir:        dir,
		Create:     true,
		CacheBytes: 16 << 20,
		Overrides:  overrides,
	})
	if err != nil {
		t.Fatal(err)
	}

	return db, dir
}

func build(ctx context.Context, db engine.DB, p pairs, workers int, done func(uint64)) error {
	return db.(engine.SortedBuilder).BuildSorted(ctx, p.spec(workers), p.stream, done)
}

func shapeOf(t testing.TB, db engine.DB) engine.Shape {
	t.Helper()
	shape, err := db.Shape()
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

func closeDB(t testing.TB, db engine.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

const testKeys = 300_000

func TestBuildSortedHoldsEveryKeyAndLeavesNothingBehind(t *testing.T) {
	testring.Outer(t, "it builds large databases")
	for _, e := range engines() {
		t.Run(e.Info().Name, func(t *testing.T) {
			t.Parallel()
			db, dir := create(t, e, smallLevels())
			p := newPairs(t, testKeys, keyspace.Sorted)
			var reported atomic.Uint64
			if err := build(context.Background(), db, p, 2,
				func(n uint64) { reported.Add(n) }); err != nil {
				t.Fatal(err)
			}

			if n := reported.Load(); n != testKeys {
				t.Errorf("%d pairs reported", n)
			}

			built := shapeOf(t, db)
			var keys int64
			for _, l := range built.Levels {
				keys += l.Keys
			}

			if keys != testKeys {
				t.Errorf("levels hold %d keys", keys)
			}

			p.check(t, db)
			closeDB(t, db)
			checkFiles(t, dir, built.Files)

			// Opened with its own options nothing is due: the shape is at rest.
			db, err := e.Open(context.Background(), engine.Options{
				Dir:        dir,
				CacheBytes: 16 << 20,
				Overrides:  smallLevels(),
			})
			if err != nil {
				t.Fatal(err)
			}

			if err := db.Settle(context.Background(), nil); err != nil {
				t.Fatal(err)
			}

			if again := shapeOf(t, db); !reflect.DeepEqual(again, built) {
				t.Errorf("the shape changed:\n%+v\nafter opening:\n%+v", built, again)
			}

			if n := *db.Counters().CompactBytes; n != 0 {
				t.Errorf("%d bytes compacted", n)
			}

			closeDB(t, db)
		})
	}
}

// checkFiles asks the kernel: tables in the directory itself, and nothing below.
func checkFiles(t *testing.T, dir string, tables int) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if entry.IsDir() && path != dir {
			t.Errorf("%s is left behind", path)
		}

		if strings.HasSuffix(path, ".sst") {
			found++
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if found != tables {
		t.Errorf("%d tables in the directory, %d in the database", found, tables)
	}
}

// Real random loading is the oracle. What it leaves varies with the timing of
// its compactions, most of all near the top.
func TestBuildSortedHasTheShapeOfRandomLoading(t *testing.T) {
	testring.Outer(t, "it builds large databases")
	for _, e := range engines() {
		t.Run(e.Info().Name, func(t *testing.T) {
			if testing.Short() && e.Info().Name == "pebble1" {
				t.Skip("as pebble2")
			}

			t.Parallel()
			sorted, _ := create(t, e, smallLevels())
			if err := build(context.Background(), sorted, newPairs(t, testKeys, keyspace.Sorted),
				2, func(uint64) {}); err != nil {
				t.Fatal(err)
			}

			random, _ := create(t, e, smallLevels())
			fillRandom(t, random, newPairs(t, testKeys, keyspace.Hashed))
			have, want := below(shapeOf(t, sorted)), below(shapeOf(t, random))
			if len(have) != len(want) || len(want) != 3 {
				t.Fatalf("levels below L0: %d built, %d at random, 3 expected", len(have),
					len(want))
			}

			for i, w := range want {
				h := have[i]
				if h.Level != w.Level {
					t.Fatalf("L%d built, L%d at random", h.Level, w.Level)
				}

				// Which keys begin a file is chance: a count of n scatters by its root.
				limit, filesLimit := 0.1, max(0.3, 3/math.Sqrt(float64(w.Files)))
				// compactions move whole files out of the base level when they find the time
				if i == 0 {
					limit, filesLimit = max(0.3, 3/float64(w.Files)), 2
				}

				for _, figure := range []struct {
					name       string
					have, want int64
					limit      float64
				}{
					{"bytes", h.Bytes, w.Bytes, limit},
					{"keys", h.Keys, w.Keys, limit},
					{"index bytes", h.IndexBytes, w.IndexBytes, limit},
					{"filter bytes", h.FilterBytes, w.FilterBytes, limit},
					{"files", int64(h.Files), int64(w.Files), filesLimit},
				} {
					off := math.Abs(float64(figure.have-figure.want)) / float64(figure.want)
					if off > figure.limit {
						t.Errorf("L%d %s: %d built, %d at random (%.0f %% off)", h.Level,
							figure.name, figure.have, figure.want, 100*off)
					}
				}
			}

			closeDB(t, sorted)
			closeDB(t, random)
		})
	}
}

func fillRandom(t *testing.T, db engine.DB, p pairs) {
	t.Helper()
	out, err := db.Writer()
	if err != nil {
		t.Fatal(err)
	}

	next := p.stream(0, p.keys.Count)
	for n := 1; ; n++ {
		key, value, err := next(false)
		if err == io.EOF {
			break
		}

		err = errors.Join(err, out.Put(key, value))
		if n%1000 == 0 {
			err = errors.Join(err, out.Commit())
		}

		if n%10_000 == 0 { // a machine too busy to compact in time would leave other levels
			err = errors.Join(err, db.Settle(context.Background(), nil))
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(out.Commit(), out.Close(),
		db.Settle(context.Background(), nil)); err != nil {
		t.Fatal(err)
	}
}

func below(shape engine.Shape) []engine.Level {
	if shape.Levels[0].Level == 0 {
		return shape.Levels[1:]
	}
	return shape.Levels
}

// The plan alone, for the published databases: their values repeat, so that how
// well a level compresses decides how many keys it takes.
func TestPlannedLevelsArePublishedOnes(t *testing.T) {
	testring.Outer(t, "it plans databases of billions of keys")
	t.Parallel()
	values, err := keyspace.NewValues(keyspace.Table32, 110, 1)
	if err != nil {
		t.Fatal(err)
	}

	for name, keys := range map[string]uint64{"200M": 200e6, "2B": 2e9, "20B": 20e9} {
		published := publishedLevels(t, name)
		for _, e := range engines() {
			if e.Info().Name == "pebble2" && (name == "20B" || testing.Short() && name == "2B") ||
				testing.Short() && name == "20B" {
				continue // as with pebble1, or as the smaller ones, for as long again
			}

			db, _ := create(t, e, nil)
			planned, err := pebbledb.PlannedKeys(db.(*pebbledb.DB),
				engine.SortedSpec{Keys: keys, KeyBytes: 32, ValueBytes: 110, Seed: 1},
				randomKeys(keys, values))
			if err != nil {
				t.Fatal(err)
			}

			base := true
			for _, l := range published[1:] {
				want, limit := float64(l.Keys), 0.02
				if base && l.Keys > 0 {
					base, limit = false, 0.13 // a few files that come and go at once
				}

				off := planned[l.Level]/max(want, 1) - 1
				t.Logf("%s %s L%d: %.0f planned, %.0f published, %+.2f %%", e.Info().Name, name,
					l.Level, planned[l.Level], want, 100*off)
				if (want > 0 || planned[l.Level] > 0) && math.Abs(off) > limit {
					t.Errorf("%s %s L%d: %.0f keys planned, %.0f published", e.Info().Name, name,
						l.Level, planned[l.Level], want)
				}
			}

			closeDB(t, db)
		}
	}
}

func publishedLevels(t *testing.T, name string) []engine.Level {
	t.Helper()
	study := map[string]string{"200M": "small", "2B": "medium", "20B": "large"}[name]
	sweep, err := result.ReadSweep("../../../studies/bench_kvdb/runs/published-" + study)
	if err != nil {
		t.Fatal(err)
	}
	return sweep.Database.Levels
}

// randomKeys streams ascending keys as far apart as those of n hashes.
func randomKeys(n uint64, values *keyspace.Values) func(from, to uint64) engine.Entries {
	return func(from, to uint64) engine.Entries {
		random, key := rand.New(rand.NewPCG(from, n)), make([]byte, 32)
		word, gap := float64(from)/float64(n)*(1<<64), float64(1<<64)/float64(n)
		at, value := uint64(word), []byte(nil)
		return func(skip bool) ([]byte, []byte, error) {
			at += 1 + uint64(random.ExpFloat64()*gap)
			if skip {
				return nil, nil, nil
			}

			binary.BigEndian.PutUint64(key, at)
			for i := 8; i < len(key); i += 8 {
				binary.BigEndian.PutUint64(key[i:], random.Uint64())
			}

			value = values.Value(value, random.Uint64(), 0)
			return key, value, nil
		}
	}
}

func TestBuildSortedIsTheSameForAnyWorkers(t *testing.T) {
	for _, e := range engines() {
		var shapes []engine.Shape
		for _, workers := range []int{1, 3} {
			db, _ := create(t, e, smallLevels())
			if err := build(context.Background(), db, newPairs(t, 100_000, keyspace.Sorted),
				workers, func(uint64) {}); err != nil {
				t.Fatal(err)
			}

			shapes = append(shapes, shapeOf(t, db))
			closeDB(t, db)
		}

		if !reflect.DeepEqual(shapes[0], shapes[1]) {
			t.Errorf("%s: 1 worker built\n%+v\n3 workers built\n%+v", e.Info().Name, shapes[0],
				shapes[1])
		}
	}
}

func TestBuildSortedOfFewKeys(t *testing.T) {
	for _, e := range engines() {
		for _, n := range []uint64{0, 1, 2, 1000} {
			db, _ := create(t, e, nil)
			p := newPairs(t, max(n, 1), keyspace.Sorted)
			p.keys.Count = n
			if err := build(context.Background(), db, p, 4, func(uint64) {}); err != nil {
				t.Fatal(err)
			}

			if n == 0 {
				closeDB(t, db)
				continue
			}

			if levels := shapeOf(t, db).Levels; len(levels) != 1 || levels[0].Level != 6 {
				t.Errorf("%s: %d keys are in %+v", e.Info().Name, n, levels)
			}

			p.check(t, db)
			closeDB(t, db)
		}
	}
}

// A build that was stopped and resumed ends as one that was not.
func TestBuildSortedCancelledAndResumed(t *testing.T) {
	for _, e := range engines() {
		if testing.Short() && e.Info().Name == "pebble1" {
			continue // as pebble2
		}

		p := newPairs(t, testKeys, keyspace.Sorted)
		whole, _ := create(t, e, smallLevels())
		if err := build(context.Background(), whole, p, 2, func(uint64) {}); err != nil {
			t.Fatal(err)
		}

		db, dir := create(t, e, smallLevels())
		stopped := errors.New("the user has had enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		var first, second atomic.Uint64
		err := build(ctx, db, p, 2, func(n uint64) {
			if first.Add(n) > testKeys/2 {
				cancel(stopped)
			}
		})

		if !errors.Is(err, stopped) || !strings.Contains(err.Error(), "sorted build of "+dir) {
			t.Errorf("%s: %v", e.Info().Name, err)
		}

		if files := shapeOf(t, db).Files; files != 0 {
			t.Errorf("%s: %d tables", e.Info().Name, files)
		}

		spec := p.spec(2)
		spec.Resume = true
		other := spec
		other.Seed++
		if err := db.(engine.SortedBuilder).BuildSorted(context.Background(), other, p.stream,
			func(uint64) {}); !errors.Is(err, pebbledb.ErrOtherPlan) {
			t.Errorf("%s: resumed with another seed: %v", e.Info().Name, err)
		}

		if err := db.(engine.SortedBuilder).BuildSorted(context.Background(), spec, p.stream,
			func(n uint64) { second.Add(n) }); err != nil {
			t.Fatal(err)
		}

		built := shapeOf(t, db)
		if want := shapeOf(t, whole); !reflect.DeepEqual(built, want) {
			t.Errorf("%s: resumed\n%+v\nin one go\n%+v", e.Info().Name, built, want)
		}

		if second.Load() > testKeys*3/4 {
			t.Errorf("%s: %d keys were written again", e.Info().Name, second.Load())
		}

		p.check(t, db)
		closeDB(t, db)
		closeDB(t, whole)
		checkFiles(t, dir, built.Files)
	}
}

func TestBuildSortedRefusals(t *testing.T) {
	for _, e := range engines() {
		p := newPairs(t, 1000, keyspace.Sorted)
		db, dir := create(t, e, nil)
		if err := build(context.Background(), db, p, 1, func(uint64) {}); err != nil {
			t.Fatal(err)
		}

		if err := build(context.Background(), db, p, 1, func(uint64) {}); !errors.Is(err,
			pebbledb.ErrNotEmpty) {
			t.Errorf("%s: a second build: %v", e.Info().Name, err)
		}

		closeDB(t, db)
		db, err := e.Open(context.Background(), engine.Options{Dir: dir, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}

		if err := build(context.Background(), db, p, 1, func(uint64) {}); err == nil ||
			!strings.Contains(err.Error(), "reading only") {
			t.Errorf("%s: a build into a read-only database: %v", e.Info().Name, err)
		}

		closeDB(t, db)

		db, _ = create(t, e, nil)
		short := func(from, to uint64) engine.Entries { return p.stream(from, min(to, 700)) }
		err = db.(engine.SortedBuilder).BuildSorted(context.Background(), p.spec(1), short,
			func(uint64) {})
		if err == nil || !strings.Contains(err.Error(), "ended at 700") {
			t.Errorf("%s: a short stream: %v", e.Info().Name, err)
		}

		closeDB(t, db)
	}
}

// A database that cannot be opened again must still let itself be closed.
func TestBuildSortedThatCannotReopen(t *testing.T) {
	for _, e := range engines() {
		db, dir := create(t, e, nil)
		err := build(context.Background(), db, newPairs(t, 1000, keyspace.Sorted), 1, func(uint64) {
			manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
			for _, path := range manifests {
				err = errors.Join(err, os.Remove(path))
			}

			if err != nil {
				t.Error(err)
			}
		})

		if err == nil || !strings.Contains(err.Error(), "after its build") {
			t.Errorf("%s: built without a manifest: %v", e.Info().Name, err)
		}

		closeDB(t, db)
	}
}

// keys/s is the figure; CPU per key tells more on a busy machine.
func BenchmarkBuildSorted(b *testing.B) {
	for _, e := range engines() {
		b.Run(e.Info().Name, func(b *testing.B) {
			p := newPairs(b, 1_000_000, keyspace.Sorted)
			for b.Loop() {
				db, _ := create(b, e, nil)
				if err := build(context.Background(), db, p, 4, func(uint64) {}); err != nil {
					b.Fatal(err)
				}
				closeDB(b, db)
			}

			b.ReportMetric(float64(p.keys.Count)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}
