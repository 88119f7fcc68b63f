// Package mpt holds the rules of Ethereum's Merkle-Patricia trie that every
// layout with such roots needs: paths of nibbles, the encoding of nodes, what a
// parent holds of a child, how many nodes a lookup meets; and a trie in memory
// that other tries are held against.
//
// Keys are hashes, 64 nibbles long: no key is another's prefix, so no branch
// holds a value.
//
// Goals: encoding and hashing without allocation. Non-goals: storing nodes,
// proofs, decoding.
package mpt

import (
	"bytes"
	"encoding/binary"
	"hash"
	"io"

	"golang.org/x/crypto/sha3"

	"github.com/statelab/statelab/layout"
)

// RefBytes is the room that a Ref needs.
const RefBytes = 33

// Ref is what a parent holds of a child, as it stands in the parent's encoding:
// the child's hash behind a length byte (0xa0), or the child's whole encoding if
// that is shorter than a hash. Its first byte tells its length; the zero Ref is no
// child.
type Ref [RefBytes]byte

// Len is the length of the reference in bytes; 0 for no child.
func (r *Ref) Len() int {
	switch b := r[0]; {
	case b == 0:
		return 0
	case b >= 0xc0 && b < 0xc0+32: // a list shorter than a hash
		return 1 + int(b-0xc0)
	default:
		return RefBytes
	}
}

// Legal tells whether a Ref read from a file is one that a Hasher makes.
func (r *Ref) Legal() bool { return r[0] == 0 || r[0] == 0xa0 || r[0] > 0xc0 && r[0] < 0xc0+31 }

// HashRef refers to the node of that hash.
func HashRef(h *layout.Hash) (r Ref) {
	r[0] = 0xa0
	copy(r[1:], h[:])
	return r
}

// Hasher encodes and hashes nodes. Not safe for concurrent use.
type Hasher struct {
	keccak interface {
		hash.Hash
		io.Reader // the sum without a copy of the state
	}
	digest           layout.Hash // a sum goes through an interface: on the stack it would escape
	node, body, item []byte
}

// NewHasher returns a Hasher; one makes any number of nodes.
func NewHasher() *Hasher {
	h := &Hasher{node: make([]byte, 0, 600), body: make([]byte, 0, 600), item: make([]byte, 0, 40)}
	h.keccak = sha3.NewLegacyKeccak256().(interface {
		hash.Hash
		io.Reader
	})
	return h
}

// Sum is the Keccak-256 hash of data.
func (h *Hasher) Sum(data []byte) layout.Hash {
	h.keccak.Reset()
	h.keccak.Write(data) // a hash never fails
	h.keccak.Read(h.digest[:])
	return h.digest
}

// Leaf makes a leaf of the rest of a key's path, nibbles, and a value as
// AppendAccount or AppendString encode it.
func (h *Hasher) Leaf(nibbles, value []byte) Ref {
	h.item = appendHexPrefix(h.item[:0], nibbles, true)
	h.body = AppendString(AppendString(h.body[:0], h.item), value)
	return h.close()
}

// Extension makes a node that leads along nibbles to a branch.
func (h *Hasher) Extension(nibbles []byte, branch *Ref) Ref {
	h.item = appendHexPrefix(h.item[:0], nibbles, false)
	h.body = append(AppendString(h.body[:0], h.item), branch[:branch.Len()]...)
	return h.close()
}

// Branch makes a branch of at least two children.
func (h *Hasher) Branch(children *[16]Ref) Ref {
	h.body = h.body[:0]
	for i := range children {
		if n := children[i].Len(); n > 0 {
			h.body = append(h.body, children[i][:n]...)
		} else {
			h.body = append(h.body, 0x80)
		}
	}

	h.body = append(h.body, 0x80) // no value
	return h.close()
}

// PrefixedBranch makes a branch and, before it, the extension that nibbles need.
func (h *Hasher) PrefixedBranch(nibbles []byte, children *[16]Ref) Ref {
	branch := h.Branch(children)
	if len(nibbles) == 0 {
		return branch
	}
	return h.Extension(nibbles, &branch)
}

// Root is the hash of a trie whose topmost node r refers to: a root is hashed
// however short it is. Without a node it is state.EmptyRoot.
func (h *Hasher) Root(r *Ref) (root layout.Hash) {
	switch r[0] {
	case 0:
		return layout.EmptyRoot
	case 0xa0:
		return layout.Hash(r[1:])
	}
	return h.Sum(r[:r.Len()])
}

// close makes a list of body and refers to it.
func (h *Hasher) close() (r Ref) {
	h.node = append(appendListHeader(h.node[:0], len(h.body)), h.body...)
	if len(h.node) < 32 {
		copy(r[:], h.node)
		return r
	}
	sum := h.Sum(h.node)
	return HashRef(&sum)
}

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
