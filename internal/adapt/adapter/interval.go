package adapter

import "encoding/binary"

// Interval are the keys Prefix+Low to Prefix+High.
type Interval struct {
	Prefix    []byte
	Low, High uint64
}

// Between is the interval of two keys: what they begin with alike, then eight bytes of each, read as
// a number; what lacks is zero.
func Between(first, last []byte) Interval {
	shared := 0
	for shared < min(len(first), len(last)) && first[shared] == last[shared] {
		shared++
	}
	return Interval{first[:shared:shared], number(first[shared:]), number(last[shared:])}
}

func number(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// At is the key at a number.
func (i Interval) At(n uint64) []byte { return binary.BigEndian.AppendUint64(i.Prefix, n) }
