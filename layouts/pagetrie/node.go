//go:build linux

package pagetrie

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// A node is a cell: 2 bytes (kind and flags; nibbles of prefix), the prefix packed,
// then
//
//	branch        2-byte bitmap of children, 2, 4, 8 or 16 slots in their order
//	account leaf  nonce and balance, a length byte before each; the code hash unless
//	              it is that of no code; a slot for the storage trie unless empty
//	storage leaf  the value
//
// A slot is what a parent holds of a child, 33 bytes, and the child's location, 4.
const (
	accountLeaf = 1
	storageLeaf = 2
	branch      = 3
	kindMask    = 3
	hasCode     = 4
	hasStorage  = 8

	slotBytes   = mpt.RefBytes + 4
	hashBytes   = 32
	valueBytes  = 32 // at most
	nonceBytes  = 8  // at most
	noLocation  = 0  // cell 0 is nobody's child within its page
	firstRemote = 256
)

// A location below 256 is a cell of the same page, any other the root cell of
// another page.
func remote(page uint32) uint32    { return page + firstRemote - 1 }
func pageOf(loc uint32) uint32     { return loc - (firstRemote - 1) }
func isRemote(loc uint32) bool     { return loc >= firstRemote }
func slotsFor(children int) int    { return 1 << bits.Len(uint(max(children, 2)-1)) }
func prefixBytes(count int) int    { return (count + 1) / 2 }
func nodeBytes(prefix int) int     { return 2 + prefixBytes(prefix) }
func branchBytes(slots int) int    { return 2 + slots*slotBytes }
func rank(mask uint16, n byte) int { return bits.OnesCount16(mask & (1<<n - 1)) }

// node is a parsed cell; its bytes are the page's.
type node struct {
	kind, flags byte
	count       int    // nibbles of prefix
	prefix      []byte // packed
	body        []byte
}

// parse reads a cell and tells whether it holds a whole node.
func parse(cell []byte) (n node, ok bool) {
	if len(cell) < 2 || cell[1] > mpt.PathNibbles {
		return n, false
	}
	n = node{kind: cell[0] & kindMask, flags: cell[0] &^ kindMask, count: int(cell[1])}
	bodyAt := nodeBytes(n.count)
	if len(cell) < bodyAt+1 {
		return n, false
	}
	n.prefix, n.body = cell[2:bodyAt], cell[bodyAt:]
	switch n.kind {
	case branch:
		if len(n.body) < 2 || n.flags != 0 {
			return n, false
		}
		children := bits.OnesCount16(n.mask())
		return n, children >= 2 && len(n.body) == branchBytes(slotsFor(children))
	case storageLeaf:
		return n, n.flags == 0 && len(n.body) <= valueBytes && n.body[0] != 0
	case accountLeaf:
		return n, n.flags&^(hasCode|hasStorage) == 0 && n.accountWhole()
	}
	return n, false
}

func (n *node) mask() uint16 { return binary.LittleEndian.Uint16(n.body) }

// slot is slot i of a branch.
func (n *node) slot(i int) slot { return n.body[2+i*slotBytes:][:slotBytes] }

// slots are the places of a node's children in its body: the first, and how many.
func (n *node) slots() (first, count int) {
	switch {
	case n.kind == branch:
		return 2, bits.OnesCount16(n.mask())
	case n.kind == accountLeaf && n.flags&hasStorage != 0:
		return len(n.body) - slotBytes, 1
	}
	return 0, 0
}

// slot is what a parent holds of a child. A reference that starts with 0 is to be
// made anew at commit.
type slot []byte

func (s slot) loc() uint32       { return binary.LittleEndian.Uint32(s[mpt.RefBytes:]) }
func (s slot) setLoc(loc uint32) { binary.LittleEndian.PutUint32(s[mpt.RefBytes:], loc) }
func (s slot) ref() mpt.Ref      { return mpt.Ref(s[:mpt.RefBytes]) }
func (s slot) setRef(r mpt.Ref)  { copy(s, r[:]) }
func (s slot) stale() bool       { return s[0] == 0 }
func (s slot) makeStale()        { s[0] = 0 }

func (n *node) accountWhole() bool {
	rest := len(n.body) - 1 - int(n.body[0])
	if n.body[0] > nonceBytes || rest < 1 {
		return false
	}
	balance := n.body[1+n.body[0]]
	rest -= 1 + int(balance)
	if n.flags&hasCode != 0 {
		rest -= hashBytes
	}
	if n.flags&hasStorage != 0 {
		rest -= slotBytes
	}
	return balance <= 32 && rest == 0
}

// account reads an account leaf.
func (n *node) account() (a layout.Account) {
	rest := n.body[1+n.body[0]:]
	for _, b := range n.body[1 : 1+n.body[0]] {
		a.Nonce = a.Nonce<<8 | uint64(b)
	}
	length := rest[0]
	copy(a.Balance[32-length:], rest[1:1+length])
	a.CodeHash = layout.EmptyCode
	if n.flags&hasCode != 0 {
		copy(a.CodeHash[:], rest[1+length:])
	}
	return a
}

// storage is an account leaf's slot for its storage trie; nil without one.
func (n *node) storage() slot {
	if n.flags&hasStorage == 0 {
		return nil
	}
	return n.body[len(n.body)-slotBytes:]
}

// appendHead starts a node.
func appendHead(dst []byte, kindAndFlags byte, prefix []byte) []byte {
	return mpt.AppendPacked(append(dst, kindAndFlags, byte(len(prefix))), prefix)
}

// appendAccountLeaf makes an account leaf; storage is nil for none.
func appendAccountLeaf(dst, prefix []byte, a *layout.Account, storage slot) []byte {
	kind := byte(accountLeaf)
	if a.CodeHash != layout.EmptyCode {
		kind |= hasCode
	}
	if storage != nil {
		kind |= hasStorage
	}
	dst = appendHead(dst, kind, prefix)
	var be [nonceBytes]byte
	binary.BigEndian.PutUint64(be[:], a.Nonce)
	nonce, balance := bytes.TrimLeft(be[:], "\x00"), bytes.TrimLeft(a.Balance[:], "\x00")
	dst = append(append(dst, byte(len(nonce))), nonce...)
	dst = append(append(dst, byte(len(balance))), balance...)
	if kind&hasCode != 0 {
		dst = append(dst, a.CodeHash[:]...)
	}
	return append(dst, storage...)
}

// child is an entry of a branch being made.
type child struct {
	nibble byte
	loc    uint32 // with a stale reference
}

// appendFork makes a branch of two children.
func appendFork(dst, prefix []byte, a, b child) []byte {
	if a.nibble > b.nibble {
		a, b = b, a
	}
	dst = appendHead(dst, branch, prefix)
	dst = binary.LittleEndian.AppendUint16(dst, 1<<a.nibble|1<<b.nibble)
	for _, c := range []child{a, b} {
		var s [slotBytes]byte
		slot(s[:]).setLoc(c.loc)
		dst = append(dst, s[:]...)
	}
	return dst
}

// appendWith makes branch n with one more child.
func (n *node) appendWith(dst []byte, c child) []byte {
	mask, at := n.mask(), rank(n.mask(), c.nibble)
	children := bits.OnesCount16(mask)
	dst = n.appendBranchHead(dst, mask|1<<c.nibble)
	dst = append(dst, n.body[2:2+at*slotBytes]...)
	var s [slotBytes]byte
	slot(s[:]).setLoc(c.loc)
	dst = append(dst, s[:]...)
	dst = append(dst, n.body[2+at*slotBytes:2+children*slotBytes]...)
	return appendEmptySlots(dst, slotsFor(children+1)-children-1)
}

// appendWithout makes branch n without a child; two or more are left.
func (n *node) appendWithout(dst []byte, nibble byte) []byte {
	mask, at := n.mask(), rank(n.mask(), nibble)
	children := bits.OnesCount16(mask)
	dst = n.appendBranchHead(dst, mask&^(1<<nibble))
	dst = append(dst, n.body[2:2+at*slotBytes]...)
	dst = append(dst, n.body[2+(at+1)*slotBytes:2+children*slotBytes]...)
	return appendEmptySlots(dst, slotsFor(children-1)-children+1)
}

func (n *node) appendBranchHead(dst []byte, mask uint16) []byte {
	dst = append(append(dst, branch, byte(n.count)), n.prefix...)
	return binary.LittleEndian.AppendUint16(dst, mask)
}

func appendEmptySlots(dst []byte, n int) []byte {
	var empty [slotBytes]byte
	for range n {
		dst = append(dst, empty[:]...)
	}
	return dst
}

// nibbles unpacks the prefix.
func (n *node) nibbles(dst []byte) []byte { return mpt.AppendNibbles(dst, n.prefix, 0, n.count) }

// appendPrefixed makes node n with another prefix.
func (n *node) appendPrefixed(dst, prefix []byte) []byte {
	return append(appendHead(dst, n.kind|n.flags, prefix), n.body...)
}
