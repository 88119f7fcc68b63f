//go:build cgo

package clayout

import (
	"strconv"
	"testing"

	"github.com/statelab/statelab/internal/adapt/sharedlib/libtest"
	"github.com/statelab/statelab/layout"
)

func TestLookupsAllocateNothing(t *testing.T) {
	_, r := openLoop(t, 0)
	buffer := make([]byte, 0, 32)
	if n := testing.AllocsPerRun(1000, func() {
		lookUp(t, r, 1)
		if _, _, err := r.Slot(layout.Hash{}, someSlot, buffer); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for an account and a slot", n)
	}
}

func BenchmarkLookupInC(b *testing.B) {
	s, _ := openLoop(b, b.N)
	libtest.BenchmarkCPU(b, func() { must(b, s.Settle(b.Context())) })
}

func BenchmarkLookupThroughTheAdapter(b *testing.B) {
	_, r := openLoop(b, 0)
	libtest.BenchmarkCPU(b, func() { lookUp(b, r, b.N) })
}

// openLoop has one account, the one that is looked up, whose settle looks it up in C.
func openLoop(t testing.TB, lookups int) (layout.State, layout.Reader) {
	t.Helper()
	s, err := Layout{Library: compileMap(t)}.Open(t.Context(), layout.Options{
		Dir:       t.TempDir(),
		Create:    true,
		Overrides: map[string]string{"loop": strconv.Itoa(lookups)},
	})

	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	must(t,
		s.Change(layout.Change{
			New:   &layout.Account{Nonce: 1},
			Slots: []layout.Slot{{Key: someSlot, Value: []byte{7}}},
		}))

	_, err = s.Commit(t.Context())
	must(t, err)
	r, err := s.Reader()
	must(t, err)
	return s, r
}

func lookUp(t testing.TB, r layout.Reader, lookups int) {
	for range lookups {
		if _, found, err := r.Account(layout.Hash{}); err != nil || !found {
			t.Fatal(found, err)
		}
	}
}
