package bench

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
)

// snapshot is every counter at one moment. A phase is the difference of two.
type snapshot struct {
	at      time.Time
	engine  engine.Counters
	process result.ProcessIO
	device  *result.DeviceIO
}

func (r *run) snapshot() (s snapshot, err error) {
	s.at = time.Now()
	if r.db != nil {
		s.engine = r.db.Counters()
	}
	if s.process, err = host.ProcessNow(); err != nil {
		return s, fmt.Errorf("read the process's counters: %w", err)
	}
	if r.device.Private {
		io, err := r.device.Now()
		if err != nil {
			return s, fmt.Errorf("read the counters of %s: %w", r.device.Name, err)
		}
		s.device = &io
	}
	return s, nil
}

// phaseDelta is what one phase cost.
type phaseDelta struct {
	seconds           float64
	engine            engine.Counters
	process           result.ProcessIO
	device            *result.DeviceIO
	service, response *measure.Histogram
}

// written are the bytes that reached a private device. Without one they are the
// kernel's account of the process, which is of whole folios where one page of them is
// made dirty: too many for small writes in place.
func (d *phaseDelta) written() int64 {
	if d.device != nil {
		return d.device.WriteBytes
	}
	return d.process.WriteBytes
}

// phase runs work as a named phase: events, counters, the entry in run.json. ops
// may be added to by work while it runs.
func (r *run) phase(name string, work func(ops *atomic.Uint64) error) (phaseDelta, error) {
	r.tell(Event{Phase: name})
	before, err := r.snapshot()
	if err != nil {
		return phaseDelta{}, err
	}
	var ops atomic.Uint64
	r.phaseBegan = before.at
	workErr := work(&ops)
	after, err := r.snapshot()
	if err != nil {
		return phaseDelta{}, errors.Join(workErr, err)
	}
	d := phaseDelta{seconds: after.at.Sub(before.at).Seconds(), engine: after.engine, process: host.ProcessBetween(before.process, after.process)}
	if r.opened(before) {
		d.engine = after.engine.Sub(before.engine)
	}
	if after.device != nil && before.device != nil {
		io := host.DeviceBetween(*before.device, *after.device)
		d.device = &io
	}
	r.result.Phases = append(r.result.Phases, result.Phase{
		Name: name, Seconds: d.seconds, Ops: ops.Load(),
		CPUNanos: d.process.UserNanos + d.process.SystemNanos,
		Reads:    byType(d.engine.Reads), Process: &d.process, Device: d.device, Engine: named(d.engine),
	})
	if workErr != nil {
		return d, fmt.Errorf("%s: %w", name, workErr)
	}
	return d, nil
}

// opened reports whether s was taken with the database open: before, its
// counters are all unknown and the difference to them would be too.
func (r *run) opened(s snapshot) bool { return s.engine != engine.Counters{} }

func byType(reads *engine.BlockReads) map[string]engine.Tally {
	if reads == nil {
		return nil
	}
	types := map[string]engine.Tally{}
	for _, kind := range engine.BlockTypes() {
		if t := reads.Type(kind); t.Count > 0 {
			types[kind.String()] = t
		}
	}
	return types
}

// named lists the engine's counters that are known.
func named(c engine.Counters) map[string]int64 {
	all := map[string]*int64{
		"cache_hits": c.CacheHits, "cache_misses": c.CacheMisses,
		"filter_negative": c.FilterNegative, "filter_positive": c.FilterPositive,
		"table_cache_hits": c.TableCacheHits, "table_cache_misses": c.TableCacheMisses,
		"table_opens": c.TableOpens, "direct_bytes": c.DirectBytes,
		"cache_used_bytes": c.CacheUsedBytes, "memtable_bytes": c.MemtableBytes, "cache_reserved_bytes": c.CacheReservedBytes,
		"user_write_bytes": c.UserWriteBytes, "wal_bytes": c.WALBytes, "flush_bytes": c.FlushBytes,
		"compact_bytes": c.CompactBytes, "ingest_bytes": c.IngestBytes,
		"write_stalls": c.Stalls, "write_stall_ns": c.StallNanos,
	}
	if t := c.BackgroundReads; t != nil {
		all["background_reads"], all["background_read_bytes"] = &t.Count, &t.Bytes
	}
	known := map[string]int64{}
	for name, value := range all {
		if value != nil {
			known[name] = *value
		}
	}
	return known
}
