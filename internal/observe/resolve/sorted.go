package resolve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sort"
)

// sortedKeys are ascending keys to search in. The first eight bytes behind the
// prefix that all share decide nearly every comparison, so they stand apart, in
// one word each.
type sortedKeys struct {
	prefix []byte
	heads  []uint64
	bytes  []byte // all keys, one after the other
	ends   []uint32
}

func (s *sortedKeys) len() int { return len(s.ends) }

func (s *sortedKeys) at(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.bytes[start:s.ends[i]]
}

// add appends a key that is not below the last one.
func (s *sortedKeys) add(key []byte) {
	s.bytes = append(s.bytes, key...)
	s.ends = append(s.ends, uint32(len(s.bytes)))
}

// finish makes the keys searchable.
func (s *sortedKeys) finish() {
	n := s.len()
	if n == 0 {
		return
	}
	first, last := s.at(0), s.at(n-1)
	shared := 0
	for shared < len(first) && shared < len(last) && first[shared] == last[shared] {
		shared++
	}
	s.prefix = first[:shared]
	s.heads = make([]uint64, n)
	for i := range s.heads {
		s.heads[i] = headOf(s.at(i)[shared:])
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

// seek returns the position of the first key that is not below key, or len.
func (s *sortedKeys) seek(key []byte) int {
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
	return from + sort.Search(len(s.heads)-from, func(i int) bool { return bytes.Compare(s.at(from+i), key) >= 0 })
}

// obsoleteProperty reads the block property by which Pebble marks blocks
// without a single visible entry.
type obsoleteProperty struct {
	known   bool
	id      byte
	ofTable bool
}

func newObsoleteProperty(user map[string]string) (obsoleteProperty, error) {
	value, known := user["obsolete-key"]
	if !known {
		return obsoleteProperty{}, nil
	}
	if value == "" {
		return obsoleteProperty{}, errors.New("empty property obsolete-key")
	}
	return obsoleteProperty{true, value[0], value[1:] == "t"}, nil
}

// of finds the property among those of an index entry: id, length, value, in
// the order of ids, empty ones left out.
func (o obsoleteProperty) of(properties []byte) (obsolete bool, err error) {
	for len(properties) > 0 {
		id := properties[0]
		length, width := binary.Uvarint(properties[1:])
		if width <= 0 || length > uint64(len(properties)-1-width) {
			return false, errors.New("damaged block properties")
		}
		value := properties[1+width:][:length]
		if o.known && id == o.id {
			return string(value) == "t", nil
		}
		properties = properties[1+width+int(length):]
	}
	return false, nil
}
