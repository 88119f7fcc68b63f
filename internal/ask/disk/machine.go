package disk

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/estimate"
)

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
		m.Disk, err = host.Limit(ctx, host.LimitPlan{Dir: dir, InFlight: []int{1, 8}, Seconds: Seconds, Repeats: 1}, func(string) {})
	}
	return m, err
}

// Room tells why the disk under dir or the memory cannot hold what is estimated; nil if they can.
// It prints the estimate, if there is a place for it.
func Room(e estimate.Estimate, dir string, shown io.Writer) (wrong, err error) {
	free, err := host.FreeBytes(dir)
	if err != nil {
		return nil, fmt.Errorf("find out how much space is free: %w", err)
	}
	memory := host.AvailableMemory()
	if memory == 0 {
		memory = math.MaxInt64 // the kernel does not tell
	}
	if shown != nil {
		err = e.Text(shown, free, memory)
	}
	return e.Fits(free, memory), err
}
