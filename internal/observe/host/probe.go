//go:build linux

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/measure"
)

// probeBytes is the least data to read from. More would say more of a disk with
// a large cache of its own, and take longer to write.
const probeBytes = 256 << 20

// Probe makes random 4-KiB O_DIRECT reads in a folder: of its files where they are large
// enough, and else of a file that it writes and deletes. Readings can take turns with
// somebody else's.
type Probe struct {
	area   *readArea
	clock  *measure.Clock
	remove func() error
}

// OpenProbe chooses the files of dir to read from, or writes one. Close removes
// what was written.
func OpenProbe(ctx context.Context, dir string) (p *Probe, err error) {
	defer wrap(&err, "probe the disk of %s", dir)
	if err := tryDirect(dir); err != nil {
		return nil, err
	}

	area, remove, err := probeArea(ctx, dir)
	if err != nil {
		return nil, err
	}

	return &Probe{area: area, clock: measure.NewClock(), remove: remove}, nil
}

// Read measures with inFlight readers for seconds.
func (p *Probe) Read(ctx context.Context, inFlight int, seconds float64) (ProbePoint, error) {
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	runtime.GOMAXPROCS(max(threads, inFlight+1)) // and one to end them
	return probePoint(ctx, p.area, p.clock, inFlight, seconds)
}

// ProbeWrite is how many bytes a second a file in dir is written at, in order, until the
// disk has them. It writes and deletes 64 MiB: enough to size up a load, no more.
func ProbeWrite(ctx context.Context, dir string) (bytesPerSecond float64, err error) {
	const bytes = 64 << 20
	start := time.Now()
	path, err := writeProbeFile(ctx, dir, bytes)
	if err != nil {
		return 0, fmt.Errorf("probe the disk of %s: %w", dir, err)
	}
	return bytes / time.Since(start).Seconds(), os.Remove(path)
}

// Paths are the files read from.
func (p *Probe) Paths() []string {
	var paths []string
	for _, f := range p.area.files {
		paths = append(paths, f.Name())
	}
	return paths
}

// Bytes is how much they hold.
func (p *Probe) Bytes() int64 { return p.area.blocks * directBytes }

// Close removes the file that OpenProbe wrote, if any.
func (p *Probe) Close() error { return errors.Join(p.area.close(), p.remove()) }

func probePoint(
	ctx context.Context, area *readArea, clock *measure.Clock, inFlight int, seconds float64,
) (ProbePoint, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
	defer cancel()
	var stop atomic.Bool
	times := make([]*measure.Histogram, inFlight)
	failures := make([]error, inFlight)
	var readers sync.WaitGroup
	start := clock.Ticks()
	for i := range inFlight {
		times[i] = measure.NewHistogram()
		readers.Go(func() {
			failures[i] = readUntil(&stop, area, clock,
				rand.New(rand.NewPCG(uint64(inFlight), uint64(i))), times[i])
		})
	}

	<-ctx.Done()
	stop.Store(true)
	readers.Wait()
	elapsed := float64(clock.Nanos(clock.Ticks()-start)) / 1e9

	all := times[0]
	for _, h := range times[1:] {
		all.Merge(h)
	}

	err := errors.Join(failures...)
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // the caller's, not ours
		err = errors.Join(err, ctx.Err())
	}

	return ProbePoint{
		InFlight:       inFlight,
		Reads:          all.N(),
		Seconds:        elapsed,
		ReadsPerSecond: float64(all.N()) / elapsed,
		MeanNanos:      all.Mean(),
		P99Nanos:       all.Quantile(0.99),
	}, err
}

func readUntil(
	stop *atomic.Bool, area *readArea, clock *measure.Clock, random *rand.Rand,
	times *measure.Histogram,
) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	block := alignedBlock()
	for !stop.Load() {
		fd, offset := area.at(random.Int64N(area.blocks))
		start := clock.Ticks()
		n, err := unix.Pread(fd, block, offset)
		end := clock.Ticks()
		if errors.Is(err, unix.EINTR) {
			continue
		}

		if err != nil || n != directBytes {
			return fmt.Errorf("read %d bytes at %d: got %d: %w", directBytes, offset, n, err)
		}

		times.Add(clock.Nanos(end - start))
	}

	return nil
}

// readArea numbers the whole blocks of several files through.
type readArea struct {
	files  []*os.File
	ends   []int64 // blocks up to the end of each file
	blocks int64
}

func (a *readArea) add(f *os.File, bytes int64) {
	a.blocks += bytes / directBytes
	a.files = append(a.files, f)
	a.ends = append(a.ends, a.blocks)
}

func (a *readArea) at(block int64) (fd int, offset int64) {
	i := sort.Search(len(a.ends), func(i int) bool { return a.ends[i] > block })
	if i > 0 {
		block -= a.ends[i-1]
	}
	return int(a.files[i].Fd()), block * directBytes
}

func (a *readArea) close() error {
	var errs []error
	for _, f := range a.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// probeArea opens the largest files of dir or a new one.
func probeArea(ctx context.Context, dir string) (area *readArea, remove func() error, err error) {
	type file struct {
		path  string
		bytes int64
	}

	var found []file
	if err := eachFile(ctx, dir, func(f *os.File, bytes int64) error {
		found = append(found, file{f.Name(), bytes})
		return nil
	}); err != nil {
		return nil, nil, err
	}

	slices.SortFunc(found, func(a, b file) int { return cmp.Compare(b.bytes, a.bytes) })
	const enoughFiles = 256
	found = found[:min(len(found), enoughFiles)]
	var bytes int64
	for _, f := range found {
		bytes += f.bytes
	}

	remove = func() error { return nil }
	if bytes < probeBytes {
		path, err := writeProbeFile(ctx, dir, probeBytes)
		if err != nil {
			return nil, nil, err
		}

		found = []file{{path, probeBytes}}
		remove = func() error { return os.Remove(path) }
	}

	area = new(readArea)
	for _, f := range found {
		opened, err := os.OpenFile(f.path, os.O_RDONLY|unix.O_DIRECT, 0)
		if errors.Is(err, fs.ErrNotExist) { // somebody else's, deleted since it was found
			continue
		}

		if err != nil {
			return nil, nil, errors.Join(err, area.close(), remove())
		}

		area.add(opened, f.bytes)
	}

	if area.blocks == 0 {
		return nil, nil, errors.Join(errors.New("every file that was found to read was deleted "+
			"meanwhile: probe a quieter folder"), remove())
	}

	return area, remove, nil
}

// writeProbeFile writes what no layer below can compress or deduplicate: blocks
// never written are read without asking the disk.
func writeProbeFile(ctx context.Context, dir string, bytes int64) (path string, err error) {
	free, err := FreeBytes(dir)
	if err != nil {
		return "", err
	}

	if free < 2*bytes {
		return "", fmt.Errorf("%s are free, twice %s are wanted for a file to read",
			unit.Bytes(free), unit.Bytes(bytes))
	}

	f, err := os.CreateTemp(dir, ".statelab-probe-*")
	if err != nil {
		return "", err
	}

	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()

	random := rand.NewChaCha8([32]byte{})
	chunk := make([]byte, 1<<20)
	for range bytes / int64(len(chunk)) {
		if err := ctx.Err(); err != nil {
			return "", err
		}

		if _, err := random.Read(chunk); err != nil {
			return "", err
		}

		if _, err := f.Write(chunk); err != nil {
			return "", err
		}
	}

	return f.Name(), f.Sync()
}
