// Package keyspace makes the keys and values of a database from seeds, so that
// any reader can regenerate and check every pair from its index alone.
//
// Index i < Keys is a key that a complete load has written; index i >= Keys is
// a key that no load writes, spread over the key space like the others.
// Non-goals: which index is asked for next (workload) and where pairs go
// (engine adapters).
package keyspace

import (
	"encoding/binary"
	"fmt"
	"hash"
	"math/bits"

	"golang.org/x/crypto/sha3"
)

// Orders and hashes, by the names used in flags and manifests.
const (
	Hashed = "hashed" // index order is random in key order: loading by index is fillrandom
	Sorted = "sorted" // index order is key order: databases that version 0.1.0 built by fillsorted

	Mix       = "mix"       // splitmix64 words: about 5 ns a key
	Keccak256 = "keccak256" // keccak256 of the 32-byte big-endian index, as bench_kvdb does: about 500 ns a key
)

// MinKeyBytes keeps keys unique: the first eight bytes tell all keys apart.
const MinKeyBytes = 8

// Keys describes the keys of a database.
type Keys struct {
	Count uint64 // keys present
	Bytes int    // of one key
	Order string // Hashed or Sorted
	Hash  string // Mix or Keccak256; Sorted uses Mix
	Seed  uint64 // not used by Keccak256, whose keys equal bench_kvdb's
}

// Check names everything wrong with k.
func (k Keys) Check() (errs []error) {
	if k.Count == 0 {
		errs = append(errs, fmt.Errorf("0 keys: write --keys 5M"))
	}
	if k.Count > 1<<62 {
		errs = append(errs, fmt.Errorf("%d keys are more than can be told apart", k.Count))
	}
	if k.Bytes < MinKeyBytes || k.Bytes > 1<<10 {
		errs = append(errs, fmt.Errorf("keys of %d bytes: from %d to 1024, such as --key-bytes 32", k.Bytes, MinKeyBytes))
	}
	if k.Order != Hashed && k.Order != Sorted {
		errs = append(errs, fmt.Errorf("key order %q: write --key-order hashed or sorted", k.Order))
	}
	switch {
	case k.Hash != Mix && k.Hash != Keccak256:
		errs = append(errs, fmt.Errorf("key hash %q: write --key-hash mix or keccak256", k.Hash))
	case k.Hash == Keccak256 && k.Bytes != 32:
		errs = append(errs, fmt.Errorf("keccak256 keys have 32 bytes, not %d: --key-bytes 32", k.Bytes))
	case k.Hash == Keccak256 && k.Order == Sorted:
		errs = append(errs, fmt.Errorf("keccak256 keys cannot be made in sorted order: --key-hash mix"))
	}
	return errs
}

// Maker makes keys for one goroutine without allocating.
type Maker struct {
	keys   Keys
	keccak hash.Hash
	block  [32]byte
}

// Maker returns a maker of k's keys.
func (k Keys) Maker() *Maker {
	m := &Maker{keys: k}
	if k.Hash == Keccak256 {
		m.keccak = sha3.NewLegacyKeccak256()
	}
	return m
}

// Key writes the key of index into dst, which has Keys.Bytes bytes.
func (m *Maker) Key(dst []byte, index uint64) {
	switch {
	case m.keccak != nil:
		m.keccakKey(dst, index)
	case m.keys.Order == Sorted:
		m.sortedKey(dst, index)
	default:
		// splitmix64 is a bijection: different indexes differ in the first word.
		binary.BigEndian.PutUint64(dst, mix(index+m.keys.Seed*golden))
		fill(dst[8:], index, m.keys.Seed^tailSalt)
	}
}

func (m *Maker) keccakKey(dst []byte, index uint64) {
	binary.BigEndian.PutUint64(m.block[24:], index)
	m.keccak.Reset()
	m.keccak.Write(m.block[:]) // a hash never fails
	m.keccak.Sum(dst[:0])
}

// sortedKey cuts the key space into Count equal slots and puts key i somewhere
// in slot i; an absent key shares a slot with a present one.
func (m *Maker) sortedKey(dst []byte, index uint64) {
	slot := index % m.keys.Count
	from, _ := bits.Div64(slot, 0, m.keys.Count)
	to := ^uint64(0)
	if slot+1 < m.keys.Count {
		to, _ = bits.Div64(slot+1, 0, m.keys.Count)
	}
	jitter, _ := bits.Mul64(mix(index+m.keys.Seed*golden), to-from)
	binary.BigEndian.PutUint64(dst, from+jitter)
	fill(dst[8:], index, m.keys.Seed^tailSalt)
}

const (
	golden    = 0x9e3779b97f4a7c15
	tailSalt  = 0x6a09e667f3bcc909
	valueSalt = 0xbb67ae8584caa73b
	tableSalt = 0x3c6ef372fe94f82b
)

// mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill writes the splitmix64 stream that starts at (index, salt).
func fill(dst []byte, index, salt uint64) {
	state := mix(index*golden ^ salt)
	for len(dst) >= 8 {
		state += golden
		binary.LittleEndian.PutUint64(dst, mix(state))
		dst = dst[8:]
	}
	if len(dst) > 0 {
		state += golden
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], mix(state))
		copy(dst, last[:])
	}
}
