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
	o := tree.Options{Dir: filepath.Join(t.TempDir(), "forest"), Create: true, Stores: []string{"bank"}}
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
