package bench

import (
	"github.com/statelab/statelab/engine"
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

func between(before, after engine.Counters) engine.Counters { return after.Sub(before) }

func note(c engine.Counters, p *result.Phase) { p.Reads, p.Engine = byType(c.Reads), named(c) }

// written are the bytes that reached a private device. Without one they are the
// kernel's account of the process, which is of whole folios where one page of them is
// made dirty: too many for small writes in place.
func written(c cost) int64 {
	if c.Device != nil {
		return c.Device.WriteBytes
	}
	return c.Process.WriteBytes
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
		"cache_hits": c.CacheHits, "cache_misses": c.CacheMisses,
		"filter_negative": c.FilterNegative, "filter_positive": c.FilterPositive,
		"table_cache_hits": c.TableCacheHits, "table_cache_misses": c.TableCacheMisses,
		"table_opens": c.TableOpens, "direct_bytes": c.DirectBytes,
		"cache_used_bytes": c.CacheUsedBytes, "memtable_bytes": c.MemtableBytes, "cache_reserved_bytes": c.CacheReservedBytes,
		"user_write_bytes": c.UserWriteBytes, "wal_bytes": c.WALBytes, "flush_bytes": c.FlushBytes,
		"compact_bytes": c.CompactBytes, "ingest_bytes": c.IngestBytes,
		"syncs": c.Syncs, "synced_bytes": c.SyncedBytes, "write_stalls": c.Stalls, "write_stall_ns": c.StallNanos,
	}
	if t := c.BackgroundReads; t != nil {
		all["background_reads"], all["background_read_bytes"] = &t.Count, &t.Bytes
	}
	return session.Known(all)
}
