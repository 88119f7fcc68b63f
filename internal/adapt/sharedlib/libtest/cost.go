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
	before := cpuNanos(b)
	loop()
	b.ReportMetric(float64(cpuNanos(b)-before)/float64(b.N), "cpu-ns/op")
}

func cpuNanos(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
