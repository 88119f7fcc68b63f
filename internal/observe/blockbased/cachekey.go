package blockbased

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
)

// maxCacheKeys bounds what a trace's header holds.
const maxCacheKeys = 50_000

// CacheKeys are the two words by which the block cache knows a table's file, for each file: with a
// block's offset they decide in which shard it is. They follow from the ids of the database and of
// the session that wrote the table.
func (r *Resolver) CacheKeys() map[uint64][2]uint64 {
	if len(r.All) > maxCacheKeys {
		return nil
	}

	keys := make(map[uint64][2]uint64, len(r.All))
	for _, t := range r.All {
		if key, is := t.cacheKey(); is {
			keys[t.File] = key
		}
	}

	return keys
}

func (t *table) cacheKey() (key [2]uint64, is bool) {
	session, file := t.properties["rocksdb.creating.session.identity"],
		t.count("rocksdb.original.file.number")
	upper, lower, is := sessionWords(session)
	id := []byte(t.properties["rocksdb.creating.db.identity"])
	if !is || file == 0 || len(id) < 9 || len(id) > 64 || lower == 0 {
		return key, false // of an old program, or odd: its keys change with every opening
	}

	etc := highHash(id, upper) ^ file
	key = [2]uint64{involution(lower) ^ bits.Reverse64(etc), bits.Reverse64(lower)}
	if key[0] == 0 {
		key[0], key[1] = key[1], key[0]
	}

	return key, true
}

// sessionWords reads a session's id: a number to base 36.
func sessionWords(id string) (upper, lower uint64, is bool) {
	if len(id) < 13 || len(id) > 24 {
		return 0, 0, false
	}
	high, err := strconv.ParseUint(id[:len(id)-12], 36, 64)
	low, err2 := strconv.ParseUint(id[len(id)-12:], 36, 64)
	const lowBits = 1<<62 - 1
	return high >> 2, low&lowBits | high<<62, err == nil && err2 == nil
}

// highHash is the upper half of XXH3's 128 bits with a seed, of 9 to 64 bytes.
func highHash(b []byte, seed uint64) uint64 {
	n := uint64(len(b))
	if n <= 16 {
		end := le64(b[n-8:])
		upper, lower := bits.Mul64(le64(b)^end^((secret64(32)^secret64(40))-seed), prime64x1)
		end ^= (secret64(48) ^ secret64(56)) + seed
		upper += end + uint64(uint32(end))*(prime32x2-1)
		lower = (lower + (n-1)<<54) ^ bits.ReverseBytes64(upper)
		whole, _ := bits.Mul64(lower, prime64x2)
		return avalanche3(whole + upper*prime64x2)
	}

	low, high := n*prime64x1, uint64(0)
	mix := func(first, second []byte, at int) {
		low = (low + mix16(first, at, seed)) ^ (le64(second) + le64(second[8:]))
		high = (high + mix16(second, at+16, seed)) ^ (le64(first) + le64(first[8:]))
	}

	if n > 32 {
		mix(b[16:], b[n-32:], 32)
	}

	mix(b, b[n-16:], 0)
	return -avalanche3(low*prime64x1 + high*prime64x4 + (n-seed)*prime64x2)
}

// involution folds the upper bits of v into the lower ones; twice it is v again.
func involution(v uint64) uint64 {
	v ^= v >> 32
	v ^= v & 0xffff0000ffff0000 >> 16
	v ^= v & 0xff00ff00ff00ff00 >> 8
	v ^= v & 0xf0f0f0f0f0f0f0f0 >> 4
	v ^= v & 0xcccccccccccccccc >> 2
	return v ^ v&0xaaaaaaaaaaaaaaaa>>1
}

// CacheOf is what of the block cache depends on RocksDB's version. Since 8.3 its hash is seeded
// with a hash of this machine's name, and blocks are charged with a little more. An unknown version
// counts as a new one.
func CacheOf(version string) (hashSeed uint32, before83 bool) {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err == nil &&
		(major < 8 || major == 8 && minor < 3) {
		return 0, true
	}

	name, err := os.Hostname()
	if err != nil {
		return 0, false
	}

	return hashOld([]byte(name), 397, true) & 0x7fffffff, false
}
