package pebbledb

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/model/cachesim"
)

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

		RangeDeletionReads: new(d.recorder.RangeDeletions()),
		UncachedReads:      new(d.recorder.Opens()), // a footer each

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
		{
			Use:   "block cache",
			Bytes: d.config.CacheBytes - reserved,
			Basis: "limit",
			Holds: engine.Blocks,
		},
		{Use: "write buffers", Bytes: reserved, Basis: "measured"},
	}

	if log := d.replayedBytes(); log > 0 {
		shares = append(shares, adapter.ReplayedLog(log))
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

// effective are all options in force: those that Pebble prints, and those that
// shape a measurement by names of ours. It is to be called when the database
// was just opened: GOMAXPROCS at that time decided on the shards of the cache,
// so a process that wants more threads raises it afterwards.
func effective(c Config) map[string]string {
	gomaxprocs := runtime.GOMAXPROCS(0)
	options := parseOptions(c.Options)
	options["cache_bytes"] = strconv.FormatInt(c.CacheBytes, 10)
	options["cache_shards"] = strconv.Itoa(cachesim.ShardCount(c.CacheBytes, gomaxprocs))
	options["handles"] = strconv.Itoa(c.Handles)
	options["tables_kept_open"] = strconv.Itoa(max(c.Handles-otherHandles, minTablesKeptOpen))
	options["memtable_size"] = strconv.FormatUint(c.MemTableBytes, 10)
	options["format_major_version"] = strconv.FormatUint(c.FormatMajorVersion, 10)
	options["gomaxprocs_at_open"] = strconv.Itoa(gomaxprocs)
	options[engine.BuildOption] = BuiltAs
	if c.filterBits != "" {
		options[engine.FilterBitsOption] = c.filterBits
	}

	if c.table.Text != "" {
		options[tableOption] = c.table.Text
	}

	return options
}

// Both versions keep some handles for other files than tables, and never fewer
// tables open than this.
const (
	otherHandles      = 10
	minTablesKeptOpen = 64
)

// parseOptions reads the text both versions print their options as: sections
// of key=value lines. Options of a level are named Levels[0].block_size and so
// on.
func parseOptions(text string) map[string]string {
	options := map[string]string{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "["); is {
			section = strings.TrimSuffix(name, "]")
			continue
		}

		key, value, is := strings.Cut(line, "=")
		if !is {
			continue
		}

		if level, is := strings.CutPrefix(section, "Level "); is {
			key = "Levels[" + strings.Trim(level, `"`) + "]." + key
		}

		options[key] = value
	}

	return options
}

// Activity is what a database does in the background.
type Activity struct {
	Running      int     // flushes, compactions and statistics jobs in progress
	PendingBytes int64   // estimated compaction debt
	Score        float64 // of the level that needs a compaction most: due at 1
	Finished     int64   // grows with every job
	TableReads   int64   // grows with every read of a table
}

// rest: jobs follow each other within microseconds. Levels stay due where compactions are
// disabled, or where Pebble sees no legal one.
var rest = adapter.IdleDetector{
	Poll:    10 * time.Millisecond,
	Rest:    50 * time.Millisecond,
	Overdue: 2 * time.Second,
}

func (d *live) awaitQuiet(ctx context.Context, progress func(engine.Settling)) error {
	last := d.activity()
	return rest.Await(ctx, &d.unsettled, func(time.Duration) (b adapter.Background, err error) {
		now := d.activity()
		b.Failed, b.Running, b.PendingBytes, b.Due = d.events.Err() != nil, now.Running,
			now.PendingBytes, now.Score >= 1
		b.Active = now.Running > 0 || now.Finished != last.Finished ||
			now.TableReads != last.TableReads
		last = now
		return b, nil
	}, progress)
}
