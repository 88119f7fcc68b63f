package pebble1

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/sstable"
	"github.com/cockroachdb/pebble/vfs"

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

// TestGethFilters: geth has no filters on the last level of a v1 database.
func TestGethFilters(t *testing.T) {
	opened, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:        filepath.Join(t.TempDir(), "db"),
		Create:     true,
		Profile:    "geth-1.17-v1",
		CacheBytes: 16 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}

	e := opened.Effective()
	for name, want := range map[string]string{
		"Levels[5].filter_policy":         "rocksdb.BuiltinBloomFilter",
		"Levels[6].filter_policy":         "none",
		"Levels[0].target_file_size":      "16777216",
		"Levels[1].target_file_size":      "4194304",
		"Levels[6].target_file_size":      "134217728",
		"mem_table_size":                  "2097152",
		"mem_table_stop_writes_threshold": "8",
		"l0_compaction_threshold":         "2",
		"compaction_debt_concurrency":     "268435456",
		"wal_bytes_per_sync":              "512000",
		"format_major_version":            "1",
	} {
		if e[name] != want {
			t.Errorf("%s is %q, want %s", name, e[name], want)
		}
	}

	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOtherComparer wants an error that names what we cannot open.
func TestOtherComparer(t *testing.T) {
	comparer := *pebble.DefaultComparer
	comparer.Name = "backwards"
	dir := filepath.Join(t.TempDir(), "db")
	made, err := pebble.Open(dir, &pebble.Options{Comparer: &comparer})
	if err != nil {
		t.Fatal(err)
	}

	if err := made.Close(); err != nil {
		t.Fatal(err)
	}

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
	h := enginetest.NewHistory()
	options := &pebble.Options{DisableAutomaticCompactions: true, Logger: pebbledb.Logger{}}
	dir := enginetest.BuildHistory(t, Engine{}, h,
		map[string]string{"DisableAutomaticCompactions": "true"}, func(dir string) {
			db, err := pebble.Open(dir, options)
			must(t, err)
			must(t, db.Compact([]byte{0}, []byte{255, 255}, true))
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
	file, err := vfs.Default.Create(path)
	must(t, err)
	table := sstable.NewWriter(objstorageprovider.NewFileWritable(file), sstable.WriterOptions{
		TableFormat: sstable.TableFormatRocksDBv2,
	})
	for _, key := range ingested {
		must(t, table.Set(key, []byte("ingested")))
	}

	must(t, table.Close())
	must(t, db.Ingest([]string{path}))
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
