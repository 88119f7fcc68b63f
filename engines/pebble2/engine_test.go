package pebble2

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }

// TestGetAddsNoAllocation compares with a bare Get.
func TestGetAddsNoAllocation(t *testing.T) {
	opened, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:    filepath.Join(t.TempDir(), "db"),
		Create: true,
	})
	if err != nil {
		t.Fatal(err)
	}

	r, err := opened.Reader()
	if err != nil {
		t.Fatal(err)
	}

	d := r.(reader).pebble
	key, dst := []byte("key"), make([]byte, 0, 128)
	if err := d.Set(key, make([]byte, 110), pebble.NoSync); err != nil {
		t.Fatal(err)
	}

	if err := opened.Settle(t.Context(), nil); err != nil {
		t.Fatal(err)
	}

	bare := testing.AllocsPerRun(5000, func() {
		_, closer, err := d.Get(key)
		if err != nil || closer.Close() != nil {
			t.Fatal(err)
		}
	})

	ours := testing.AllocsPerRun(5000, func() {
		if _, found, err := r.Get(key, dst); err != nil || !found {
			t.Fatal(found, err)
		}
	})

	if ours > bare {
		t.Errorf("%v allocations, a bare Get needs %v", ours, bare)
	}

	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestGethFilters: geth leaves the last level without a policy to have no filter
// there, but v2 lets a level inherit that of the level above.
func TestGethFilters(t *testing.T) {
	db := create(t, engine.Options{Profile: "geth-1.17-v2", CacheBytes: 16 << 20})
	e := db.Effective()
	if e["Levels[6].filter_policy"] != e["Levels[5].filter_policy"] ||
		e["format_major_version"] != "13" {
		t.Errorf("filter of level 6 %q, of level 5 %q, format %s", e["Levels[6].filter_policy"],
			e["Levels[5].filter_policy"], e["format_major_version"])
	}

	for name, want := range map[string]string{
		"mem_table_size":                  "2097152",
		"mem_table_stop_writes_threshold": "8",
		"l0_compaction_threshold":         "2",
		"compaction_debt_concurrency":     "268435456",
		"wal_bytes_per_sync":              "512000",
		"Levels[0].block_size":            "4096",
	} {
		if e[name] != want {
			t.Errorf("%s is %q, want %s", name, e[name], want)
		}
	}
}

// TestColumnar measures and samples tables of the newest format.
func TestColumnar(t *testing.T) {
	const n = 30_000
	db := create(t, engine.Options{Profile: "columnar", CacheBytes: 1 << 20})
	w, err := db.Writer()
	if err != nil {
		t.Fatal(err)
	}

	for i := range n {
		if err := w.Put(fmt.Appendf(nil, "key-%08d", i), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(w.Commit(), w.Close(), db.Settle(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}

	newest := fmt.Sprint(uint64(pebble.FormatNewest))
	if got, want := db.Effective()["format_major_version"], newest; got != want {
		t.Errorf("format %s, want %s", got, want)
	}

	r, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	seen := map[string]bool{}
	if err := db.(engine.KeySampler).SampleKeys(t.Context(), 500, 1, func(key []byte) error {
		seen[string(key)] = true
		_, found, err := r.Get(key, nil)
		if !found {
			err = errors.Join(err, fmt.Errorf("%q does not exist", key))
		}

		return err
	}); err != nil {
		t.Fatal(err)
	}

	if len(seen) < 450 {
		t.Errorf("%d distinct keys of 500", len(seen))
	}
}

func create(t *testing.T, o engine.Options) engine.DB {
	t.Helper()
	o.Dir, o.Create = filepath.Join(t.TempDir(), "db"), true
	opened, err := Engine{}.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})

	return opened
}

// bare makes a database with options no profile has, and n values of valueBytes.
func bare(t *testing.T, options *pebble.Options, n, valueBytes int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	made, err := pebble.Open(dir, options)
	if err != nil {
		t.Fatal(err)
	}

	rng := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		value := make([]byte, valueBytes)
		for j := range value {
			value[j] = byte(rng.Uint32())
		}

		if err := made.Set(fmt.Appendf(nil, "key-%08d", i), value, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(made.Flush(), made.Compact(t.Context(), []byte("a"), []byte("z"), false),
		made.Close()); err != nil {
		t.Fatal(err)
	}

	return dir
}

// TestOtherComparer wants an error that names what we cannot open.
func TestOtherComparer(t *testing.T) {
	comparer := *pebble.DefaultComparer
	comparer.Name = "backwards"
	dir := bare(t, &pebble.Options{Comparer: &comparer}, 10, 10)
	opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if err == nil {
		t.Fatal(errors.Join(errors.New("opened"), opened.Close()))
	}

	if !strings.Contains(err.Error(), "backwards") {
		t.Error(err)
	}
}

// TestSampleIsUniform compares draws of keys with the list of all: of tables on level 6 and of
// several on level 0, of an ingested one, of keys that have several versions in one table, of merge
// operands with and without a value below them.
func TestSampleIsUniform(t *testing.T) {
	for _, format := range []pebble.FormatMajorVersion{13, pebble.FormatNewest} {
		t.Run(fmt.Sprint(format), func(t *testing.T) { sampleIsUniform(t, format) })
	}
}

func sampleIsUniform(t *testing.T, format pebble.FormatMajorVersion) {
	h := enginetest.NewHistory()
	options := &pebble.Options{DisableAutomaticCompactions: true, Logger: pebbledb.Logger{}}
	dir := enginetest.BuildHistory(t, Engine{}, h,
		map[string]string{
			"DisableAutomaticCompactions": "true",
			"FormatMajorVersion":          fmt.Sprint(uint64(format)),
		}, func(dir string) {
			db, err := pebble.Open(dir, options)
			must(t, err)
			must(t, db.Compact(t.Context(), []byte{0}, []byte{255, 255}, true))
			must(t, db.Close())
		})

	db, err := pebble.Open(dir, options)
	must(t, err)
	var merged, twice, ingested [][]byte
	for i, key := range h.Keys() {
		_, live := h.Live[key]
		switch i % 9 {
		case 0:
			merged = append(merged, []byte(key))
			h.Live[key] = fmt.Sprintf("merged, live before: %v", live)
		case 1:
			twice = append(twice, []byte(key))
			h.Live[key] = "twice in a table"
		case 2:
			ingested = append(ingested, []byte(key))
			h.Live[key] = "ingested"
		}
	}

	for _, key := range merged {
		must(t, db.Merge(key, []byte("operand"), nil))
	}

	var snapshots []*pebble.Snapshot
	for version := range 3 { // each snapshot keeps one
		for _, key := range twice {
			must(t, db.Set(key, fmt.Appendf(nil, "version %d", version), nil))
		}
		snapshots = append(snapshots, db.NewSnapshot())
	}

	must(t, db.Flush())
	path := filepath.Join(t.TempDir(), "ingested.sst")
	file, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	table := sstable.NewWriter(objstorageprovider.NewFileWritable(file), sstable.WriterOptions{
		TableFormat: db.TableFormat(),
	})
	for _, key := range ingested {
		must(t, table.Set(key, []byte("ingested")))
	}

	must(t, table.Close())
	must(t, db.Ingest(t.Context(), []string{path}))
	for _, s := range snapshots {
		must(t, s.Close())
	}

	must(t, db.Close())
	opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
	must(t, err)
	enginetest.CheckUniform(t, opened, h.Live)
	must(t, opened.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
