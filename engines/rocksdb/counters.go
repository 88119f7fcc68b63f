//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"slices"
	"sync"

	"github.com/statelab/statelab/engine"
)

// account turns statistics into block reads. What happened until the database was
// open counts as meta reads: a table's filters and indexes are then read in one
// piece with its footer. From then on a miss of the block cache is a read.
//
// A database opened for reading only does not report what its Gets found in the
// block cache, only how many blocks it read: those are all data where filters and
// indexes are outside the cache, else they have no type.
type account struct {
	opened statistics
	// as the block cache counts them; none of a database opened for reading only
	kinds  []kind
	all    engine.BlockType // of the reads without kinds
	sector int64            // 0: not O_DIRECT

	mutex    sync.Mutex
	reads    [engine.NumBlockTypes]engine.Tally
	inserted []int64 // into the cache by kind, when bytes were last shared out
	shared   int64   // bytes shared out so far
	opens    int64   // of tables
}

// kind is a type of block as RocksDB's tickers call it.
type kind struct {
	name string
	as   engine.BlockType
}

func (d *db) newAccount(shape engine.Shape, sector int64) *account {
	a := &account{opened: d.statistics(), sector: sector, all: engine.Page}
	outside := func(f family) bool {
		return d.kept.inForce(f.name, d.settings.layout)["cache_index_and_filter_blocks"] == "false"
	}
	if !slices.ContainsFunc(d.asked(), func(f family) bool { return !outside(f) }) {
		a.all = engine.Data
	}

	if !d.settings.readOnly {
		index := engine.SingleIndex
		if d.settings.twoLevels(shape) {
			index = engine.Index
		}
		a.kinds = []kind{{"data", engine.Data}, {"index", index}, {"filter", engine.Filter}}
	}

	for _, k := range a.kinds {
		a.inserted = append(a.inserted, a.opened.count("block.cache."+k.name+".bytes.insert"))
	}

	a.reads[engine.Meta] = engine.Tally{
		Count: a.opened.fileReads(),
		Bytes: a.opened.fileReadBytes(),
	}

	a.shared, a.opens = a.opened.fileReadBytes()-a.opened.valueBytes(),
		a.opened.count("no.file.opens")
	return a
}

// update counts what happened up to now. The tickers are not read at one moment,
// so a difference of two may fall for an instant: counts never do.
func (a *account) update(now statistics) {
	blocks := int64(0)
	count := func(as engine.BlockType, n int64) { a.reads[as].Count = max(a.reads[as].Count, n) }
	for _, k := range a.kinds {
		n := a.since(now, "block.cache."+k.name+".miss")
		blocks += n
		if k.as == engine.Data {
			n -= a.since(now, compactionBlocks)
		}

		count(k.as, n)
	}

	if a.kinds == nil {
		blocks = a.since(now, getBlocks)
		count(a.all, blocks)
	}

	// Reads that were for no block opened tables. Between the readings of two
	// tickers Gets go on: without a table opened, a difference is no more than that.
	if n := now.count("no.file.opens"); n > a.opens {
		a.opens = n
		count(engine.Meta, now.fileReads()-now.count(valueReads)-blocks)
	}

	count(engine.Value, a.since(now, valueReads))
	a.reads[engine.Value].Bytes = max(a.reads[engine.Value].Bytes,
		now.valueBytes()-a.opened.valueBytes())
	a.shareBytes(now)
}

func (a *account) since(now statistics, name string) int64 {
	return now.count(name) - a.opened.count(name)
}

// shareBytes shares the bytes read since the last time out among the types, in
// proportion to what they put into the cache: RocksDB counts bytes read for all of
// them together.
func (a *account) shareBytes(now statistics) {
	foreground := now.fileReadBytes() - now.valueBytes() - now.compactionBytes()
	left := foreground - a.shared
	if left <= 0 {
		return
	}

	a.shared = foreground
	if a.kinds == nil {
		a.reads[a.all].Bytes += left
		return
	}

	weights, sum := make([]int64, len(a.kinds)), int64(0)
	for i, k := range a.kinds {
		n := now.count("block.cache." + k.name + ".bytes.insert")
		weights[i], a.inserted[i] = n-a.inserted[i], n
		sum += weights[i]
	}

	if sum == 0 {
		a.reads[engine.Meta].Bytes += left
		return
	}

	rest := left
	for i, k := range a.kinds {
		part := int64(float64(left) * float64(weights[i]) / float64(sum))
		a.reads[k.as].Bytes += part
		rest -= part
	}

	a.reads[engine.Data].Bytes += rest // of rounding
}

// accesses are blocks that were looked up in the cache. Filters and indexes
// outside of it are always at hand and not counted.
func (a *account) accesses(now statistics) *[engine.NumBlockTypes]int64 {
	var all [engine.NumBlockTypes]int64
	for _, k := range a.kinds {
		for _, outcome := range []string{".hit", ".miss"} {
			all[k.as] += a.since(now, "block.cache."+k.name+outcome)
		}
	}

	all[engine.Data] -= a.since(now, compactionBlocks)
	all[engine.Value] = a.since(now, valueReads)
	return &all
}

// directBytes is what O_DIRECT makes of the bytes: a block begins anywhere, so a
// read of n bytes takes n + sector - 1 on average over all offsets in a sector.
// What a table's opening reads is rounded already.
func (a *account) directBytes() int64 {
	expected := a.reads[engine.Meta].Bytes
	for kind, r := range a.reads {
		if engine.BlockType(kind) != engine.Meta {
			expected += r.Bytes + r.Count*(a.sector-1)
		}
	}
	return expected / a.sector * a.sector
}

func (d *db) Counters() engine.Counters {
	now := d.statistics()
	a := d.reads
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.update(now)
	var reads engine.BlockReads
	reads[engine.LevelUnknown] = a.reads
	named := func(name string) *int64 { return new(now.count(name)) }
	c := engine.Counters{
		Reads: &reads,
		BackgroundReads: &engine.Tally{
			Count: now.count(compactionBlocks),
			Bytes: now.compactionBytes(),
		},
		TableOpens:    named("no.file.opens"),
		UncachedReads: new(a.reads[engine.Meta].Count + a.reads[engine.Value].Count),
		Gets: new(now.count("number.keys.read") +
			now.count("number.multiget.keys.read")),

		FilterNegative: named("bloom.filter.useful"),
		FilterPositive: named("bloom.filter.full.positive"),

		CacheUsedBytes: new(int64(C.rocks_cache_get_usage(d.cache))),
		MemtableBytes:  new(d.number("rocksdb.cur-size-all-mem-tables")),

		UserWriteBytes: new(d.written.Load()),
		WALBytes:       named("wal.bytes"),
		FlushBytes:     named("flush.write.bytes"),
		CompactBytes:   named("compact.write.bytes"),
		Stalls:         named("db.write.stall"),
		StallNanos:     new(1000 * now.count("stall.micros")),
	}

	if a.kinds != nil {
		c.Accesses = a.accesses(now)
		c.CacheHits, c.CacheMisses = named("block.cache.hit"), named("block.cache.miss")
	}

	if a.sector > 0 {
		c.DirectBytes = new(a.directBytes())
	}

	return c
}
