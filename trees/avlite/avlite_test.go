//go:build cgo

package avlite

import (
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/tree"
	"github.com/statelab/statelab/tree/treetest"
)

func TestTree(t *testing.T) { treetest.Run(t, Tree{}) }

func TestRefusesToOpenAgain(t *testing.T) {
	o := tree.Options{
		Dir:    filepath.Join(t.TempDir(), "forest"),
		Create: true,
		Stores: []string{"bank"},
	}

	f, err := Tree{}.Open(t.Context(), o)
	if err == nil {
		err = f.Close()
	}

	if err != nil {
		t.Fatal(err)
	}

	for _, create := range []bool{false, true} {
		o.Create = create
		if f, err := (Tree{}).Open(t.Context(), o); err == nil {
			t.Errorf("opens again (create %v), at version %d", create, f.Version())
		}
	}
}

// The distance of checkpoints is a private field of the library: that it is the one
// meant shows in the log, whose segments before a checkpoint are removed.
func TestCheckpointsAtTheGivenDistance(t *testing.T) {
	o := tree.Options{
		Dir:       filepath.Join(t.TempDir(), "forest"),
		Create:    true,
		Stores:    []string{"bank"},
		Overrides: map[string]string{"CheckpointSegments": "1"},
	}

	opened, err := Tree{}.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}

	defer opened.Close()
	value := make([]byte, 1<<20)
	for version := range 3 { // a segment holds 50 MiB
		for key := range 52 {
			if err := opened.Set(0, []byte{byte(version), byte(key)}, value); err != nil {
				t.Fatal(err)
			}
		}

		if _, err := opened.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	if err := opened.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}

	if first, err := opened.(*forest).stores[0].wal.FirstIndex(); err != nil || first < 2 {
		t.Errorf("the log begins at segment %d (%v): no checkpoint", first, err)
	}
}
