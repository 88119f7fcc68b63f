package pebble2

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/observe/blockio"
)

type db struct {
	*pebbledb.DB

	pebble   *pebble.DB
	dir      string
	readOnly bool
	opened   engine.Options // what Open was told
	events   *pebbledb.Events
	written  atomic.Int64 // keys and values committed, bytes
	built    atomic.Int64 // bytes ingested by BuildSorted, whose handle had metrics of its own
}

func listener(e *pebbledb.Events) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError:  e.Failed,
		CompactionEnd:    func(pebble.CompactionInfo) { e.TablesChanged() },
		FlushEnd:         func(pebble.FlushInfo) { e.TablesChanged() },
		TableIngested:    func(pebble.TableIngestInfo) { e.TablesChanged() },
		TableStatsLoaded: func(pebble.TableStatsInfo) { e.StatsLoaded() },
		WriteStallBegin:  func(pebble.WriteStallBeginInfo) { e.StallBegan() },
		WriteStallEnd:    e.StallEnded,
	}
}

// source tells pebbledb.DB about a v2 database.
type source struct{ *pebble.DB }

// SyncWAL syncs an empty record, which takes everything before it along.
func (s source) SyncWAL() error { return s.LogData(nil, pebble.Sync) }

func (s source) Tables() ([]blockio.LiveTable, error) {
	levels, err := s.SSTables()
	if err != nil {
		return nil, err
	}
	var tables []blockio.LiveTable
	for level, infos := range levels {
		for _, t := range infos {
			tables = append(tables, blockio.LiveTable{
				Number:   blockio.FileNumber(t.BackingSSTNum),
				Level:    level,
				Bytes:    int64(t.Size),
				Virtual:  t.Virtual,
				Smallest: t.Smallest.UserKey,
				Largest:  t.Largest.UserKey,
			})
		}
	}
	return tables, nil
}

func (s source) Activity() pebbledb.Activity {
	m := s.Metrics()
	a := pebbledb.Activity{
		Running:      int(m.Compact.NumInProgress + m.Flush.NumInProgress),
		PendingBytes: int64(m.Compact.EstimatedDebt),
	}
	if !m.Table.InitialStatsCollectionComplete || m.Table.PendingStatsCollectionCount > 0 {
		a.Running++
	}
	for _, l := range m.Levels {
		a.Score = max(a.Score, l.Score)
	}
	return a
}

// Memory is how the budget is spent.
func (d *db) Memory() []engine.MemoryShare { return pebbledb.Memory(d.Effective(), d.Counters()) }

func (d *db) Counters() engine.Counters {
	m := d.pebble.Metrics()
	background := d.Recorder.Background()
	stalls, stallNanos := d.events.Stalls()
	c := engine.Counters{
		Reads:           d.Recorder.Reads(),
		BackgroundReads: &background,
		TableOpens:      told(d.Recorder.Opens()),

		CacheHits:        told(m.BlockCache.Hits),
		CacheMisses:      told(m.BlockCache.Misses),
		FilterNegative:   told(m.Filter.Hits), // a hit of Pebble's is a read saved
		FilterPositive:   told(m.Filter.Misses),
		TableCacheHits:   told(m.FileCache.Hits),
		TableCacheMisses: told(m.FileCache.Misses),

		CacheUsedBytes: told(m.BlockCache.Size),
		MemtableBytes:  told(int64(m.MemTable.Size)),
		// Pebble reports as zombie what it reserved beyond the live memtables.
		CacheReservedBytes: told(int64(m.MemTable.Size + m.MemTable.ZombieSize)),

		UserWriteBytes: told(d.written.Load()),
		WALBytes:       told(int64(m.WAL.BytesWritten)),
		Stalls:         told(stalls),
		StallNanos:     told(stallNanos),
	}
	ingested := uint64(d.built.Load())
	var flushed, compacted uint64
	for _, l := range m.Levels {
		flushed += l.TableBytesFlushed + l.BlobBytesFlushed
		compacted += l.TableBytesCompacted + l.BlobBytesCompacted
		ingested += l.TableBytesIngested
	}
	c.FlushBytes, c.CompactBytes, c.IngestBytes = told(int64(flushed)), told(int64(compacted)), told(int64(ingested))
	if d.Recorder.Direct() {
		c.DirectBytes = told(d.Recorder.DirectBytes())
	}
	return c
}

func told(n int64) *int64 { return &n }
