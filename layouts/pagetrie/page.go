//go:build linux

package pagetrie

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

const (
	pageBytes   = 4096
	headerBytes = 8 // the block that wrote the page
	bodyBytes   = pageBytes - headerBytes
	maxCells    = 255

	countAt      = headerBytes
	pointersAt   = headerBytes + 1
	pointerBytes = 3
)

// page holds a subtrie whose root is cell 0. Behind the header stand the number
// of cells and a pointer to each: 12 bits of offset from the page's end and 12
// of length, both 0 for a cell that is no more. Cells grow from the end.
type page [pageBytes]byte

func (p *page) block() uint64     { return binary.LittleEndian.Uint64(p[:]) }
func (p *page) setBlock(b uint64) { binary.LittleEndian.PutUint64(p[:], b) }
func (p *page) cells() int        { return int(p[countAt]) }

func (p *page) pointer(i int) (offset, length int) {
	b := p[pointersAt+pointerBytes*i:][:pointerBytes]
	return int(b[0]) | int(b[1]&15)<<8, int(b[1]>>4) | int(b[2])<<4
}

func (p *page) setPointer(i, offset, length int) {
	b := p[pointersAt+pointerBytes*i:][:pointerBytes]
	b[0], b[1], b[2] = byte(offset), byte(offset>>8)|byte(length<<4), byte(length>>4)
}

// cell returns cell i, nil where there is none or its pointer leads out of the
// space for cells. The bytes are the page's.
func (p *page) cell(i int) []byte {
	cells := p.cells()
	if i >= cells {
		return nil
	}

	offset, length := p.pointer(i)
	if length == 0 || length > offset || offset > bodyBytes-1-pointerBytes*cells {
		return nil
	}

	return p[pageBytes-offset : pageBytes-offset+length : pageBytes-offset+length]
}

// room is what the page has left.
func (p *page) room() (bytes, tombstones int) {
	bytes = bodyBytes - 1 - pointerBytes*p.cells()
	for i := range p.cells() {
		_, length := p.pointer(i)
		bytes -= length
		if length == 0 {
			tombstones++
		}
	}

	return bytes, tombstones
}

// fits tells whether cells may grow by that many bytes in all, new ones included.
func (p *page) fits(growth, newCells int) bool {
	bytes, tombstones := p.room()
	newPointers := max(0, newCells-tombstones)
	return growth+pointerBytes*newPointers <= bytes && p.cells()+newPointers <= maxCells
}

// add makes a new cell. The caller has seen that it fits.
func (p *page) add(cell []byte) (index int) {
	cells := p.cells()
	for index < cells {
		if _, length := p.pointer(index); length == 0 {
			break
		}
		index++
	}

	if index == cells {
		if p.lowest() > bodyBytes-1-pointerBytes*(cells+1) {
			p.compact()
		}
		p[countAt]++
		p.setPointer(index, 0, 0)
	}

	p.set(index, cell)
	return index
}

// set gives cell i other bytes, which are not the page's own. The caller has seen
// that they fit.
func (p *page) set(i int, cell []byte) {
	if offset, length := p.pointer(i); length == len(cell) {
		copy(p[pageBytes-offset:], cell)
		return
	}

	p.setPointer(i, 0, 0)
	offset := p.lowest() + len(cell)
	if offset > bodyBytes-1-pointerBytes*p.cells() {
		p.compact()
		offset = p.lowest() + len(cell)
	}

	p.setPointer(i, offset, len(cell))
	copy(p[pageBytes-offset:], cell)
}

// remove makes cell i a tombstone and drops pointers behind the last cell.
func (p *page) remove(i int) {
	p.setPointer(i, 0, 0)
	for n := p.cells(); n > 0; n-- {
		if _, length := p.pointer(n - 1); length > 0 {
			break
		}
		p[countAt]--
	}
}

// lowest is the largest offset of a cell.
func (p *page) lowest() (maximum int) {
	for i := range p.cells() {
		offset, _ := p.pointer(i)
		maximum = max(maximum, offset)
	}
	return maximum
}

// compact moves the cells together at the page's end.
func (p *page) compact() {
	old := *p
	end := 0
	for i := range p.cells() {
		offset, length := old.pointer(i)
		if length == 0 {
			continue
		}

		end += length
		p.setPointer(i, end, length)
		copy(p[pageBytes-end:], old[pageBytes-offset:pageBytes-offset+length])
	}

	clear(p[pointersAt+pointerBytes*p.cells() : pageBytes-end])
}

// damaged says that a page of the file is not what this package writes.
func damaged(id uint32, format string, args ...any) error {
	return engine.Fail(engine.CodeDamaged, "page %d is damaged: "+format,
		append([]any{id}, args...)...)
}

// place says which part of a trie a page's root cell stands in.
type place struct {
	depth     int
	inStorage bool
}

// validate checks all of a committed page: every cell is a whole node at a legal
// depth and hangs below cell 0 exactly once. The writer trusts pages that passed.
func (p *page) validate(id uint32, at place) error {
	v := validation{p: p, id: id}
	if err := v.cell(0, at); err != nil {
		return err
	}

	for i := range p.cells() {
		if _, length := p.pointer(i); length > 0 && !v.seen[i] {
			return damaged(id, "cell %d belongs to no node", i)
		}
	}

	return p.apart(id)
}

// apart checks that no two cells share bytes.
func (p *page) apart(id uint32) error {
	var buf [maxCells]uint32
	ends := buf[:0]
	for i := range p.cells() {
		if offset, length := p.pointer(i); length > 0 {
			ends = append(ends, uint32(offset)<<12|uint32(length))
		}
	}

	slices.Sort(ends)
	below := uint32(0)
	for _, e := range ends {
		if offset, length := e>>12, e&0xfff; offset-length < below {
			return damaged(id, "cells overlap")
		} else {
			below = offset
		}
	}

	return nil
}

type validation struct {
	p    *page
	id   uint32
	seen [firstRemote]bool
}

func (v *validation) cell(i int, at place) error {
	if v.seen[i] {
		return damaged(v.id, "cell %d has two parents", i)
	}

	v.seen[i] = true
	n, ok := parse(v.p.cell(i))
	if !ok {
		return damaged(v.id, "cell %d holds no node", i)
	}

	if err := n.stands(v.id, at); err != nil {
		return err
	}

	below := place{at.depth + n.count + 1, at.inStorage}
	if n.kind == accountLeaf {
		below = place{0, true}
	}

	first, count := n.slots()
	for k := range count {
		s := slot(n.body[first+k*slotBytes:][:slotBytes])
		if ref := s.ref(); s.stale() || !ref.Legal() {
			return damaged(v.id, "cell %d refers to child %d by no hash", i, k)
		}

		var err error
		switch loc := s.loc(); {
		case loc == noLocation:
			err = damaged(v.id, "cell %d leads from child %d to the page's root", i, k)
		case !isRemote(loc):
			err = v.cell(int(loc), below)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// stands checks that a node may be where it is: a leaf at the end of its path, in
// the right trie; a branch before the end.
func (n *node) stands(id uint32, at place) error {
	end := at.depth + n.count
	switch {
	case n.kind == branch && end >= mpt.PathNibbles:
		return damaged(id, "a branch %d nibbles deep", end)
	case n.kind != branch && end != mpt.PathNibbles:
		return damaged(id, "a leaf %d nibbles deep", end)
	case n.kind != branch && (n.kind == storageLeaf) != at.inStorage:
		return damaged(id, "a leaf of the wrong trie")
	}

	return nil
}

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
