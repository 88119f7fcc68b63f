package lookup

import (
	"sync/atomic"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

type cost = session.Cost[layout.Counters]

// subject says how a layout counts.
func (r *run) subject() session.Subject[layout.Counters] {
	return session.Subject[layout.Counters]{
		Now: func() *layout.Counters {
			if r.state == nil {
				return nil
			}
			return new(r.state.Counters())
		},
		Between: host.Between[layout.Counters],
		Note: func(c layout.Counters, p *result.Phase) {
			p.Engine = session.Known(map[string]*int64{"reads": c.Reads, "read_bytes": c.ReadBytes, "writes": c.Writes, "write_bytes": c.WriteBytes,
				"nodes_new": c.NodesNew})
		},
	}
}

// phase runs work as a named phase.
func (r *run) phase(name string, work func() (ops uint64, err error)) (cost, error) {
	return r.Phase(name, func(ops *atomic.Uint64) error {
		n, err := work()
		ops.Store(n)
		return err
	})
}

// deviceReadBytes are the private device's, else the kernel's account of the process.
func deviceReadBytes(c cost) int64 {
	if c.Device != nil {
		return c.Device.ReadBytes
	}
	return c.Process.ReadBytes
}

func deviceReads(c cost) *int64 {
	if c.Device == nil {
		return nil
	}
	return &c.Device.Reads
}

// written is what was written, and who counted it: the state's own device, which
// sees the filesystem's journal too; else the layout; else the kernel's account of the
// process, which is of whole folios, up to 2 MiB, where one page of them is made dirty:
// many times too much for small writes in place.
func written(c cost) (bytes int64, source string) {
	switch {
	case c.Device != nil:
		return c.Device.WriteBytes, "device"
	case c.Subject.WriteBytes != nil:
		return *c.Subject.WriteBytes, "layout"
	}
	return c.Process.WriteBytes, "process"
}

func each(total *int64, ops uint64) *float64 { return session.Per(total, float64(ops)) }
