package main

import (
	"fmt"
	"math"
	"runtime"

	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/disk"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/sweep"
)

// dryRun ends a verb that was only to say what it would do.
type dryRun struct{}

func (dryRun) Error() string { return "dry run" }

// machine is what estimates take from this machine; a dry run takes the time to measure
// the disk under dir.
func (a *app) machine(f *flags, dir string, direct bool) (estimate.Machine, error) {
	m := estimate.Machine{Cores: runtime.NumCPU(), AvailableMemory: host.AvailableMemory()}
	if !f.dryRun {
		return m, nil
	}
	var err error
	if m.WriteBytes, err = host.ProbeWrite(a.ctx, dir); err != nil {
		return m, fmt.Errorf("measure the disk for the estimate: %w", err)
	}
	if direct {
		m.Disk, err = host.Limit(a.ctx, host.LimitPlan{Dir: dir, InFlight: []int{1, 8}, Seconds: disk.Seconds, Repeats: 1}, func(string) {})
	}
	return m, err
}

// estimated refuses steps that the disk under dir or the memory cannot hold, and shows
// the estimate for --dry-run.
func (a *app) estimated(f *flags, dir string, steps []estimate.Step) (estimate.Estimate, error) {
	e := estimate.Total(steps)
	free, err := host.FreeBytes(dir)
	if err != nil {
		return e, fmt.Errorf("find out how much space is free: %w", err)
	}
	memory := host.AvailableMemory()
	if memory == 0 {
		memory = math.MaxInt64 // the kernel does not tell
	}
	if f.dryRun {
		if err := e.Text(a.stdout, free, memory); err != nil {
			return e, err
		}
	}
	if wrong := e.Fits(free, memory); wrong != nil && !f.ignoreSpace && !f.resume && !f.elsewhere() {
		return e, fmt.Errorf("%w; --ignore-space starts all the same", wrong)
	}
	if f.dryRun {
		return e, dryRun{}
	}
	return e, nil
}

// sweepSteps are what each run of a sweep will take.
func (a *app) sweepSteps(s sweep.Sweep, how plan.Plan, on estimate.Machine) ([]estimate.Step, error) {
	return s.Steps(how, on, a.tables.engines.WithCgo, curve.Predictable(s))
}

func bytesIn(dir string) int64 {
	bytes, _ := host.FilesIn(dir)
	return bytes
}
