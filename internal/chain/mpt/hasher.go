package mpt

import (
	"hash"
	"io"

	"github.com/statelab/statelab/layout"
	"golang.org/x/crypto/sha3"
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
