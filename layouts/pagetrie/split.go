//go:build linux

package pagetrie

import (
	"fmt"
	"math/bits"
)

const (
	splitRoomBytes = bodyBytes / 4 // a page is split until it has this left,
	splitCells     = 192           // and no more cells than this
)

// split moves subtries below a page's root to pages of their own, the largest
// first, until a quarter of the page is free. It returns errSplit.
func (t *tx) split(p *page, id uint32) error {
	moved := false
	for {
		room, tombstones := p.room()
		if moved && room >= splitRoomBytes && p.cells()-tombstones <= splitCells {
			return errSplit
		}
		root, _ := parse(p.cell(0))
		first, count := root.slots()
		var largest slot
		most := 0
		for k := range count {
			s := slot(root.body[first+k*slotBytes:][:slotBytes])
			if loc := s.loc(); !isRemote(loc) {
				if size := p.subtrieBytes(int(loc)); size > most {
					largest, most = s, size
				}
			}
		}
		if most == 0 {
			if moved {
				return errSplit
			}
			return fmt.Errorf("page %d is full, and there is nothing to move to another", id)
		}
		to, toID, err := t.fresh()
		if err != nil {
			return err
		}
		p.move(int(largest.loc()), to)
		largest.setLoc(remote(toID)) // moving only makes tombstones: the slot is where it was
		moved = true
	}
}

// subtrieBytes is what the nodes of a subtrie that are on this page take.
func (p *page) subtrieBytes(cell int) int {
	size := len(p.cell(cell)) + pointerBytes
	n, _ := parse(p.cell(cell))
	first, count := n.slots()
	for k := range count {
		if loc := slot(n.body[first+k*slotBytes:][:slotBytes]).loc(); !isRemote(loc) {
			size += p.subtrieBytes(int(loc))
		}
	}
	return size
}

// move takes a subtrie to another page, and returns its cell there.
func (p *page) move(cell int, to *page) (index int) {
	bytes := p.cell(cell)
	index = to.add(bytes)
	n, _ := parse(bytes)
	first, count := n.slots()
	at := len(bytes) - len(n.body) + first
	for k := range count {
		s := slot(bytes[at+k*slotBytes:][:slotBytes])
		if loc := s.loc(); !isRemote(loc) {
			moved := p.move(int(loc), to)
			slot(to.cell(index)[at+k*slotBytes:][:slotBytes]).setLoc(uint32(moved))
		}
	}
	p.setPointer(cell, 0, 0)
	return index
}

// nibbleAt is the nibble of child i.
func nibbleAt(mask uint16, i int) byte {
	for range i {
		mask &= mask - 1
	}
	return byte(bits.TrailingZeros16(mask))
}
