package libtest

import (
	"syscall"
	"testing"
)

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
