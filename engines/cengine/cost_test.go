//go:build cgo

package cengine

import (
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/sharedlib/libtest"
)

func TestTheRouteCostsLittle(t *testing.T) {
	const gets = 500_000
	d := openNull(t, map[string]string{"loop": strconv.Itoa(gets)})
	r, err := d.Reader()
	must(t, err)
	libtest.CheckRoute(t, gets, func() { must(t, d.Sync(t.Context())) }, func() { getLoop(t, r, gets) })
}

func BenchmarkGetInC(b *testing.B) {
	d := openNull(b, map[string]string{"loop": strconv.Itoa(b.N)})
	libtest.BenchmarkCPU(b, func() { must(b, d.Sync(b.Context())) })
}

func BenchmarkGetThroughTheAdapter(b *testing.B) {
	d := openNull(b, nil)
	r, err := d.Reader()
	must(b, err)
	libtest.BenchmarkCPU(b, func() { getLoop(b, r, b.N) })
}

func getLoop(t testing.TB, r engine.Reader, gets int) {
	key, value := make([]byte, 32), make([]byte, 0, 256)
	for i := range gets {
		binary.NativeEndian.PutUint64(key, uint64(i))
		if _, found, err := r.Get(key, value); err != nil || !found {
			t.Fatal(found, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
