package pebble2

import (
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/internal/pebbledb/pebbletest"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }

func TestOracles(t *testing.T) { pebbletest.Run(t, Engine{}) }

// TestGetAddsNoAllocation compares with a bare Get.
func TestGetAddsNoAllocation(t *testing.T) {
	opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: filepath.Join(t.TempDir(), "db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	d := opened.(*db)
	key, dst := []byte("key"), make([]byte, 0, 128)
	if err := d.pebble.Set(key, make([]byte, 110), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if err := d.Settle(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}
	bare := testing.AllocsPerRun(5000, func() {
		_, closer, err := d.pebble.Get(key)
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
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
