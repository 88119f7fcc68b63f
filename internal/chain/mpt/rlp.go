package mpt

import (
	"bytes"
	"encoding/binary"

	"github.com/statelab/statelab/layout"
)

// AppendAccount appends what a leaf of the account trie holds.
func AppendAccount(dst []byte, a *layout.Account, storageRoot *layout.Hash) []byte {
	var nonce [8]byte
	binary.BigEndian.PutUint64(nonce[:], a.Nonce)
	var buf [9 + 33 + 33 + 33]byte
	list := AppendString(buf[:0], bytes.TrimLeft(nonce[:], "\x00"))
	list = AppendString(list, bytes.TrimLeft(a.Balance[:], "\x00"))
	list = AppendString(list, storageRoot[:])
	list = AppendString(list, a.CodeHash[:])
	return append(appendListHeader(dst, len(list)), list...)
}

// AppendString appends a byte string: what a leaf of a storage trie holds of a
// slot's value.
func AppendString(dst, s []byte) []byte {
	switch {
	case len(s) == 1 && s[0] < 0x80:
		return append(dst, s[0])
	case len(s) <= 55:
		return append(append(dst, 0x80+byte(len(s))), s...)
	default:
		return append(appendLength(dst, 0xb7, len(s)), s...)
	}
}

func appendListHeader(dst []byte, length int) []byte {
	if length <= 55 {
		return append(dst, 0xc0+byte(length))
	}
	return appendLength(dst, 0xf7, length)
}

// appendLength appends a length of more than 55 bytes: how many bytes it takes,
// then those.
func appendLength(dst []byte, base byte, length int) []byte {
	var be [8]byte
	binary.BigEndian.PutUint64(be[:], uint64(length))
	digits := bytes.TrimLeft(be[:], "\x00")
	return append(append(dst, base+byte(len(digits))), digits...)
}
