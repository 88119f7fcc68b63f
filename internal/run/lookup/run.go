package lookup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// run is one stage of a layout while it is measured.
type run struct {
	spec      *Spec
	layout    layout.Layout
	state     layout.State
	tell      result.Tell
	clock     *measure.Clock
	device    host.Device
	held      held
	generator *Generator // of the newest block
	result    *result.Run
	log       []measure.LogEntry
}

// Run does what spec says and returns the run as far as it came. The run folder is
// written in every case; the error is also in it.
func Run(ctx context.Context, layout layout.Layout, spec *Spec, tell result.Tell) (*result.Run, error) {
	r := &run{spec: spec, layout: layout, tell: tell, clock: measure.NewClock(), result: Blank(spec, layout.Info())}
	machine := host.StartWatch(spec.Dir)
	err := r.do(ctx)
	if r.state != nil {
		if closeErr := r.state.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close %s: %w", spec.Dir, closeErr))
		}
	}
	err = errors.Join(err, r.held.release())
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("%s: %w", spec.WhenDiskIsFull(), err)
	}
	switch {
	case err == nil:
		r.result.Status = result.OK
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		r.result.Status, r.result.Error = result.Interrupted, "interrupted: what was measured until then is kept"
	default:
		r.result.Error = err.Error()
	}
	var warnings []engine.Warning
	r.result.Machine, warnings = machine.Stop()
	r.warn(warnings...)
	return r.result, errors.Join(err, r.store())
}

func (r *run) do(ctx context.Context) error {
	if errs := r.spec.Chain.Check(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := os.MkdirAll(r.spec.Dir, 0o755); err != nil {
		return fmt.Errorf("make the state's folder: %w", err)
	}
	r.result.Host = host.Facts(r.spec.Dir)
	r.result.Host.Clock, r.result.Host.ClockNanos = r.clock.Kind(), r.clock.CostNanos()
	var err error
	if r.device, err = host.DeviceOf(r.spec.Dir); err != nil || !r.device.Private {
		r.result.Absent["device_reads_per_lookup"] = "the state is on no device of its own: statelab volume makes one"
	}
	switch r.spec.Stage {
	case Build:
		return r.build(ctx)
	case Lookup:
		return r.lookUp(ctx)
	}
	return fmt.Errorf("this runner knows no stage %q", r.spec.Stage)
}

func (r *run) open(ctx context.Context) error {
	opened, err := r.layout.Open(ctx, options(r.spec))
	if err != nil {
		return fmt.Errorf("open %s with %s: %w", r.spec.Dir, r.spec.Layout, err)
	}
	r.state = opened
	r.result.Engine.Options = opened.Effective()
	return nil
}

// settle waits for background work, has everything written to the device, and
// measures what the state takes.
func (r *run) settle(ctx context.Context) error {
	if err := r.state.Settle(ctx); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if err := host.SyncFilesystem(r.spec.Dir); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	bytes, err := r.state.DiskBytes()
	if err != nil {
		return fmt.Errorf("measure the state's files: %w", err)
	}
	f := r.result.Figures.State
	f.DiskBytes, f.DiskBytesPerAccount = bytes, float64(bytes)/float64(r.spec.Chain.Accounts)
	return nil
}

func (r *run) noteRoot(root layout.Hash) {
	if r.layout.Info().Root == layout.NoRoot {
		return
	}
	f := r.result.Figures.State
	f.Root = hex.EncodeToString(root[:])
	f.Roots = append(f.Roots, result.StateAt{Block: r.state.Block(), Root: f.Root})
}

func (r *run) warn(warnings ...engine.Warning) {
	for _, w := range warnings {
		if !slices.Contains(r.result.Warnings, w) {
			r.result.Warnings = append(r.result.Warnings, w)
		}
	}
}

// summed is a histogram's summary, and keeps the histogram for latency.hlog.
func (r *run) summed(tag string, h *measure.Histogram) *result.Latency {
	if h.N() == 0 {
		return nil
	}
	r.log = append(r.log, measure.LogEntry{Tag: tag, Start: r.result.Started, End: time.Now(), Durations: h})
	latency := h.Summary()
	return &latency
}

// store writes the run folder.
func (r *run) store() error {
	var errs []error
	if peak, err := host.PeakRSS(); err == nil {
		r.result.Figures.PeakRSSBytes = peak
	} else {
		r.result.Absent["peak_rss_bytes"] = err.Error()
	}
	if len(r.log) > 0 {
		errs = append(errs, r.storeLatencies())
	}
	return errors.Join(append(errs, result.WriteRun(r.spec.Out, r.result))...)
}
