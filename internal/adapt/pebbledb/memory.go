package pebbledb

import (
	"strconv"

	"github.com/statelab/statelab/engine"
)

// Memory is how Pebble spends a budget. It charges memtables to the block cache,
// so that the size of the cache bounds both; open tables keep a few kilobytes of
// their own, which nothing counts.
func Memory(effective map[string]string, c engine.Counters) []engine.MemoryShare {
	cache, err := strconv.ParseInt(effective["cache_bytes"], 10, 64)
	if err != nil {
		return nil
	}
	reserved := int64(0)
	if c.CacheReservedBytes != nil {
		reserved = min(*c.CacheReservedBytes, cache)
	}
	return []engine.MemoryShare{
		{Use: "block cache", Bytes: cache - reserved, Basis: "limit"},
		{Use: "write buffers", Bytes: reserved, Basis: "measured"},
	}
}

// Durability of a database as the adapters open it.
const Durability = "commits reach the WAL without waiting: a killed process loses those since the last Sync"
