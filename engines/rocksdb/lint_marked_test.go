//go:build cgo

package rocksdb_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/engines/rocksdb/familytest"
	"github.com/statelab/statelab/internal/ask/inspect"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestLintMarked: tables that RocksDB's own collector marked for compaction are found, and RocksDB
// rewrites them.
func TestLintMarked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if err := familytest.WriteMarked(dir, 20_000); err != nil {
		t.Fatal(err)
	}

	lint := func() []inspect.Finding {
		db, err := rocksdb.Engine{}.Open(t.Context(), engine.Options{
			Dir:      dir,
			ReadOnly: true,
			Foreign:  true,
		})
		if err != nil {
			t.Fatal(err)
		}

		shape, err := db.Shape()
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}

		found, err := inspect.Lint(t.Context(), dir, []engine.Table{{Levels: shape.Levels}}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}

		return found
	}

	if found := lint(); len(found) != 1 || found[0].Code != inspect.Marked ||
		found[0].DiskBytes == 0 {
		t.Fatalf("%+v, want %s", found, inspect.Marked)
	}

	db, err := rocksdb.Engine{}.Open(t.Context(), engine.Options{Dir: dir})
	if err == nil {
		err = errors.Join(db.Settle(t.Context(), nil), db.Close())
	}

	if err != nil {
		t.Fatal(err)
	}

	families, err := blockbased.ReadTableProperties(dir)
	if err != nil {
		t.Fatal(err)
	}

	if slices.ContainsFunc(families[0].Tables,
		func(w blockbased.Written) bool { return w.Marked }) {
		t.Error("opened for writing, tables are still marked")
	}
}
