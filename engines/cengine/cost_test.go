//go:build cgo

package cengine

import (
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/sharedlib/libtest"
)

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
