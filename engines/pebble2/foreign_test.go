package pebble2

import (
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Databases that Pebble wrote through its own API, with what nodes of go-ethereum never have.

const (
	foreignKeys = 20_000
	largeValue  = 4096
)

func foreignKey(i int) []byte {
	key := make([]byte, 32)
	r := rand.New(rand.NewPCG(7, uint64(i)))
	for j := range key {
		key[j] = byte(r.Uint32())
	}
	return key
}

// foreign writes a database with options that change changes.
func foreign(t *testing.T, change func(*pebble.Options), write func(*pebble.DB) error) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	o := &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}}
	o.EnsureDefaults()
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}

	change(o)
	db, err := pebble.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}

	if err := write(db); err != nil {
		t.Fatal(err)
	}

	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	return dir
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) { panic("pebble failed") }

func put(db *pebble.DB, from, to int, bytesOf func(int) int) error {
	for i := from; i < to; i++ {
		value := make([]byte, bytesOf(i))
		for j := range value {
			value[j] = byte(i*j + j>>8)
		}

		if err := db.Set(foreignKey(i), value, pebble.NoSync); err != nil {
			return err
		}
	}

	return db.Flush()
}

func compactAll(db *pebble.DB) error {
	return db.Compact(context.Background(), []byte{0}, bytes.Repeat([]byte{255}, 33), true)
}

// runOf measures Gets of sampled keys in dir and returns the run, without which the test ends.
func runOf(t *testing.T, dir string, gets uint64) (*result.Run, bench.Spec) {
	t.Helper()
	spec := bench.Spec{
		Schema:     schema.EngineSpec,
		Verb:       bench.Read,
		Engine:     name,
		Dir:        dir,
		Out:        t.TempDir(),
		Foreign:    true,
		ReadOnly:   true,
		SampleKeys: foreignKeys,
		Workload:   workload.ReadRandom,
		Threads:    1,
		Seed:       1,
		WarmupGets: gets,
		Gets:       gets,
		AccessGets: gets,
		PageCache:  bench.AsIs,
		CacheBytes: 1 << 20,
	}

	run, err := bench.Run(t.Context(), Engine{}, &spec, func(result.Event) {})
	if err != nil {
		t.Fatal(err)
	}

	for _, check := range run.Checks {
		if !check.OK {
			t.Errorf("self-check %q: %v against %v", check.Name, check.Ours, check.Theirs)
		}
	}

	return run, spec
}

// traced are the accesses of the measured Gets by type, and how many Pebble itself counts for the
// same Gets, opened with its own API and a cache that admits nothing; large of the Gets are of keys
// that large says.
func traced(
	t *testing.T, spec bench.Spec, isLarge map[string]bool,
) (byType [engine.NumBlockTypes]int, pebbles, large int) {
	t.Helper()
	var file bytes.Buffer
	if _, err := curve.Record(t.Context(), &file, curve.TraceRequest{Engine: Engine{}, Spec: spec},
		trace.Sample{}, engine.Part{}, func(result.Event) {}); err != nil {
		t.Fatal(err)
	}

	recorded, header, err := trace.Load(&file)
	if err != nil {
		t.Fatal(err)
	}

	for _, number := range recorded.Accesses[recorded.Gets[header.WarmupGets]:] {
		byType[recorded.Blocks[number].Type]++
	}

	cache := pebble.NewCache(1)
	defer cache.Unref()
	db, err := pebble.Open(spec.Dir, &pebble.Options{ReadOnly: true, Cache: cache, Logger: quiet{},
		Filters: map[string]pebble.FilterPolicy{bloom.FilterPolicy(10).Name(): bloom.FilterPolicy(
			10,
		)}})
	if err != nil {
		t.Fatal(err)
	}

	defer db.Close()
	next, err := bench.KeyStream(t.Context(), Engine{}, &spec)
	if err != nil {
		t.Fatal(err)
	}

	var before int64
	for i := uint64(0); ; i++ {
		key, _, more := next()
		if !more {
			break
		}

		if i == spec.WarmupGets {
			before = db.Metrics().BlockCache.Misses
		}

		if i >= spec.WarmupGets && isLarge[string(key)] {
			large++
		}

		value, closer, err := db.Get(key)
		if err != nil || (len(value) == largeValue) != isLarge[string(key)] ||
			closer.Close() != nil {
			t.Fatal(len(value), err)
		}
	}

	return byType, int(db.Metrics().BlockCache.Misses - before), large
}

// TestSeparatedValues: values in blob files are in the sizes, in the counts of a run and in a
// trace.
func TestSeparatedValues(t *testing.T) {
	large := map[string]bool{}
	for i := 0; i < foreignKeys; i += 4 {
		large[string(foreignKey(i))] = true
	}

	dir := foreign(t, func(o *pebble.Options) {
		o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
			return pebble.ValueSeparationPolicy{
				Enabled:               true,
				MinimumSize:           1000,
				MaxBlobReferenceDepth: 10,
				TargetGarbageRatio:    0.3,
			}
		}
	}, func(db *pebble.DB) error {
		err := put(db, 0, foreignKeys, func(i int) int {
			if i%4 == 0 {
				return largeValue
			}
			return 100
		})
		if err != nil {
			return err
		}

		return compactAll(db)
	})

	var onDisk, values int64
	filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && (ext == ".sst" || ext == ".blob") {
			info, err := entry.Info()
			if err != nil {
				return err
			}

			onDisk += info.Size()
			if ext == ".blob" {
				values += info.Size()
			}
		}

		return err
	})

	run, spec := runOf(t, dir, 5000)
	if d := run.Database; d.Bytes != onDisk || d.Values == nil || d.Values.Bytes != values ||
		d.Values.CacheBytes != foreignKeys/4*largeValue {
		t.Errorf("%d bytes, with values %+v; the files have %d and %d", d.Bytes, d.Values, onDisk,
			values)
	}

	byType, pebbles, wanted := traced(t, spec, large)
	total := 0
	for _, n := range byType {
		total += n
	}

	if total != pebbles || byType[engine.Value] != wanted || wanted == 0 ||
		byType[engine.Data] != int(spec.Gets) {
		t.Errorf("traced %v, together %d; Pebble counts %d, and %d Gets were of large values",
			byType, total, pebbles, wanted)
	}

	accesses := run.Figures.BlockAccessesPerGetByType["value"] * float64(spec.Gets)
	if int(accesses+0.5) != wanted {
		t.Errorf("the run replayed %v accesses of values, want %d", accesses, wanted)
	}
}

// TestRangeDeletions: the block of a table's range deletions is an access of every Get that comes
// by it.
func TestRangeDeletions(t *testing.T) {
	dir := foreign(
		t,
		func(o *pebble.Options) { o.DisableAutomaticCompactions = true },
		func(db *pebble.DB) error {
			small := func(int) int { return 100 }
			if err := put(db, 0, foreignKeys, small); err != nil {
				return err
			}

			if err := compactAll(db); err != nil {
				return err
			}

			if err := db.DeleteRange([]byte{0x40}, []byte{0x80}, nil); err != nil {
				return err
			}

			return put(db, foreignKeys, foreignKeys+1000, small)
		},
	)

	run, spec := runOf(t, dir, 5000)
	byType, pebbles, _ := traced(t, spec, nil)
	total := 0
	for _, n := range byType {
		total += n
	}

	if total != pebbles || byType[engine.Meta] < int(spec.Gets)/2 {
		t.Errorf(
			"traced %v, together %d; Pebble counts %d, with range deletions in most of %d Gets",
			byType,
			total,
			pebbles,
			spec.Gets,
		)
	}

	if f := run.Figures; !f.Has(figure.BlockAccessesPerGet) ||
		int(f.OrZero(figure.BlockAccessesPerGet)*float64(spec.Gets)+0.5) != pebbles {
		t.Errorf("the run replayed %v accesses per Get, Pebble counts %d for %d Gets",
			f.OrZero(figure.BlockAccessesPerGet), pebbles, spec.Gets)
	}
}
