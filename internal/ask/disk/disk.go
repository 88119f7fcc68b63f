// Package disk measures the limit of the disk beside what else is measured: as the ceiling of a
// sweep, as the hardware of a price, and for the estimate of an experiment.
//
// Non-goals: how reads are made and timed (observe/host).
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/statelab/statelab/internal/ask/evidence"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// What the ceiling of a sweep can be beside a folder.
const (
	Auto = "auto"
	None = "none"
)

// CheckCeiling reports why what --disk names is no result of a disk.
func CheckCeiling(text string) error {
	if text == "" || text == Auto || text == None {
		return nil
	}
	_, err := result.ReadDisk(text)
	return err
}

// Seconds are those of a short look, for each number of reads in flight.
const Seconds = 0.3

// QuickProbe is a short look at a disk.
type QuickProbe struct {
	Command []string // that is carried out
	Tell    result.EventFunc
	Say     func(format string, args ...any)
}

// store puts the limit of the disk under dir into the folder out.
func (l QuickProbe) store(ctx context.Context, dir, out string, inFlight []int) error {
	d, err := host.MeasureDisk(ctx, host.DiskPlan{Dir: dir, InFlight: inFlight, Seconds: Seconds,
		Repeats: 3}, func(text string) { l.Tell(result.Event{Phase: text}) })
	if err != nil {
		return err
	}
	d.Command = l.Command
	return result.WriteDisk(out, d)
}

// Ceiling stores the disk's limit in the folder of a sweep: the one that the folder from holds, or
// a short look at the disk if the sweep's reads are to reach it. A disk that cannot be probed
// costs the ceiling, not the sweep.
func (l QuickProbe) Ceiling(ctx context.Context, from string, s sweep.Sweep, out string) error {
	switch from {
	case "", None:
		return nil
	case Auto:
	default:
		d, err := result.ReadDisk(from)
		if err != nil {
			return err
		}
		return result.WriteDisk(out, d)
	}

	if _, err := os.Stat(filepath.Join(out, result.DiskFile)); err == nil || !s.ReachesDevice() {
		return nil // a sweep that goes on has it
	}

	dir, err := out, error(nil)
	if s.Base.Dir != "" {
		var remove func()
		if dir, remove, err = evidence.ProbeDir(s.Base.Dir, out); err == nil {
			defer remove()
		}
	}

	if err == nil {
		err = l.store(ctx, dir, out, s.Flights())
	}

	if err == nil {
		return nil
	}

	l.Say("no ceiling: %v", err)
	return ctx.Err()
}

// Hardware is the disk under the folder out, which keeps its limit.
func (l QuickProbe) Hardware(ctx context.Context, out string) (*result.Hardware, error) {
	_, err := result.ReadDisk(out)
	if errors.Is(err, fs.ErrNotExist) {
		err = l.store(ctx, out, out, []int{1, 2, 4, 8, 16, 32, 64})
	}
	if err != nil {
		return nil, fmt.Errorf("measure the disk: %w", err)
	}
	return result.ReadHardware(out)
}

// Step is what readings take: fio reads as long as we do, and a folder with little in it gets a
// file to read.
func Step(l host.DiskPlan) estimate.Step {
	const fileBytes, memoryBytes = 256 << 20, 64 << 20
	s := estimate.Step{
		Kind:        estimate.ReadKind,
		Name:        "reading " + l.Dir + " at random",
		MemoryBytes: memoryBytes,
		Seconds:     float64(len(l.InFlight)*l.Repeats) * l.Seconds,
		Basis:       "--seconds for each number in flight and repeat; twice where fio is installed",
	}

	if _, err := exec.LookPath("fio"); err == nil && l.Fio {
		s.Seconds *= 2
	}

	if bytes, _ := host.FilesIn(l.Dir); bytes < fileBytes {
		s.PeakDiskBytes = fileBytes
	}

	return s
}

// Machine is what estimates take from this machine. Measured, it takes the time to measure the disk
// under dir; direct, with random reads, too.
func Machine(ctx context.Context, dir string, measured, direct bool) (estimate.Machine, error) {
	m := estimate.Machine{Cores: runtime.NumCPU(), AvailableMemory: host.AvailableMemory()}
	if !measured {
		return m, nil
	}

	var err error
	if m.WriteBytes, err = host.ProbeWrite(ctx, dir); err != nil {
		return m, fmt.Errorf("measure the disk for the estimate: %w", err)
	}

	if direct {
		m.Disk, err = host.MeasureDisk(
			ctx,
			host.DiskPlan{Dir: dir, InFlight: []int{1, 8}, Seconds: Seconds, Repeats: 1},
			func(string) {},
		)
	}

	return m, err
}

// Room tells why the disk under dir or the memory cannot hold what is estimated; nil if they can.
// It shows the estimate, if there is a place for it.
func Room(e estimate.Estimate, dir string, show func(*doc.Document) error) (wrong, err error) {
	free, err := host.FreeBytes(dir)
	if err != nil {
		return nil, fmt.Errorf("find out how much space is free: %w", err)
	}

	memory := host.AvailableMemory()
	if memory == 0 {
		memory = math.MaxInt64 // the kernel does not tell
	}

	if show != nil {
		err = show(e.Document(free, memory))
	}

	return e.Fits(free, memory), err
}
