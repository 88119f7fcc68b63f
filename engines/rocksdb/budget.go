//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

const (
	// RocksDB's defaults.
	writeBufferBytes = 64 << 20
	writeBuffers     = 2

	// Of a budget, write buffers get no more than this part.
	writeBufferShare = 4

	minBudgetBytes = 2 << 20
	minCacheBytes  = 256 << 10
)

// budget is the memory for everything, less what write buffers may take. The
// block cache gets what filters and indexes outside it leave.
type budget struct{ total, writeBuffers int64 }

// split sets the size of the write buffers of s, unless its options do, so that
// they fit into total.
func split(total int64, s *settings) (budget, error) {
	if total < minBudgetBytes {
		return budget{},
			fmt.Errorf("a budget of %d bytes is too small for write buffers and a cache: write "+
				"--memory %s", total, mib(minBudgetBytes))
	}

	b := budget{total: total}
	if s.readOnly {
		return b, nil
	}

	count, err := s.database.number("max_write_buffer_number", writeBuffers)
	if err != nil {
		return b, err
	}

	size, err := s.database.number("write_buffer_size",
		min(writeBufferBytes, total/writeBufferShare/count))
	if err != nil {
		return b, err
	}

	s.database["write_buffer_size"] = strconv.FormatInt(size, 10)
	b.writeBuffers = count * size
	if total-b.writeBuffers < minCacheBytes {
		return b, fmt.Errorf("%d write buffers of %d bytes leave no cache of a budget of %d: "+
			"write --set write_buffer_size=%d", count, size, total, total/writeBufferShare/count)
	}

	return b, nil
}

// mib is a size of at least so many bytes, as --memory takes it.
func mib(bytes int64) string { return fmt.Sprintf("%dMiB", (bytes+1<<20-1)>>20) }

// cache is the size of the block cache where outside bytes of filters and indexes
// are not in it.
func (b budget) cache(outside int64) int64 { return b.total - b.writeBuffers - outside }

// rebalance gives the block cache what open tables have left of the budget.
func (d *db) rebalance() error {
	if d.settings.budget.total == 0 {
		return nil
	}

	d.memory.Lock()
	defer d.memory.Unlock()
	outside := d.number("rocksdb.estimate-table-readers-mem")
	cache := d.settings.budget.cache(outside)
	if cache < minCacheBytes {
		return fmt.Errorf("open tables keep %d bytes of filters and indexes outside the block "+
			"cache: a budget of %d leaves no cache: write --memory %s or --profile partitioned",
			outside, d.settings.budget.total,
			mib(d.settings.budget.writeBuffers+outside+minCacheBytes))
	}

	C.rocks_cache_set_capacity(d.cache, C.size_t(cache))
	d.cacheBytes, d.outside = cache, outside
	return nil
}

// Memory is how the memory is spent. Tables opened meanwhile move the border
// between cache and what is outside of it.
func (d *db) Memory() []engine.MemoryShare {
	if err := d.rebalance(); err != nil {
		d.warn(engine.Warning{Code: "over_budget", Text: err.Error(), Remedy: "a larger --memory"})
	}

	d.memory.Lock()
	defer d.memory.Unlock()
	outside := d.outside
	if d.settings.budget.total == 0 {
		outside = d.number("rocksdb.estimate-table-readers-mem")
	}

	shares := []engine.MemoryShare{
		{Use: "block cache", Bytes: d.cacheBytes, Basis: "limit"},
		{Use: "filters and indexes outside the cache", Bytes: outside, Basis: "measured",
			Holds: engine.TableMetadata},
	}

	if log := d.replayedBytes(); log > 0 {
		shares = append(shares, adapter.ReplayedLog(log))
	}

	if !d.settings.readOnly {
		shares = append(shares, engine.MemoryShare{
			Use:   "write buffers",
			Bytes: d.writeBufferLimit(),
			Basis: "limit",
		})
	}

	slices.SortStableFunc(shares, func(a, b engine.MemoryShare) int {
		return int(b.Bytes - a.Bytes)
	})
	return shares
}

// writeBufferLimit is what full write buffers take, by the options in force.
func (d *db) writeBufferLimit() int64 {
	size, noSize := strconv.ParseInt(d.effective["write_buffer_size"], 10, 64)
	count, noCount := strconv.ParseInt(d.effective["max_write_buffer_number"], 10, 64)
	if noSize != nil || noCount != nil {
		return d.settings.budget.writeBuffers
	}
	return size * count
}
