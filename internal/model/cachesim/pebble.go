package cachesim

// PebbleVersion tells Pebble's two caches apart: one policy, but other shards
// and another charge per block.
type PebbleVersion int

// Versions of Pebble's cache.
const (
	PebbleV1 PebbleVersion = 1
	PebbleV2 PebbleVersion = 2
)

// BlockCharge are the bytes a cached block takes beyond its decompressed
// content: v2 keeps decoder state with each (block.MetadataSize).
func (v PebbleVersion) BlockCharge() int64 {
	if v == PebbleV2 {
		return 336
	}
	return 0
}

// ShardCount is how many shards Pebble divides a cache into on a machine of
// that many cores (GOMAXPROCS).
func ShardCount(cacheBytes int64, cores int) int {
	const minShardBytes = 4 << 20
	if n := 4 * cores; n <= 4 || cacheBytes/int64(n) >= minShardBytes {
		return n
	}
	return 4
}

// newPebbleShards returns the shards of a Pebble cache, reservedBytes of it taken by
// memtables.
func newPebbleShards(cacheBytes int64, count int, reservedBytes int64) []*ClockPro {
	n := int64(count)
	shards := make([]*ClockPro, n)
	for i := range shards {
		shards[i] = NewClockPro(cacheBytes / n)
		shards[i].Reserve((reservedBytes + n - 1) / n)
	}
	return shards
}

// Shard is the shard among n that holds the block at offset of a file, for the
// first database opened with the cache.
func (v PebbleVersion) Shard(file, offset uint64, n int) int {
	if v == PebbleV2 {
		// Fibonacci hashing of the three words, reduced by multiplication.
		const m, handle = 11400714819323198485, 1
		h := (handle*m ^ file*m ^ offset*m) >> 32
		return int(h * uint64(n) >> 32)
	}
	// FNV-1 over the three words, lowest byte first.
	const basis, prime, cacheID = 14695981039346656037, 1099511628211, 2
	h := uint64(basis)
	for _, word := range [3]uint64{cacheID, file, offset} {
		for range 8 {
			h = h*prime ^ word&0xff
			word >>= 8
		}
	}
	return int(h % uint64(n))
}
