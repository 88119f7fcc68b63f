package pebble1

import "github.com/statelab/statelab/engine"

func (d *db) Counters() engine.Counters {
	m := d.pebble.Metrics()
	background := d.recorder.Background()
	c := engine.Counters{
		Reads:           d.recorder.Reads(),
		BackgroundReads: &background,
		TableOpens:      told(d.recorder.Opens()),

		CacheHits:        told(m.BlockCache.Hits),
		CacheMisses:      told(m.BlockCache.Misses),
		FilterNegative:   told(m.Filter.Hits), // a hit of Pebble's is a read saved
		FilterPositive:   told(m.Filter.Misses),
		TableCacheHits:   told(m.TableCache.Hits),
		TableCacheMisses: told(m.TableCache.Misses),

		CacheUsedBytes: told(m.BlockCache.Size),
		MemtableBytes:  told(int64(m.MemTable.Size)),
		// Pebble reports as zombie what it reserved beyond the live memtables.
		CacheReservedBytes: told(int64(m.MemTable.Size + m.MemTable.ZombieSize)),

		UserWriteBytes: told(d.written.Load()),
		WALBytes:       told(int64(m.WAL.BytesWritten)),
		Stalls:         told(d.events.stalls.Load()),
		StallNanos:     told(d.events.stallNanos.Load()),
	}
	var flushed, compacted, ingested uint64
	for _, l := range m.Levels {
		flushed += l.BytesFlushed
		compacted += l.BytesCompacted
		ingested += l.BytesIngested
	}
	c.FlushBytes, c.CompactBytes, c.IngestBytes = told(int64(flushed)), told(int64(compacted)), told(int64(ingested))
	if d.recorder.Direct() {
		c.DirectBytes = told(d.recorder.DirectBytes())
	}
	return c
}

func told(n int64) *int64 { return &n }
