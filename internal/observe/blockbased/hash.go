package blockbased

import (
	"encoding/binary"
	"math/bits"
)

// Hashes that tables are written with and no library has: the 32-bit xxHash of checksums, the
// preview of XXH3 that filters and cache keys use, and LevelDB's hash of older filters. Formulas
// are those of the xxHash specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).

const (
	prime32x1 = 0x9E3779B1
	prime32x2 = 0x85EBCA77
	prime32x3 = 0xC2B2AE3D
	prime32x4 = 0x27D4EB2F
	prime32x5 = 0x165667B1
	prime64x1 = 0x9E3779B185EBCA87
	prime64x2 = 0xC2B2AE3D27D4EB4F
	prime64x3 = 0x165667B19E3779F9
	prime64x4 = 0x85EBCA77C2B2AE63
	prime64x5 = 0x27D4EB2F165667C5
)

// xxh3Secret is the default secret of XXH3.
const xxh3Secret = "" +
	"\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c" +
	"\xde\xd4\x6d\xe9\x83\x90\x97\xdb\x72\x40\xa4\xa4\xb7\xb3\x67\x1f" +
	"\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21" +
	"\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c" +
	"\x3c\x28\x52\xbb\x91\xc3\x00\xcb\x88\xd0\x65\x8b\x1b\x53\x2e\xa3" +
	"\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8" +
	"\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d" +
	"\x8a\x51\xe0\x4b\xcd\xb4\x59\x31\xc8\x9f\x7e\xc9\xd9\x78\x73\x64" +
	"\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb" +
	"\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e" +
	"\x2b\x16\xbe\x58\x7d\x47\xa1\xfc\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce" +
	"\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e"

const (
	secretBytes = len(xxh3Secret)
	secretMin   = 136 // what hashes of up to 240 bytes use
	stripeBytes = 64
	blockBytes  = stripeBytes * (secretBytes - stripeBytes) / 8
)

func secret64(at int) uint64 {
	s := xxh3Secret[at : at+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// avalanche3 ends XXH3.
func avalanche3(h uint64) uint64 {
	h = (h ^ h>>37) * 0x165667919E3779F9
	return h ^ h>>32
}

// avalanche ends a hash.
func avalanche(h uint64) uint64 {
	h = (h ^ h>>37) * prime64x3
	return h ^ h>>32
}

func mix16(b []byte, at int, seed uint64) uint64 {
	return fold(le64(b)^(secret64(at)+seed), le64(b[8:])^(secret64(at+8)-seed))
}

// middle hashes 17 to 240 bytes.
func middle(b []byte, seed uint64) uint64 {
	n := len(b)
	acc := uint64(n) * prime64x1
	if n > 128 {
		for i := range 8 {
			acc += mix16(b[16*i:], 16*i, seed)
		}

		acc = avalanche(acc)
		for i := 8; i < n/16; i++ {
			acc += mix16(b[16*i:], 16*(i-8)+3, seed)
		}

		return avalanche(acc + mix16(b[n-16:], secretMin-17, seed))
	}

	for i := (n - 1) / 32; i >= 0; i-- {
		acc += mix16(b[16*i:], 32*i, seed)
		acc += mix16(b[n-16*(i+1):], 32*i+16, seed)
	}

	return avalanche(acc)
}

// long hashes more than 240 bytes. Unlike XXH3 it adds a word to its own place, not to its
// neighbour's.
func long(b []byte) uint64 {
	acc := [8]uint64{prime32x3, prime64x1, prime64x2, prime64x3, prime64x4, prime32x2, prime64x5,
		prime32x1}
	stripe := func(in []byte, at int) {
		in = in[:stripeBytes]
		for i := range acc {
			word := le64(in[8*i:])
			key := word ^ secret64(at+8*i)
			acc[i] += word + (key&0xFFFFFFFF)*(key>>32)
		}
	}

	n := len(b)
	blocks := n / blockBytes
	for k := range blocks {
		for s := range blockBytes / stripeBytes {
			stripe(b[k*blockBytes+s*stripeBytes:], 8*s)
		}

		for i := range acc {
			acc[i] = (acc[i] ^ acc[i]>>47 ^ secret64(secretBytes-stripeBytes+8*i)) * prime32x1
		}
	}

	for s := range (n - blocks*blockBytes) / stripeBytes {
		stripe(b[blocks*blockBytes+s*stripeBytes:], 8*s)
	}

	if n%stripeBytes != 0 {
		stripe(b[n-stripeBytes:], secretBytes-stripeBytes-7)
	}

	h := uint64(n) * prime64x1
	for i := 0; i < 8; i += 2 {
		h += fold(acc[i]^secret64(11+8*i), acc[i+1]^secret64(19+8*i))
	}

	return avalanche(h)
}

// hashPreview is the hash of keys in filters and of blocks in caches: a preview of XXH3. Of more
// than 240 bytes it takes no seed.
func hashPreview(b []byte, seed uint64) uint64 {
	switch n := len(b); {
	case n == 0:
		return fold(seed+secret64(0), prime64x2)
	case n <= 3:
		mixed := uint32(b[0]) | uint32(b[n>>1])<<8 | uint32(b[n-1])<<16 | uint32(n)<<24
		return avalanche((uint64(mixed) ^ (secret64(0)&0xFFFFFFFF + seed)) * prime64x1)
	case n <= 8:
		keyed := (uint64(le32(b)) | uint64(le32(b[n-4:]))<<32) ^ (secret64(0) + seed)
		mixed := uint64(n) + (keyed^keyed>>51)*prime32x1
		return avalanche((mixed ^ mixed>>47) * prime64x2)
	case n <= 16:
		low := le64(b) ^ (secret64(0) + seed)
		high := le64(b[n-8:]) ^ (secret64(8) - seed)
		return avalanche(uint64(n) + low + high + fold(low, high))
	case n <= 240:
		return middle(b, seed)
	}

	return long(b)
}

// xxh32 is the 32-bit xxHash without a seed.
func xxh32(b []byte) uint32 {
	h := uint32(prime32x5)
	length := uint32(len(b))
	if len(b) >= 16 {
		seed := uint32(0)
		acc := [4]uint32{seed + prime32x1, seed + prime32x2, seed, seed - prime32x1}
		acc[0] += prime32x2
		for ; len(b) >= 16; b = b[16:] {
			for i := range acc {
				acc[i] = bits.RotateLeft32(acc[i]+le32(b[4*i:])*prime32x2, 13) * prime32x1
			}
		}

		h = bits.RotateLeft32(acc[0], 1) + bits.RotateLeft32(acc[1], 7) +
			bits.RotateLeft32(acc[2], 12) + bits.RotateLeft32(acc[3], 18)
	}

	h += length
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+le32(b)*prime32x3, 17) * prime32x4
	}

	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*prime32x5, 11) * prime32x1
	}

	h = (h ^ h>>15) * prime32x2
	h = (h ^ h>>13) * prime32x3
	return h ^ h>>16
}

// hashOld is LevelDB's hash. Its authors disagree on bytes above 127 at the end of a key:
// signed is RocksDB's reading.
func hashOld(b []byte, seed uint32, signed bool) uint32 {
	const m = 0xc6a4a793
	h := seed ^ uint32(len(b))*m
	for ; len(b) >= 4; b = b[4:] {
		h = (h + le32(b)) * m
		h ^= h >> 16
	}

	if len(b) == 0 {
		return h
	}

	for i := len(b) - 1; i >= 0; i-- {
		c := uint32(b[i])
		if signed {
			c = uint32(int32(int8(b[i])))
		}
		h += c << (8 * i)
	}

	h *= m
	return h ^ h>>24
}
