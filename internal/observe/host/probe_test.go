//go:build linux

package host

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
)

// probeReads reads with each number in flight.
func probeReads(
	ctx context.Context, dir string, inFlight []int, seconds float64,
) (points []ProbePoint, err error) {
	p, err := OpenProbe(ctx, dir)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, p.Close()) }()
	for _, n := range inFlight {
		point, err := p.Read(ctx, n, seconds)
		if err != nil {
			return nil, err
		}
		points = append(points, point)
	}

	return points, nil
}

// The private device counts what the probe claims.
func TestProbeReadsReachTheDevice(t *testing.T) {
	mountPoint, d := newVolume(t, 640<<20)
	before := deviceNow(t, d)
	threads := runtime.GOMAXPROCS(0)
	points, err := probeReads(context.Background(), mountPoint, []int{1, 4, 16}, 0.3)
	if err != nil {
		t.Fatal(err)
	}

	device := Between(before, deviceNow(t, d))
	var reads int64
	for _, p := range points {
		t.Logf("%2d in flight: %6.0f reads/s, mean %4.0f us, p99 %4.0f us", p.InFlight,
			p.ReadsPerSecond, p.MeanNanos/1e3, float64(p.P99Nanos)/1e3)
		reads += int64(p.Reads)
		// Little's law: the readers do nothing but read, or wait for a processor
		// that a neighbour has.
		busy := p.MeanNanos * float64(p.Reads) / (p.Seconds * 1e9)
		if busy > float64(p.InFlight) || busy < 0.5*float64(p.InFlight) {
			t.Errorf("%d in flight were wanted, %.2f seen", p.InFlight, busy)
		}

		// One of a hundred reads takes as long or longer.
		if p.P99Nanos <= 0 || float64(p.P99Nanos) > 101*p.MeanNanos {
			t.Errorf("p99 %d ns, mean %.0f ns", p.P99Nanos, p.MeanNanos)
		}
	}

	// A few more are the filesystem's own: where the file's blocks are.
	if extra := device.Reads - reads; extra < 0 || extra > 50 {
		t.Errorf("the probe counts %d reads, the device %d", reads, device.Reads)
	}

	if left, err := os.ReadDir(mountPoint); err != nil || len(left) != 1 ||
		left[0].Name() != "lost+found" {
		t.Errorf("left behind: %v, error %v", left, err)
	}

	if now := runtime.GOMAXPROCS(0); now != threads {
		t.Errorf("GOMAXPROCS is %d, was %d", now, threads)
	}
}

func TestReadAreaNumbersBlocksThrough(t *testing.T) {
	area := new(readArea)
	var files [3]*os.File
	for i, bytes := range []int64{2*directBytes + 100, directBytes - 1, 3 * directBytes} {
		files[i] = randomFile(t, t.TempDir(), int(bytes))
		area.add(files[i], bytes)
	}

	want := []struct {
		file   int
		offset int64
	}{{0, 0}, {0, 4096}, {2, 0}, {2, 4096}, {2, 8192}}

	if area.blocks != int64(len(want)) {
		t.Fatalf("%d blocks, want %d", area.blocks, len(want))
	}

	for block, w := range want {
		if fd, offset := area.at(int64(block)); fd != int(files[w.file].Fd()) ||
			offset != w.offset {
			t.Errorf("block %d is at %d of descriptor %d, want file %d at %d", block, offset, fd,
				w.file, w.offset)
		}
	}
}

func TestCancelledProbeSaysSo(t *testing.T) {
	dir := onDisk(t)
	if err := DirectSupported(dir); err != nil {
		t.Skip(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := probeReads(ctx, dir, []int{1}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}

	wantNothing(t, dir)
}

func TestProbeWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	speed, err := ProbeWrite(context.Background(), dir)
	if err != nil || !(speed > 0) {
		t.Errorf("%g bytes/s, error %v", speed, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}
