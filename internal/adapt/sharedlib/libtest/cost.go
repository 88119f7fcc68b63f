package libtest

import (
	"syscall"
	"testing"
)

const (
	// mostNanos is what the route may add to a call of the library's own, in CPU time.
	mostNanos = 100
	attempts  = 7
)

// CheckRoute holds so many calls through an adapter against the same loop wholly in C,
// by CPU time, which other processes disturb least. The least of several attempts
// counts: disturbance only adds.
func CheckRoute(t *testing.T, calls int, inC, through func()) {
	t.Helper()
	each := func(loop func()) float64 {
		least := cpuNanosOf(t, loop)
		for range attempts - 1 {
			least = min(least, cpuNanosOf(t, loop))
		}
		return float64(least) / float64(calls)
	}
	c, adapter := each(inC), each(through)
	t.Logf("%.1f ns a call through the adapter, %.1f ns in C: %.1f ns are the route's", adapter, c, adapter-c)
	if adapter-c > mostNanos {
		t.Errorf("the route costs %.1f ns of CPU a call, want at most %d", adapter-c, mostNanos)
	}
}

// BenchmarkCPU reports the CPU time of a loop of b.N calls, a call.
func BenchmarkCPU(b *testing.B, loop func()) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	b.ReportMetric(float64(cpuNanosOf(b, loop))/float64(b.N), "cpu-ns/op")
}

func cpuNanosOf(t testing.TB, loop func()) int64 {
	t.Helper()
	before := cpuNanos(t)
	loop()
	return cpuNanos(t) - before
}

func cpuNanos(t testing.TB) int64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
