package lookup

import (
	"errors"
	"fmt"
	"time"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// counted is every counter at one moment.
type counted struct {
	at      time.Time
	layout  layout.Counters
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
	if r.held.hold != nil {
		c.process.ReadCalls -= r.held.hold.ReadCalls()
	}
	c.at = time.Now()
	return c, err
}

// cost is the difference of two counts.
type cost struct {
	seconds float64
	layout  layout.Counters
	process result.ProcessIO
	device  *result.DeviceIO
}

// between runs work and returns what every counter counted meanwhile.
func (r *run) between(work func() error) (cost, error) {
	before, err := r.count()
	if err != nil {
		return cost{}, err
	}
	workErr := work()
	after, err := r.count()
	if err := errors.Join(workErr, err); err != nil {
		return cost{}, err
	}
	c := cost{seconds: after.at.Sub(before.at).Seconds(), process: host.ProcessBetween(before.process, after.process), layout: layout.Counters{
		Reads: less(after.layout.Reads, before.layout.Reads), ReadBytes: less(after.layout.ReadBytes, before.layout.ReadBytes),
		Writes: less(after.layout.Writes, before.layout.Writes), WriteBytes: less(after.layout.WriteBytes, before.layout.WriteBytes),
		NodesNew: less(after.layout.NodesNew, before.layout.NodesNew)}}
	if before.device != nil && after.device != nil {
		io := host.DeviceBetween(*before.device, *after.device)
		c.device = &io
	}
	return c, nil
}

// phase runs work as a named phase with its own counters.
func (r *run) phase(name string, work func() (ops uint64, err error)) (cost, error) {
	r.tell(result.Event{Phase: name})
	var ops uint64
	c, err := r.between(func() (err error) {
		ops, err = work()
		return err
	})
	if err != nil {
		return cost{}, fmt.Errorf("%s: %w", name, err)
	}
	r.notePhase(name, ops, c)
	return c, nil
}

func (r *run) notePhase(name string, ops uint64, c cost) {
	known := map[string]int64{}
	for name, n := range map[string]*int64{"reads": c.layout.Reads, "read_bytes": c.layout.ReadBytes, "writes": c.layout.Writes,
		"write_bytes": c.layout.WriteBytes, "nodes_new": c.layout.NodesNew} {
		if n != nil {
			known[name] = *n
		}
	}
	r.result.Phases = append(r.result.Phases, result.Phase{Name: name, Seconds: c.seconds, Ops: ops, Process: &c.process, Device: c.device,
		CPUNanos: c.process.UserNanos + c.process.SystemNanos, Engine: known})
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

// add adds a cost that came after c.
func (c *cost) add(next cost) {
	c.seconds += next.seconds
	c.process = host.ProcessSum(c.process, next.process)
	c.layout = layout.Counters{Reads: plus(c.layout.Reads, next.layout.Reads), ReadBytes: plus(c.layout.ReadBytes, next.layout.ReadBytes),
		Writes: plus(c.layout.Writes, next.layout.Writes), WriteBytes: plus(c.layout.WriteBytes, next.layout.WriteBytes),
		NodesNew: plus(c.layout.NodesNew, next.layout.NodesNew)}
	if c.device != nil && next.device != nil {
		sum := host.DeviceSum(*c.device, *next.device)
		c.device = &sum
	}
}

func (c cost) deviceReads() *int64 {
	if c.device == nil {
		return nil
	}
	return &c.device.Reads
}

// written is what was written, and who counted it: the state's own device, which
// sees the filesystem's journal too; else the layout; else the kernel's account of the
// process, which is of whole folios, up to 2 MiB, where one page of them is made dirty:
// many times too much for small writes in place.
func (c cost) written() (bytes int64, source string) {
	switch {
	case c.device != nil:
		return c.device.WriteBytes, "device"
	case c.layout.WriteBytes != nil:
		return *c.layout.WriteBytes, "layout"
	}
	return c.process.WriteBytes, "process"
}

func each(total *int64, ops uint64) *float64 {
	if total == nil || ops == 0 {
		return nil
	}
	per := float64(*total) / float64(ops)
	return &per
}
