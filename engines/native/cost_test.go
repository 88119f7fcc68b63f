//go:build cgo

package native

import (
	"encoding/binary"
	"strconv"
	"syscall"
	"testing"

	"github.com/statelab/statelab/engine"
)

// What the route may add to a Get of the library's own, in CPU time.
const mostNanosPerGet = 100

// TestTheRouteCostsLittle holds a loop of Gets through the adapter against the
// same loop wholly in C, by CPU time, which other processes disturb least. The
// least of several attempts counts: disturbance only adds.
func TestTheRouteCostsLittle(t *testing.T) {
	const gets, attempts = 500_000, 7
	d := openNull(t, map[string]string{"loop": strconv.Itoa(gets)})
	least := func(loop func()) float64 {
		best := 0.0
		for i := range attempts {
			before := cpuNanos(t)
			loop()
			if each := float64(cpuNanos(t)-before) / gets; i == 0 || each < best {
				best = each
			}
		}
		return best
	}
	inC := least(func() { must(t, d.Sync(t.Context())) })
	r, err := d.Reader()
	must(t, err)
	through := least(func() { getLoop(t, r, gets) })
	t.Logf("%.1f ns a Get through the adapter, %.1f ns in C: %.1f ns are the route's", through, inC, through-inC)
	if through-inC > mostNanosPerGet {
		t.Errorf("the route costs %.1f ns of CPU a Get, want at most %d", through-inC, mostNanosPerGet)
	}
}

func BenchmarkGetInC(b *testing.B) {
	d := openNull(b, map[string]string{"loop": strconv.Itoa(b.N)})
	b.ResetTimer()
	before := cpuNanos(b)
	must(b, d.Sync(b.Context()))
	b.ReportMetric(float64(cpuNanos(b)-before)/float64(b.N), "cpu-ns/op")
}

func BenchmarkGetThroughTheAdapter(b *testing.B) {
	d := openNull(b, nil)
	r, err := d.Reader()
	must(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuNanos(b)
	getLoop(b, r, b.N)
	b.ReportMetric(float64(cpuNanos(b)-before)/float64(b.N), "cpu-ns/op")
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

func cpuNanos(t testing.TB) int64 {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
