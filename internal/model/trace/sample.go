package trace

import "encoding/binary"

// Sample chooses one of 2^Shift keys by a hash of the key: every Get of a key
// or none, wherever it comes in the stream.
//
// What a sampled trace keeps: means over Gets (accesses by type and level,
// shares of found and absent) and which filters and top indexes exist. What it
// loses: a data block is shared by dozens of keys of which few are left, so its
// accesses thin out and the blocks of no sampled key are gone. Do not replay a
// sampled trace against a cache: neither the full size nor a scaled one gives
// the true miss rate. To replay less than everything, replay all Gets against
// a few of the cache's shards: blocks are hashed to shards, so that is exact
// for those shards (docs/simulation.md).
type Sample struct{ Shift int }

// Takes reports whether the Gets of key are in the sample.
func (s Sample) Takes(key []byte) bool {
	return s.Shift <= 0 || hashKey(key)&(1<<min(s.Shift, 63)-1) == 0
}

// hashKey is FNV-1a over words with the finaliser of MurmurHash3, which the
// low bits need.
func hashKey(key []byte) uint64 {
	const basis, prime = 14695981039346656037, 1099511628211
	h := uint64(basis)
	for len(key) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(key)) * prime
		h ^= h >> 29
		key = key[8:]
	}
	for _, b := range key {
		h = (h ^ uint64(b)) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
