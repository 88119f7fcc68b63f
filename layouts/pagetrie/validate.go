//go:build linux

package pagetrie

import (
	"slices"

	"github.com/statelab/statelab/internal/chain/mpt"
)

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
