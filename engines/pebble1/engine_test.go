package pebble1

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
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
