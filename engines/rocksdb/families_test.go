//go:build cgo

package rocksdb_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/engines/rocksdb/familytest"
)

func TestFamilies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if err := familytest.Write(t.Context(), dir, 60_000); err != nil {
		t.Fatal(err)
	}
	listed, err := rocksdb.Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if err != nil {
		t.Fatal(err)
	}
	shape, err := listed.Shape()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range shape.Tables {
		t.Logf("%s: %d keys in %d files", table.Name, table.Keys, table.Files)
		for _, l := range table.Levels {
			t.Logf("  %+v", l)
		}
	}
	warned := false
	for _, w := range listed.Warnings() {
		warned = warned || w.Code == engine.TableNotChosen && strings.Contains(w.Remedy, "code")
	}
	if !warned {
		t.Errorf("no warning that most keys are in other families: %v", listed.Warnings())
	}
	if err := listed.Close(); err != nil {
		t.Error(err)
	}
}
