// Package cachesim replays block accesses through models of block caches.
//
// The CLOCK-Pro here makes the decisions of Pebble's cache, block for block; a
// test holds it against the caches of Pebble v1 and v2 themselves. The other
// policies are for comparison: what another cache would have read.
//
// Read clockpro.go for the policy, pebble.go for how Pebble divides a cache
// into shards, trace.go and curve.go for replaying one trace against many
// sizes: replay.go does it shard by shard, lrustack.go all sizes of LRU at once,
// sample.go with a part of the blocks.
//
// Accesses are replayed one after the other. Two lookups that miss one block at
// the same time (two reads in Pebble v1) are not modelled, nor is time.
package cachesim

// Cache decides which blocks stay. Implementations are not safe for concurrent
// use, and allocate only while they grow.
type Cache interface {
	// Access asks for the block id, which takes bytes in the cache, and admits
	// it if it was not there and the policy wants it. It reports a hit. A block
	// always comes with the same size.
	Access(id uint32, bytes int32) (hit bool)
	// UsedBytes are the bytes of the blocks in the cache.
	UsedBytes() int64
}
