package cachesim

import (
	"math"
	"slices"
)

// TableCache is a model of the tables that an engine keeps open: which of them a Get finds open,
// and which it has to open again, so that their footers, properties, indexes and filters are read
// once more. What is open depends on the tables that Gets look up, and not on the block cache.
//
// Not safe for concurrent use. Lookups that hold a table while others want its place are not
// modelled.
type TableCache struct {
	shards  []Cache
	shardOf func(file uint64) int
	perEach int            // tables that a shard keeps open
	pinned  map[uint64]int // tables that stay open, and in which shard they take a place
	ids     map[uint64]uint32
	// least is the least limit with which a shard keeps so many tables open.
	least func(tables int) int
}

const (
	// otherFiles are open files that Pebble and RocksDB leave to others than tables.
	otherFiles = 10
	// minPebbleTables are kept open by Pebble with any limit.
	minPebbleTables = 64
	// minRocksFiles is what RocksDB takes a lower limit for.
	minRocksFiles = 20
)

// NewPebbleTableCache is Pebble's, opened with this limit (MaxOpenFiles) and so many shards of the
// table cache: CLOCK-Pro over tables. Sources: table_cache.go of v1.1.5, file_cache.go and
// internal/genericcache of v2.1.7.
func NewPebbleTableCache(version PebbleVersion, maxOpenFiles, shards int) *TableCache {
	capacity := max(maxOpenFiles-otherFiles, minPebbleTables)
	each := capacity / shards
	if version == PebbleV2 {
		each = (capacity + shards - 1) / shards
	}

	c := newTableCache(shards, each, func() Cache { return NewClockPro(int64(each)) })
	c.shardOf = func(file uint64) int { return int(file % uint64(shards)) }
	c.least = func(tables int) int {
		if version == PebbleV2 {
			return (tables-1)*shards + 1 + otherFiles
		}
		return tables*shards + otherFiles
	}

	return c
}

// NewRocksTableCache is RocksDB's, opened with max_open_files and table_cache_numshardbits: an LRU
// cache with the pools of a block cache. Tables that RocksDB opens when it opens the database stay
// open; preferred are those it may choose, in that order. Source: TableCache,
// VersionBuilder::LoadTableHandlers and SanitizeOptions of 7.8 and 11.8.
func NewRocksTableCache(maxOpenFiles, shardBits int, preferred []uint64) *TableCache {
	capacity, shards := max(maxOpenFiles, minRocksFiles)-otherFiles, 1<<max(0, min(shardBits, 19))
	each := (capacity + shards - 1) / shards
	c := newTableCache(shards, each, func() Cache {
		return NewPooledLRU(int64(each), DefaultHighShare)
	})
	c.shardOf = func(file uint64) int { return int(rocksFileHash(file)) & (shards - 1) }
	c.least = func(tables int) int { return (tables-1)*shards + 1 + otherFiles }

	const initialTables = 16
	for _, file := range preferred[:min(initialTables, capacity/4, len(preferred))] {
		shard := c.shardOf(file)
		c.pinned[file] = shard
		c.shards[shard].(*PooledLRU).access(&request{id: c.id(file), bytes: 1, marks: Pinned})
	}

	return c
}

// NewLevelTableCache is that of LevelDB in Go: one LRU cache of so many tables.
func NewLevelTableCache(openFiles int) *TableCache {
	c := newTableCache(1, openFiles, func() Cache { return NewLRU(int64(openFiles)) })
	c.shardOf = func(uint64) int { return 0 }
	c.least = func(tables int) int { return tables }
	return c
}

func newTableCache(shards, each int, shard func() Cache) *TableCache {
	c := &TableCache{
		perEach: each,
		pinned:  map[uint64]int{},
		ids:     map[uint64]uint32{},
	}
	for range shards {
		c.shards = append(c.shards, shard())
	}
	return c
}

// id is a small number for a file.
func (c *TableCache) id(file uint64) uint32 {
	id, known := c.ids[file]
	if !known {
		id = uint32(len(c.ids))
		c.ids[file] = id
	}
	return id
}

// Lookup looks a table up and opens it if it is not open. It reports whether it was.
func (c *TableCache) Lookup(file uint64) (open bool) {
	if _, is := c.pinned[file]; is {
		return true
	}
	return c.shards[c.shardOf(file)].Access(c.id(file), 1)
}

// Pinned reports whether a table stays open from the opening of the database on.
func (c *TableCache) Pinned(file uint64) bool {
	_, is := c.pinned[file]
	return is
}

// Fits reports whether all of these tables stay open together.
func (c *TableCache) Fits(files []uint64) bool { return c.crowd(files) <= c.perEach }

// Enough is the least limit of open files with which all of these tables stay open, in a cache that
// is divided as this one.
func (c *TableCache) Enough(files []uint64) int { return c.least(max(1, c.crowd(files))) }

// crowd is how many tables of these share the fullest shard.
func (c *TableCache) crowd(files []uint64) int {
	counts := make([]int, len(c.shards))
	for _, file := range files {
		counts[c.shardOf(file)]++
	}
	return slices.Max(counts)
}

// rocksFileHash is the hash by which RocksDB's table cache chooses the shard of a file number: a
// preview of XXH3 over 8 bytes, without a seed.
func rocksFileHash(file uint64) uint32 {
	const (
		secret  = 0xbe4ba423396cfeb8
		prime32 = 0x9E3779B1
		prime2  = 0xC2B2AE3D27D4EB4F
		prime3  = 0x165667B19E3779F9
		length  = 8
	)
	keyed := file ^ secret
	mixed := length + (keyed^keyed>>51)*prime32
	h := (mixed ^ mixed>>47) * prime2
	h = (h ^ h>>37) * prime3
	return uint32((h ^ h>>32) & math.MaxUint32)
}
