package bench

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// memory is what holds the process to a budget.
type memory struct {
	hold *host.MemoryHold
	// base is the harness's own anonymous memory, before the engine was opened.
	base int64
}

// slackBytes are left to the harness above what it needed before the engine was
// opened: readers, histograms, the Go runtime's room.
const slackBytes = 12 << 20

// holdMemory limits the process before the database is opened, if there is a
// budget. For an engine whose cache is the page cache that limit is the budget;
// the others keep to theirs themselves, and holdPageCache later takes from them the
// page cache they would otherwise have on top of it.
func (r *run) holdMemory(ctx context.Context) error {
	if r.spec.MemoryBytes == 0 {
		return nil
	}
	r.result.Memory = &result.Memory{BudgetBytes: r.spec.MemoryBytes, Shares: []engine.MemoryShare{}}
	if r.spec.PageCache == Direct && !r.usesPageCache() {
		zero := int64(0)
		r.result.Memory.PageCacheBytes, r.result.Memory.HeldBy = &zero, "O_DIRECT: no page cache is used"
		return nil
	}
	// Pages that are there already belong to whoever read them: no limit of ours
	// would count them.
	if err := r.evict(ctx); err != nil {
		return err
	}
	hold, err := host.HoldMemory()
	if err == nil {
		r.memory.hold = hold
		r.memory.base, err = host.AnonymousBytes()
	}
	if err == nil && r.usesPageCache() {
		// What such an engine keeps of its own (write buffers, small caches) counts
		// too: the collector of a Go engine must not double it.
		debug.SetMemoryLimit(r.memory.base + r.spec.MemoryBytes/2)
		err = r.limitPageCache(r.spec.MemoryBytes, r.memory.base)
	}
	if err != nil {
		r.cannotHold(err)
	}
	return nil
}

func (r *run) usesPageCache() bool { return r.engine.Info().Has(engine.UsesPageCache) }

// holdPageCache sets the limit anew before the measured phase. By then it is known
// what a team of workers takes: the warm-up's is given back. An engine with a cache
// of its own, which is warm now and hardly grows, is left only as much page cache
// as its budget has unspent.
func (r *run) holdPageCache() {
	if r.memory.hold == nil {
		return
	}
	before, err := host.AnonymousBytes()
	if err == nil {
		debug.FreeOSMemory()
		var after int64
		if after, err = host.AnonymousBytes(); err == nil {
			err = r.limitMeasured(after, max(before-after, leastWorkerBytes*int64(r.spec.Threads)))
		}
	}
	if err != nil {
		r.cannotHold(err)
	}
}

// leastWorkerBytes are the pages of a worker's histograms that are written to.
const leastWorkerBytes = 64 << 10

// limitMeasured sets the limit for a process of anonymous bytes that is about to
// make a team of workers.
func (r *run) limitMeasured(anonymous, team int64) error {
	if r.usesPageCache() {
		return r.limitPageCache(r.spec.MemoryBytes, r.memory.base+team)
	}
	unspent := r.spec.MemoryBytes
	for _, share := range r.result.Memory.Shares {
		unspent -= share.Bytes
	}
	// A garbage collector needs room to breathe, and must not outgrow it.
	own := anonymous + team
	room := own / 8
	debug.SetMemoryLimit(own + room/2)
	return r.limitPageCache(max(0, unspent), own+room)
}

// limitPageCache leaves pages bytes to the page cache beside anonymous bytes of
// the process. The slack may be used for pages, too, so it is counted.
func (r *run) limitPageCache(pages, anonymous int64) error {
	if err := r.memory.hold.Limit(anonymous + pages + slackBytes); err != nil {
		return err
	}
	now, err := host.AnonymousBytes()
	if err != nil {
		return err
	}
	most := anonymous + pages + slackBytes - now
	r.result.Memory.PageCacheBytes, r.result.Memory.HeldBy = &most, r.memory.hold.How
	return nil
}

func (r *run) cannotHold(err error) {
	r.absent(fmt.Sprintf("the page cache cannot be limited: %v", err), "page_cache_bytes")
	r.warn(engine.Warning{Code: "page_cache_unlimited", Text: fmt.Sprintf("the page cache is not held to the budget: %v", err),
		Remedy: "run as root where memory control groups are, or --page-cache direct for the engines that can"})
}

// noteMemory stores how the engine says it spends its memory.
func (r *run) noteMemory() {
	reporter, ok := r.db.(engine.MemoryReporter)
	if !ok {
		return
	}
	m := result.Memory{}
	if r.result.Memory != nil {
		m = *r.result.Memory
	}
	m.Shares = reporter.Memory()
	r.result.Memory = &m
}

func (r *run) releaseMemory() error {
	if r.memory.hold == nil {
		return nil
	}
	debug.SetMemoryLimit(math.MaxInt64)
	return r.memory.hold.Release()
}

// cacheRoom is what the engine's cache may still grow by.
func (r *run) cacheRoom() int64 {
	used := r.db.Counters().CacheUsedBytes
	if used == nil {
		return max(r.result.Cache.Effective, r.spec.MemoryBytes)
	}
	return max(0, r.result.Cache.Effective-*used)
}

// A process that grows while it measures, and not into its cache, leaks: memory
// rose from quarter to quarter of the phase, by more than growthLimit in all.
const growthLimit = 64 << 20

// growth watches the process's own memory through a phase.
type growth struct{ samples []int64 }

// sampleEvery is often enough for a phase of a tenth of a second.
const sampleEvery = 20 * time.Millisecond

// follow samples until stop is called, which takes the last sample.
func (g *growth) follow() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	g.samples = g.samples[:0]
	go func() {
		defer close(ended)
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			g.sample()
			select {
			case <-done:
				g.sample()
				return
			case <-ticker.C:
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func (g *growth) sample() {
	if bytes, err := host.AnonymousBytes(); err == nil {
		g.samples = append(g.samples, bytes)
	}
}

// judge warns of memory that grew by more than the caches had room for.
func (g *growth) judge(r *run, gets uint64, room int64) {
	if len(g.samples) < 4 || gets == 0 || r.spec.Workload == workload.ReadWhileWriting {
		return // too short to tell, or write buffers that fill
	}
	quarter := func(n int) int64 { return g.samples[(len(g.samples)-1)*n/4] }
	steps := []int64{quarter(1) - quarter(0), quarter(2) - quarter(1), quarter(3) - quarter(2), quarter(4) - quarter(3)}
	grown := quarter(4) - quarter(0) - room
	if grown < growthLimit || slices.Min(steps) < growthLimit/16 {
		return
	}
	r.warn(engine.Warning{Code: "memory_grows", Text: fmt.Sprintf("memory grew by %s while measuring, %d bytes a Get, beyond what the cache had room for: the engine leaks",
		unit.Bytes(grown), grown/int64(gets)), Remedy: "look for values or handles that are not released after a Get"})
}
