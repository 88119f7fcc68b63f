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
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
)

// cost is what one phase cost.
type cost = session.Cost[engine.Counters]

// counters are the engine's; nil while no database is open.
func (r *run) counters() *engine.Counters {
	if r.db == nil {
		return nil
	}
	return new(r.db.Counters())
}

func note(c engine.Counters, p *result.Phase) { p.Reads, p.Engine = byType(c.Reads), named(c) }

// written are the bytes that reached a private device. Without one they are the
// kernel's account of the process, which is of whole folios where one page of them is
// made dirty: too many for small writes in place. They are not known if nobody counted them.
func (r *run) written(c cost) (bytes int64, known bool) {
	if c.Device != nil {
		return c.Device.WriteBytes, true
	}
	return c.Process.WriteBytes, r.Uncounted() == ""
}

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
		"cache_hits":           c.CacheHits,
		"cache_misses":         c.CacheMisses,
		"filter_negative":      c.FilterNegative,
		"filter_positive":      c.FilterPositive,
		"table_cache_hits":     c.TableCacheHits,
		"table_cache_misses":   c.TableCacheMisses,
		"table_opens":          c.TableOpens,
		"direct_bytes":         c.DirectBytes,
		"cache_used_bytes":     c.CacheUsedBytes,
		"memtable_bytes":       c.MemtableBytes,
		"cache_reserved_bytes": c.CacheReservedBytes,
		"user_write_bytes":     c.UserWriteBytes,
		"wal_bytes":            c.WALBytes,
		"flush_bytes":          c.FlushBytes,
		"compact_bytes":        c.CompactBytes,
		"ingest_bytes":         c.IngestBytes,
		"syncs":                c.Syncs,
		"synced_bytes":         c.SyncedBytes,
		"write_stalls":         c.Stalls,
		"write_stall_ns":       c.StallNanos,
	}

	if t := c.BackgroundReads; t != nil {
		all["background_reads"], all["background_read_bytes"] = &t.Count, &t.Bytes
	}

	return session.Known(all)
}

// beginBudget prepares the limit on memory before the database is opened, if there
// is a budget.
func (r *run) beginBudget(ctx context.Context) error {
	switch {
	case r.spec.MemoryBytes == 0:
		return nil
	case r.spec.PageCache == Direct && !r.usesPageCache():
		zero := int64(0)
		r.Result.Memory = &result.Memory{
			BudgetBytes:    r.spec.MemoryBytes,
			Shares:         []engine.MemoryShare{},
			PageCacheBytes: &zero,
			HeldBy:         "O_DIRECT: no page cache is used",
		}
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
	own     func(read func() (chars int64)) // makes every read
}

// sampleEvery is often enough for a phase of a tenth of a second.
const sampleEvery = 20 * time.Millisecond

// follow samples until stop is called, which takes the last sample. own makes its reads.
func (g *growth) follow(own func(read func() (chars int64))) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	g.samples, g.own = g.samples[:0], own
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
	g.own(func() int64 {
		bytes, chars, err := host.AnonymousBytes()
		if err == nil {
			g.samples = append(g.samples, bytes)
		}
		return chars
	})
}

// judge warns of memory that grew by more than the caches had room for.
func (g *growth) judge(r *run, gets uint64, room int64) {
	if len(g.samples) < 4 || gets == 0 || r.spec.Workload == workload.ReadWhileWriting {
		return // too short to tell, or write buffers that fill
	}

	quarter := func(n int) int64 { return g.samples[(len(g.samples)-1)*n/4] }
	steps := []int64{quarter(1) - quarter(0), quarter(2) - quarter(1), quarter(3) - quarter(2),
		quarter(4) - quarter(3)}
	grown := quarter(4) - quarter(0) - room
	if grown < growthLimit || slices.Min(steps) < growthLimit/16 {
		return
	}

	r.Warn(engine.Warning{Code: "memory_grows",
		Text: fmt.Sprintf("memory grew by %s while measuring, %d bytes a Get, beyond what the "+
			"cache had room for: the engine leaks",
			unit.Bytes(grown), grown/int64(gets)),
		Remedy: "check that values and handles are released after each Get"})
}

func (r *run) setPageCache(ctx context.Context) error {
	switch r.spec.PageCache {
	case Direct:
		return host.DirectSupported(r.spec.Dir)
	case Cold:
		return r.Evict(ctx) // opening read some of it in
	case Warm:
		err := host.Warm(ctx, r.spec.Dir, func(done, total int64) {
			r.Tell(result.Event{
				Phase: "prepare",
				Done:  uint64(done),
				Total: uint64(total),
				Unit:  "bytes",
				Note:  "reading the database into the page cache",
			})
		})
		if err != nil {
			return fmt.Errorf("read %s into the page cache: %w", r.spec.Dir, err)
		}

		resident, total, err := host.Resident(r.spec.Dir)
		if err != nil {
			return fmt.Errorf("look at the page cache: %w", err)
		}

		if float64(resident) < 0.99*float64(total) {
			r.Warn(engine.Warning{
				Code: "not_warm",
				Text: fmt.Sprintf("only %.1f%% of the database fits into the page cache",
					100*float64(resident)/float64(total)),
				Remedy: "a machine with more memory, or a smaller database",
			})
		}
	}

	return nil
}
