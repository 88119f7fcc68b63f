package layouts

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
	"github.com/statelab/statelab/internal/host"
	"github.com/statelab/statelab/internal/measure"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/state"
)

// run is one stage of a layout while it is measured.
type run struct {
	spec      *Spec
	layout    state.Layout
	state     state.State
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
func Run(ctx context.Context, layout state.Layout, spec *Spec, tell result.Tell) (*result.Run, error) {
	r := &run{spec: spec, layout: layout, tell: tell, clock: measure.NewClock(), result: Blank(spec, layout.Info())}
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
	opened, err := r.layout.Open(ctx, r.spec.options())
	if err != nil {
		return fmt.Errorf("open %s with %s: %w", r.spec.Dir, r.spec.Layout, err)
	}
	r.state = opened
	r.result.Engine.Options = opened.Effective()
	return nil
}

// settle waits for background work and measures what the state takes.
func (r *run) settle(ctx context.Context) error {
	if err := r.state.Settle(ctx); err != nil {
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

// counted is every counter at one moment.
type counted struct {
	at      time.Time
	layout  state.Counters
	process result.ProcessIO
	device  *result.DeviceIO
}

func (r *run) count() (c counted, err error) {
	c.layout = r.state.Counters()
	if r.device.Private {
		io, err := r.device.Now()
		if err != nil {
			return c, err
		}
		c.device = &io
	}
	c.process, err = host.ProcessNow()
	c.at = time.Now()
	return c, err
}

// cost is the difference of two counts.
type cost struct {
	seconds float64
	layout  state.Counters
	process result.ProcessIO
	device  *result.DeviceIO
}

// phase runs work as a named phase with its own counters.
func (r *run) phase(name string, work func() (ops uint64, err error)) (cost, error) {
	r.tell(result.Event{Phase: name})
	before, err := r.count()
	if err != nil {
		return cost{}, err
	}
	ops, workErr := work()
	after, err := r.count()
	if err := errors.Join(workErr, err); err != nil {
		return cost{}, fmt.Errorf("%s: %w", name, err)
	}
	c := cost{seconds: after.at.Sub(before.at).Seconds(), process: host.ProcessBetween(before.process, after.process), layout: state.Counters{
		Reads: less(after.layout.Reads, before.layout.Reads), ReadBytes: less(after.layout.ReadBytes, before.layout.ReadBytes),
		Writes: less(after.layout.Writes, before.layout.Writes), WriteBytes: less(after.layout.WriteBytes, before.layout.WriteBytes),
		NodesNew: less(after.layout.NodesNew, before.layout.NodesNew)}}
	if before.device != nil && after.device != nil {
		io := host.DeviceBetween(*before.device, *after.device)
		c.device = &io
	}
	known := map[string]int64{}
	for name, n := range map[string]*int64{"reads": c.layout.Reads, "read_bytes": c.layout.ReadBytes, "writes": c.layout.Writes,
		"write_bytes": c.layout.WriteBytes, "nodes_new": c.layout.NodesNew} {
		if n != nil {
			known[name] = *n
		}
	}
	r.result.Phases = append(r.result.Phases, result.Phase{Name: name, Seconds: c.seconds, Ops: ops, Process: &c.process, Device: c.device,
		CPUNanos: c.process.UserNanos + c.process.SystemNanos, Engine: known})
	return c, nil
}

func less(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	d := *a - *b
	return &d
}

// deviceReadBytes are the private device's, else the kernel's account of the process.
func (c cost) deviceReadBytes() int64 {
	if c.device != nil {
		return c.device.ReadBytes
	}
	return c.process.ReadBytes
}

func (c cost) deviceReads() *int64 {
	if c.device == nil {
		return nil
	}
	return &c.device.Reads
}

// deviceWriteBytes are the process's: a device's own include what the filesystem
// writes for it, and come later.
func (c cost) deviceWriteBytes() int64 { return c.process.WriteBytes }

func each(total *int64, ops uint64) *float64 {
	if total == nil || ops == 0 {
		return nil
	}
	per := float64(*total) / float64(ops)
	return &per
}

func (r *run) noteRoot(root state.Hash) {
	if r.layout.Info().Root == state.NoRoot {
		return
	}
	f := r.result.Figures.State
	f.Root = hex.EncodeToString(root[:])
	f.Roots = append(f.Roots, result.StateAt{Block: r.state.Block(), Root: f.Root})
}

func (r *run) warn(w engine.Warning) {
	if !slices.Contains(r.result.Warnings, w) {
		r.result.Warnings = append(r.result.Warnings, w)
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
