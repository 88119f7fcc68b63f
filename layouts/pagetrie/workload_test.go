//go:build linux

package pagetrie

import (
	"testing"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, o layout.Options) *pageState {
	t.Helper()
	s, err := Layout{}.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s.(*pageState)
}

// play commits so many blocks to the state and to the reference and compares roots.
func play(t testing.TB, w layouttest.Workload, s *pageState, reference *mpt.Reference, blocks int) {
	t.Helper()
	for range blocks {
		must(t, w.Play(t.Context(), s, reference, layout.EthereumRoot))
	}
}

func check(t testing.TB, dir string) Checked {
	t.Helper()
	checked, err := Check(dir)
	must(t, err)
	return checked
}
