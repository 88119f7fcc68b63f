//go:build linux

package host

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/result"
)

func TestProcessCountsItsReads(t *testing.T) {
	const blocks, blockBytes = 100, 4096
	f := randomFile(t, t.TempDir(), blocks*blockBytes)
	block := make([]byte, blockBytes)
	before := processNow(t)
	for i := range int64(blocks) {
		if _, err := f.ReadAt(block, i*blockBytes); err != nil {
			t.Fatal(err)
		}
	}

	d := Between(before, processNow(t))
	// One read is ProcessNow's own.
	if d.ReadCalls != blocks+1 {
		t.Errorf("%d read calls, want %d", d.ReadCalls, blocks+1)
	}

	if own := d.ReadChars - blocks*blockBytes; own < 50 || own > 200 {
		t.Errorf("%d characters read, want %d and ProcessNow's own 100 or so", d.ReadChars,
			blocks*blockBytes)
	}
}

// The process spins until the kernel's other account of it, getrusage, has seen 100 ms.
func TestProcessCountsItsTime(t *testing.T) {
	const spun = 100 * time.Millisecond
	cpu := func() time.Duration {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			t.Fatal(err)
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}

	start, before := cpu(), processNow(t)
	for cpu()-start < spun {
	}
	time.Sleep(time.Millisecond)
	d := Between(before, processNow(t))
	if got, maximum := time.Duration(d.UserNanos+d.SystemNanos), cpu()-start; got < spun*8/10 ||
		got > maximum+spun/5 {
		t.Errorf("%v of CPU by getrusage are %v", maximum, got)
	}

	if d.VoluntarySwitches < 1 {
		t.Errorf("sleeping took %d voluntary switches", d.VoluntarySwitches)
	}
}

func TestPeakRSS(t *testing.T) {
	touch := func(bytes int) {
		b := make([]byte, bytes)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		runtime.KeepAlive(b)
	}

	const bytes = 64 << 20
	// An earlier test's peak may be higher than all that this one touches.
	debug.FreeOSMemory()
	if err := ResetPeakRSS(); err != nil {
		t.Fatal(err)
	}

	before := peakRSS(t)
	touch(bytes)
	if grown := peakRSS(t) - before; grown < bytes/2 || grown > 2*bytes {
		t.Errorf("touching %d bytes raised the peak by %d", bytes, grown)
	}

	high := peakRSS(t)
	debug.FreeOSMemory()
	if err := ResetPeakRSS(); err != nil {
		t.Fatal(err)
	}

	if low := peakRSS(t); low > high-bytes/2 {
		t.Errorf("the peak is %d after a reset, %d before", low, high)
	}
}

func TestParseCounters(t *testing.T) {
	got, err := parseCounters([]byte("Name:\tx y\nVmHWM:\t    1784 kB\nsyscr: 10\nGroups:\t \n"))
	if err != nil || got["VmHWM"] != 1784 || got["syscr"] != 10 || len(got) != 2 {
		t.Errorf("%v, error %v", got, err)
	}
	if _, err := parseCounters([]byte("nonsense\n")); err == nil {
		t.Error("a line without a colon passes")
	}
}

func processNow(t *testing.T) result.ProcessIO {
	t.Helper()
	io, err := ProcessNow()
	if err != nil {
		t.Fatal(err)
	}
	return io
}

func peakRSS(t *testing.T) int64 {
	t.Helper()
	peak, err := PeakRSS()
	if err != nil {
		t.Fatal(err)
	}
	return peak
}

// randomFile writes and syncs a file that no layer below can compress or leave
// out.
func randomFile(t *testing.T, dir string, bytes int) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "blocks"))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { f.Close() })
	chunk := make([]byte, 1<<20)
	for left := bytes; left > 0; left -= len(chunk) {
		rand.Read(chunk)
		if _, err := f.Write(chunk[:min(left, len(chunk))]); err != nil {
			t.Fatal(err)
		}
	}

	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}

	return f
}
