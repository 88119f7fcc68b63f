package pebbledb

import "github.com/statelab/statelab/engine"

// Metrics are what both versions count.
type Metrics struct {
	CacheHits, CacheMisses           int64
	FilterHits, FilterMisses         int64
	TableCacheHits, TableCacheMisses int64
	CacheUsedBytes, MemtableBytes    int64
	ZombieMemtableBytes              uint64 // what Pebble reserved beyond the live memtables
	WALBytes                         uint64

	FlushBytes, CompactBytes, IngestBytes uint64

	Activity Activity // but for Finished and TableReads
}

// reservedBytes are those of memtables, which Pebble charges to the block cache.
func (m Metrics) reservedBytes() int64 { return m.MemtableBytes + int64(m.ZombieMemtableBytes) }

// Counters are totals since Open.
func (d *DB) Counters() engine.Counters {
	m := d.version.Metrics()
	syncs, synced := d.recorder.Syncs.Total()
	c := engine.Counters{
		Reads:           d.recorder.Reads(),
		BackgroundReads: new(d.recorder.Background()),
		TableOpens:      new(d.recorder.Opens()),

		CacheHits:        &m.CacheHits,
		CacheMisses:      &m.CacheMisses,
		FilterNegative:   &m.FilterHits, // a hit of Pebble's is a read saved
		FilterPositive:   &m.FilterMisses,
		TableCacheHits:   &m.TableCacheHits,
		TableCacheMisses: &m.TableCacheMisses,

		CacheUsedBytes:     &m.CacheUsedBytes,
		MemtableBytes:      &m.MemtableBytes,
		CacheReservedBytes: new(m.reservedBytes() - d.config.BesideCacheBytes),

		UserWriteBytes: new(d.written.Load()),
		WALBytes:       new(int64(m.WALBytes)),
		FlushBytes:     new(int64(m.FlushBytes)),
		CompactBytes:   new(int64(m.CompactBytes)),
		IngestBytes:    new(int64(m.IngestBytes) + d.built.Load()),
		Syncs:          &syncs,
		SyncedBytes:    &synced,
		Stalls:         new(d.events.stalls.Load()),
		StallNanos:     new(d.events.stallNanos.Load()),
	}
	if d.recorder.Direct() {
		c.DirectBytes = new(d.recorder.DirectBytes())
	}
	return c
}

// WriteBufferBytes is the size of a memtable once it is no longer small.
func (d *DB) WriteBufferBytes() int64 { return int64(d.config.MemTableBytes) }

// Memory is how Pebble spends a budget. It charges memtables to the block cache,
// so that the size of the cache bounds both; open tables keep a few kilobytes of
// their own, which nothing counts.
func (d *DB) Memory() []engine.MemoryShare {
	reserved := min(*d.Counters().CacheReservedBytes, d.config.CacheBytes)
	shares := []engine.MemoryShare{
		{Use: "block cache", Bytes: d.config.CacheBytes - reserved, Basis: "limit", Holds: engine.Blocks},
		{Use: "write buffers", Bytes: reserved, Basis: "measured"},
	}
	if log := d.replayedBytes(); log > 0 {
		shares = append(shares, engine.MemoryShare{Use: "replayed log", Bytes: log, Basis: "measured"})
	}
	return shares
}

// replayedBytes are those of memtables that came from the log of a database open
// for reading. Pebble charges none of a batch too large for a memtable.
func (d *live) replayedBytes() int64 {
	if !d.config.readOnly {
		return 0
	}
	m := d.version.Metrics()
	return max(m.MemtableBytes, m.reservedBytes()) - (m.reservedBytes() - d.config.BesideCacheBytes)
}
