package promexport

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/statelab/statelab/result"
)

// Watched collects what a watch counts. Safe for concurrent use.
type Watched struct {
	mutex  sync.Mutex
	counts *result.WatchCounts // nil: none yet
}

// Observe takes what has been counted so far. Its maps are not changed afterwards.
func (w *Watched) Observe(counts result.WatchCounts) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.counts = &counts
}

// collect adds what is known: what the process does not have is not there.
func (w *Watched) collect(f families) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	c := w.counts
	if c == nil {
		return
	}

	send := func(m metric, v float64, label ...string) {
		f.add(m, v, append(label, "process", c.Process, "database", c.Database)...)
	}

	send(watchInfo, 1, "pid", strconv.Itoa(c.PID), "engine", c.Engine)
	send(watchSeconds, c.ObservedSeconds)
	for _, kind := range slices.Sorted(maps.Keys(c.Gets)) {
		gets := c.Gets[kind]
		send(watchGets, float64(gets.Gets), "keys", kind)
		send(watchAbsent, float64(gets.Absent), "keys", kind)
		send(watchGetSeconds, gets.Seconds, "keys", kind)
	}

	if c.Seeks > 0 {
		send(watchSeeks, float64(c.Seeks))
	}

	for _, purpose := range slices.Sorted(maps.Keys(c.Reads)) {
		send(watchReads, float64(c.Reads[purpose]), "purpose", purpose)
	}

	if c.MajorFaults > 0 {
		send(watchFaults, float64(c.MajorFaults))
	}

	if c.CacheBytes > 0 {
		send(watchCache, float64(c.CacheBytes))
	}

	if p := c.Predicted; p != nil {
		send(watchPredictedOf, float64(p.Gets))
		for _, s := range p.Caches {
			size := strconv.FormatInt(s.CacheBytes, 10)
			send(watchPredicted, s.BlockReadsPerGet, "cache_bytes", size)
			send(watchPredictedLow, s.Low, "cache_bytes", size)
			send(watchPredictedHigh, s.High, "cache_bytes", size)
		}
	}

	if c.OtherMemory != nil {
		for _, s := range c.OtherMemory.Sizes {
			size := strconv.FormatInt(s.Bytes, 10)
			send(watchPages, s.PagesPerSecond, "memory_bytes", size)
			send(watchPagesLow, s.Low, "memory_bytes", size)
			send(watchPagesHigh, s.High, "memory_bytes", size)
		}
	}

	if c.Memory.LimitBytes > 0 {
		send(watchMemory, float64(c.Memory.UsedBytes))
		send(watchMemoryLimit, float64(c.Memory.LimitBytes))
	}
}
