package mpt

import "github.com/statelab/statelab/layout"

// PathNibbles is the length of every key's path.
const PathNibbles = 64

// Nibble is nibble i of a path, the high half of a byte first.
func Nibble(path *layout.Hash, i int) byte {
	b := path[uint(i)>>1%32]
	if i&1 == 0 {
		return b >> 4
	}
	return b & 15
}

// AppendNibbles unpacks the nibbles from <= i < to of packed, a byte each.
func AppendNibbles(dst, packed []byte, from, to int) []byte {
	for i := from; i < to; i++ {
		b := packed[i>>1]
		if i&1 == 0 {
			b >>= 4
		}
		dst = append(dst, b&15)
	}
	return dst
}

// AppendPacked packs nibbles two to a byte; an odd one leaves a low half of 0.
func AppendPacked(dst, nibbles []byte) []byte {
	for len(nibbles) >= 2 {
		dst = append(dst, nibbles[0]<<4|nibbles[1])
		nibbles = nibbles[2:]
	}
	if len(nibbles) == 1 {
		dst = append(dst, nibbles[0]<<4)
	}
	return dst
}

// Common is how many of the first count nibbles of packed are those of path from
// nibble depth on. packed holds count nibbles, and path has as many left.
func Common(path *layout.Hash, depth int, packed []byte, count int) int {
	i := 0
	if depth&1 == 0 {
		for own := path[depth>>1:]; i+2 <= count && packed[i>>1] == own[i>>1]; {
			i += 2
		}
	}
	for ; i < count; i++ {
		b := packed[i>>1]
		if i&1 == 0 {
			b >>= 4
		}
		if b&15 != Nibble(path, depth+i) {
			return i
		}
	}
	return count
}

// appendHexPrefix encodes a path: its parity and whether it ends in a leaf, then
// its nibbles, filling whole bytes.
func appendHexPrefix(dst, nibbles []byte, leaf bool) []byte {
	flags := byte(0)
	if leaf {
		flags = 0x20
	}
	if len(nibbles)%2 == 1 {
		return AppendPacked(append(dst, flags|0x10|nibbles[0]), nibbles[1:])
	}
	return AppendPacked(append(dst, flags), nibbles)
}
