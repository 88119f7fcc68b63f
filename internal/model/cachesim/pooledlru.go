package cachesim

import "math/bits"

// PooledLRU is a shard of RocksDB's LRUCache with a high-priority pool, for half of the bytes
// unless the owner says otherwise, and none for low priority. A block enters the high pool with
// high priority or after a hit, else the bottom one. The oldest of the bottom pool leave first.
// What the high pool cannot hold goes on as the newest of the bottom pool.
//
// Blocks that a Get holds cannot leave meanwhile: that is not modelled, and matters only to shards
// of a few blocks.
type PooledLRU struct {
	_                   cacheLinePad
	maxBytes, usedBytes int64
	highMax, highBytes  int64
	index
	ring
	// The lists are around pages that hold no block; the next of a page is newer. Pinned pages are
	// in neither.
	high, bottom int32
}

// inHigh is the kind of the pages of the high-priority pool.
const inHigh uint8 = 1

// DefaultHighShare is high_pri_pool_ratio of RocksDB in C++; in Java it is 0.
const DefaultHighShare = 0.5

// NewPooledLRU returns an empty shard of maxBytes, of which highShare are for the high-priority
// pool (high_pri_pool_ratio). Without one it is an LRU.
func NewPooledLRU(maxBytes int64, highShare float64) *PooledLRU {
	c := &PooledLRU{
		maxBytes: maxBytes,
		highMax:  int64(float64(maxBytes) * highShare),
		index:    newIndex(),
		ring:     newRing(),
	}
	c.high, c.bottom = c.take(0, 0), c.take(0, 0)
	return c
}

// UsedBytes implements Cache.
func (c *PooledLRU) UsedBytes() int64 { return c.usedBytes }

// Access implements Cache.
func (c *PooledLRU) Access(id uint32, bytes int32) (hit bool) {
	return c.access(&request{id: id, bytes: bytes})
}

// AccessAs is Access to a block of high priority, or not.
func (c *PooledLRU) AccessAs(id uint32, bytes int32, high bool) (hit bool) {
	q := request{id: id, bytes: bytes}
	if high {
		q.marks = HighPriority
	}
	return c.access(&q)
}

// access is Access with what the block is marked with.
func (c *PooledLRU) access(q *request) (hit bool) {
	if c.use(q.id) {
		return true
	}

	for c.usedBytes+int64(q.bytes) > c.maxBytes && c.evict() {
	}
	if c.usedBytes+int64(q.bytes) > c.maxBytes && q.marks&Pinned == 0 {
		return false // it leaves as soon as the Get is done with it
	}

	slot := c.take(q.id, q.bytes)
	c.put(q.id, slot)
	c.usedBytes += int64(q.bytes)
	if q.marks&Pinned == 0 {
		c.enter(slot, q.marks&HighPriority != 0)
	}

	return false
}

// Touch uses a block if the cache has it.
func (c *PooledLRU) Touch(id uint32) { c.use(id) }

func (c *PooledLRU) use(id uint32) (is bool) {
	slot := c.get(id)
	if slot != 0 && c.pages[slot].next != slot { // not pinned
		c.leave(slot)
		c.enter(slot, true)
	}
	return slot != 0
}

// enter makes a page that is in no list the newest of a pool.
func (c *PooledLRU) enter(slot int32, high bool) {
	if !high {
		c.linkBefore(c.bottom, slot)
		return
	}

	c.linkBefore(c.high, slot)
	p := &c.pages[slot]
	p.kind = inHigh
	c.highBytes += int64(p.bytes)
	for c.highBytes > c.highMax {
		oldest := c.pages[c.high].next
		c.leave(oldest)
		c.enter(oldest, false)
	}
}

func (c *PooledLRU) evict() bool {
	oldest := c.pages[c.bottom].next
	if oldest == c.bottom {
		if oldest = c.pages[c.high].next; oldest == c.high {
			return false
		}
	}

	c.leave(oldest)
	c.usedBytes -= int64(c.pages[oldest].bytes)
	c.remove(c.pages[oldest].id)
	c.release(oldest)
	return true
}

// leave takes a page out of its pool, for another one or for good.
func (c *PooledLRU) leave(slot int32) {
	p := &c.pages[slot]
	c.pages[p.prev].next, c.pages[p.next].prev = p.next, p.prev
	if p.kind == inHigh {
		p.kind = 0
		c.highBytes -= int64(p.bytes)
	}
}

// PooledShards is how many shards an LRUCache has.
func PooledShards(cacheBytes int64) int {
	return Setup{Policy: PooledLRUPolicy}.rocksShards(cacheBytes)
}

// rocksShards is how many shards RocksDB divides a cache into: a power of two, at most 64. A sample
// is played to some of them, which are as large as all.
func (s Setup) rocksShards(cacheBytes int64) int {
	minShardBytes, maxBits := int64(512<<10), 6
	if s.Policy != PooledLRUPolicy {
		minShardBytes = clockMinShard
	}
	return 1 << max(0, min(bits.Len64(uint64(max(1, cacheBytes/minShardBytes)))-1, maxBits)-
		s.sampleShift)
}

// cacheKey is what the cache calls a block. A trace without the keys of its tables gets others,
// which spread as evenly.
func (t *Trace) cacheKey(b *Block) [2]uint64 {
	key, known := t.CacheKeys[b.File]
	if !known {
		key = [2]uint64{b.File*0x9E3779B97F4A7C15 + 1, b.File}
	}
	key[1] ^= b.Offset >> 2
	return key
}

// pooledShard is the shard of a block: by a preview of XXH3 over the 16 bytes of its cache key.
func (t *Trace) pooledShard(b *Block, seed uint32, shards int) int {
	key := t.cacheKey(b)
	const secretLow, secretHigh, prime = 0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0x165667B19E3779F9
	low := key[0] ^ (secretLow + uint64(seed))
	high := key[1] ^ (secretHigh - uint64(seed))
	foldHigh, foldLow := bits.Mul64(low, high)
	h := 16 + low + high + (foldHigh ^ foldLow)
	h = (h ^ h>>37) * prime
	return int(uint32(h^h>>32)) & (shards - 1)
}

// pooledEntryBytes is what an LRUCache charges for its own entry of a block.
const pooledEntryBytes = 88

// rocksCharge is what RocksDB charges its cache for a block: the memory that glibc gives for it,
// and a Block or a filter around it. Measured with RocksDB 11.8.1 and 7.8.3. The allocator
// sometimes gives 16 bytes more, and rounds blocks above 128 KiB to pages.
func (s Setup) rocksCharge(b *Block) int32 {
	stored := b.Bytes
	if b.DiskBytes >= b.Bytes { // not compressed: it is kept with its trailer
		stored = b.DiskBytes
	}
	usable := (stored+8+15)&^15 - 8
	return usable + rocksAround(b.Marks, s.Before83)
}

// rocksAround is what RocksDB keeps around a block.
func rocksAround(m Marks, before83 bool) int32 {
	switch {
	case m&ParsedFilter != 0:
		return filterBytes
	case before83:
		return oldBlockBytes
	}
	return blockBytes
}

// RocksBytes is how many bytes a block counts with here that RocksDB says takes so much memory.
func RocksBytes(usage uint64, m Marks, before83 bool) int32 {
	return int32(min(usage, 1<<30)) - min(rocksAround(m, before83), int32(min(usage, 1<<30)))
}

// What RocksDB keeps around a block and around a filter. Since 8.3 a block has room for checksums
// of its entries.
const blockBytes, oldBlockBytes, filterBytes = 104, 88, 48

// PooledCharge is the mean charge of blocks, or of filters, in an LRUCache beyond their bytes.
func PooledCharge(filter bool) float64 {
	const rounding = 7.5 // up to the allocator's 16 bytes
	if filter {
		return pooledEntryBytes + filterBytes + rounding
	}
	return pooledEntryBytes + blockBytes + rounding
}
