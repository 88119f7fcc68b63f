package promexport

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/statelab/statelab/result"
)

// ofWatch is the prefix of what is served of a process that is watched.
const ofWatch = "statelab_watch_"

// What is served of a watched process, with the labels "process" and "database". Counters begin
// with the watch. While only a part of the time is watched, they count in that part: divide by
// the rate of the observed seconds.
var (
	watchInfo = metric{ofWatch + "info",
		"1 for the process that is watched; its number and engine are labels.", gauge}
	watchSeconds = metric{ofWatch + "observed_seconds_total",
		"Time in which every Get of the process was seen.", counter}
	watchGets = metric{ofWatch + "gets_total",
		"Gets of the process, by kind of key.", counter}
	watchAbsent = metric{ofWatch + "gets_absent_total",
		"Gets of the process that found nothing, by kind of key.", counter}
	watchGetSeconds = metric{ofWatch + "get_seconds_total",
		"Time that threads of the process spent in Gets, by kind of key.", counter}
	watchReads = metric{ofWatch + "table_reads_total",
		"Reads of tables by the process, by purpose: those for Gets are block reads.", counter}
	watchFaults = metric{ofWatch + "major_page_faults_total",
		"Major page faults on the database that the process maps.", counter}
	watchCache = metric{ofWatch + "cache_bytes",
		"Size of the process's block cache.", gauge}
	watchMemory = metric{ofWatch + "memory_bytes",
		"Memory that the control group of the process uses, page cache included.", gauge}
	watchMemoryLimit = metric{ofWatch + "memory_limit_bytes",
		"Limit of memory of the control group of the process.", gauge}
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

	for _, purpose := range slices.Sorted(maps.Keys(c.Reads)) {
		send(watchReads, float64(c.Reads[purpose]), "purpose", purpose)
	}

	if c.MajorFaults > 0 {
		send(watchFaults, float64(c.MajorFaults))
	}

	if c.CacheBytes > 0 {
		send(watchCache, float64(c.CacheBytes))
	}

	if c.Memory.LimitBytes > 0 {
		send(watchMemory, float64(c.Memory.UsedBytes))
		send(watchMemoryLimit, float64(c.Memory.LimitBytes))
	}
}
