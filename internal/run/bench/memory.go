package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// beginBudget prepares the limit on memory before the database is opened, if there
// is a budget.
func (r *run) beginBudget(ctx context.Context) error {
	switch {
	case r.spec.MemoryBytes == 0:
		return nil
	case r.spec.PageCache == Direct && !r.usesPageCache():
		zero := int64(0)
		r.Result.Memory = &result.Memory{BudgetBytes: r.spec.MemoryBytes, Shares: []engine.MemoryShare{}, PageCacheBytes: &zero,
			HeldBy: "O_DIRECT: no page cache is used"}
		return nil
	}
	return r.BeginBudget(ctx, r.spec.MemoryBytes)
}

func (r *run) usesPageCache() bool { return r.engine.Info().Has(engine.UsesPageCache) }

// noteMemory stores how the engine says it spends its memory.
func (r *run) noteMemory() {
	reporter, ok := r.db.(engine.MemoryReporter)
	if !ok {
		return
	}
	m := result.Memory{}
	if r.Result.Memory != nil {
		m = *r.Result.Memory
	}
	m.Shares = reporter.Memory()
	r.Result.Memory = &m
}

// cacheRoom is what the engine's cache may still grow by.
func (r *run) cacheRoom() int64 {
	used := r.db.Counters().CacheUsedBytes
	if used == nil {
		return max(r.Result.Cache.Effective, r.spec.MemoryBytes)
	}
	return max(0, r.Result.Cache.Effective-*used)
}

// A process that grows while it measures, and not into its cache, leaks: memory
// rose from quarter to quarter of the phase, by more than growthLimit in all.
const growthLimit = 64 << 20

// growth watches the process's own memory through a phase.
type growth struct {
	samples []int64
	read    func(chars int64) // is told of every sample
}

// sampleEvery is often enough for a phase of a tenth of a second.
const sampleEvery = 20 * time.Millisecond

// follow samples until stop is called, which takes the last sample. It tells read of each.
func (g *growth) follow(read func(chars int64)) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	g.samples, g.read = g.samples[:0], read
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
	if bytes, chars, err := host.AnonymousBytes(); err == nil {
		g.read(chars)
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
	r.Warn(engine.Warning{Code: "memory_grows",
		Text: fmt.Sprintf("memory grew by %s while measuring, %d bytes a Get, beyond what the cache had room for: the engine leaks",
			unit.Bytes(grown), grown/int64(gets)), Remedy: "check that values and handles are released after each Get"})
}
