//go:build linux

package pagetrie

import (
	"encoding/binary"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/mpt"
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
func (p *page) lowest() (most int) {
	for i := range p.cells() {
		offset, _ := p.pointer(i)
		most = max(most, offset)
	}
	return most
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
	return engine.Fail(engine.CodeDamaged, "page %d is damaged: "+format, append([]any{id}, args...)...)
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
