package lookuppath

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// SortedKeys are ascending keys to search in. The first eight bytes behind the
// prefix that all share decide nearly every comparison, so they stand apart, in
// one word each.
type SortedKeys struct {
	prefix []byte
	heads  []uint64
	bytes  []byte // all keys, one after the other
	ends   []uint32
}

// Len is how many there are.
func (s *SortedKeys) Len() int { return len(s.ends) }

// At is key i; it must not be changed.
func (s *SortedKeys) At(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.bytes[start:s.ends[i]]
}

// Bytes are those of all keys.
func (s *SortedKeys) Bytes() int { return len(s.bytes) }

// Add appends a key that is not below the last one.
func (s *SortedKeys) Add(key []byte) {
	s.bytes = append(s.bytes, key...)
	s.ends = append(s.ends, uint32(len(s.bytes)))
}

// Finish makes the keys searchable.
func (s *SortedKeys) Finish() {
	n := s.Len()
	if n == 0 {
		return
	}

	first, last := s.At(0), s.At(n-1)
	shared := 0
	for shared < len(first) && shared < len(last) && first[shared] == last[shared] {
		shared++
	}

	s.prefix = first[:shared]
	s.heads = make([]uint64, n)
	for i := range s.heads {
		s.heads[i] = headOf(s.At(i)[shared:])
	}
}

// headOf is the first eight bytes as a number; a shorter key is filled up with
// zeros, so that equal heads leave the order open.
func headOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var filled [8]byte
	copy(filled[:], key)
	return binary.BigEndian.Uint64(filled[:])
}

// Seek returns the position of the first key that is not below key, or len.
func (s *SortedKeys) Seek(key []byte) int {
	if len(key) < len(s.prefix) || !bytes.Equal(key[:len(s.prefix)], s.prefix) {
		if bytes.Compare(key, s.prefix) < 0 {
			return 0
		}
		return len(s.heads)
	}

	head := headOf(key[len(s.prefix):])
	from, found := slices.BinarySearch(s.heads, head)
	if !found {
		return from
	}

	return from + sort.Search(len(s.heads)-from, func(i int) bool {
		return bytes.Compare(s.At(from+i), key) >= 0
	})
}
