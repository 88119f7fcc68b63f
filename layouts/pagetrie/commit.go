//go:build linux

package pagetrie

import (
	"fmt"
	"maps"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// own returns a page of this block's: the page itself, or a copy of a committed
// one, which is orphaned.
func (t *tx) own(id uint32, at place) (*page, uint32, error) {
	if p := t.dirty[id]; p != nil {
		return p, id, nil
	}
	if t.spilled[id] {
		p, err := t.unspill(id)
		return p, id, err
	}
	if id == 0 || id > t.space.pages {
		return nil, id, damaged(id, "the file has %d pages", t.space.pages)
	}
	buf := t.buffer()
	committed, err := t.source.page(id, buf)
	if err != nil {
		return nil, id, err
	}
	if committed != buf {
		*buf = *committed
	}
	if buf.block() >= t.block {
		return nil, id, damaged(id, "written by block %d, which is not committed", buf.block())
	}
	if err := buf.validate(id, at); err != nil {
		return nil, id, err
	}
	if err := t.space.orphan(id); err != nil {
		return nil, id, err
	}
	newID, err := t.adopt(buf)
	return buf, newID, err
}

// fresh returns an empty page.
func (t *tx) fresh() (*page, uint32, error) {
	buf := t.buffer()
	clear(buf[:])
	id, err := t.adopt(buf)
	return buf, id, err
}

func (t *tx) adopt(buf *page) (id uint32, err error) {
	buf.setBlock(t.block)
	if id, err = t.space.take(); err != nil {
		return 0, err
	}
	if t.dirty[id] != nil || t.spilled[id] {
		return 0, damaged(id, "free twice")
	}
	t.dirty[id] = buf
	return id, nil
}

// unspill takes a page of this block's back that was written before its end.
func (t *tx) unspill(id uint32) (*page, error) {
	buf := t.buffer()
	p, err := t.source.page(id, buf)
	if err != nil {
		return nil, err
	}
	if p != buf {
		*buf = *p
	}
	delete(t.spilled, id)
	t.dirty[id] = buf
	return buf, nil
}

func (t *tx) buffer() *page {
	if n := len(t.spare); n > 0 {
		p := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return p
	}
	return new(page)
}

// discard gives back a page of this block's, which no snapshot knows.
func (t *tx) discard(id uint32) {
	t.spare = append(t.spare, t.dirty[id])
	delete(t.dirty, id)
	t.space.putBack(id)
}

// rehash makes the stale references of the whole trie anew and returns its root.
func (t *tx) rehash() layout.Hash {
	if t.rootPage == 0 {
		return layout.EmptyRoot
	}
	root := t.dirty[t.rootPage]
	if root == nil {
		return t.rootHash // nothing changed
	}
	ref := t.refer(root, 0)
	return t.hasher.Root(&ref)
}

// refer makes the reference to a node, and first the stale ones to its children:
// their pages are this block's.
func (t *tx) refer(p *page, cell int) mpt.Ref {
	t.nodesNew++
	n, _ := parse(p.cell(cell))
	switch n.kind {
	case storageLeaf:
		t.leaf = mpt.AppendString(t.leaf[:0], n.body)
	case accountLeaf:
		root := layout.EmptyRoot
		if s := n.storage(); s != nil {
			if s.stale() {
				ref := t.referChild(p, s)
				root = t.hasher.Root(&ref)
				s.setRef(mpt.HashRef(&root))
			}
			root = layout.Hash(s[1:mpt.RefBytes])
		}
		a := n.account()
		t.leaf = mpt.AppendAccount(t.leaf[:0], &a, &root)
	case branch:
		var children [16]mpt.Ref
		mask, i := n.mask(), 0
		for nibble := range children {
			if mask&(1<<nibble) == 0 {
				continue
			}
			s := n.slot(i)
			if s.stale() {
				s.setRef(t.referChild(p, s))
			}
			children[nibble] = s.ref()
			i++
		}
		t.path = n.nibbles(t.path[:0])
		return t.hasher.PrefixedBranch(t.path, &children)
	}
	t.path = n.nibbles(t.path[:0])
	return t.hasher.Leaf(t.path, t.leaf)
}

func (t *tx) referChild(p *page, s slot) mpt.Ref {
	if loc := s.loc(); isRemote(loc) {
		return t.refer(t.dirty[pageOf(loc)], 0)
	} else {
		return t.refer(p, int(loc))
	}
}

// spill writes the pages that the block has changed so far, so that it holds no more
// of them than it may. Until the meta slot says so, no state has these pages.
func (t *tx) spill(f *file) error {
	t.rootHash = t.rehash()
	if err := t.put(f, t.dirty); err != nil {
		return err
	}
	if err := f.startSync(); err != nil {
		return fmt.Errorf("start to sync pages: %w", err)
	}
	for id, p := range t.dirty {
		t.spilled[id] = true
		t.reuse(p)
	}
	clear(t.dirty)
	return nil
}

func (t *tx) put(f *file, pages map[uint32]*page) error {
	if err := f.writePages(pages); err != nil {
		return fmt.Errorf("write %d pages: %w", len(pages), err)
	}
	if err := f.cover(t.space.pages); err != nil {
		return err
	}
	for id, p := range pages {
		t.source.wrote(id, p)
	}
	return nil
}

// write makes the block durable: its pages, the lists of free ones, then the slot
// that makes them count.
func (t *tx) write(f *file, root layout.Hash) (m meta, err error) {
	lists, err := t.space.lists(t.block)
	if err != nil {
		return m, err
	}
	m = meta{block: t.block, root: root, rootPage: t.rootPage, pages: t.space.pages, queue: t.space.queue}
	maps.Copy(t.dirty, lists)
	if err := t.put(f, t.dirty); err != nil {
		return m, err
	}
	if err := f.sync(); err != nil {
		return m, fmt.Errorf("sync pages: %w", err)
	}
	if err := f.writeMeta(m); err != nil {
		return m, fmt.Errorf("write the meta slot: %w", err)
	}
	if err := f.sync(); err != nil {
		return m, fmt.Errorf("sync the meta slot: %w", err)
	}
	t.space.end()
	t.rootHash = root
	return m, nil
}

// next empties the block for the one after it.
func (t *tx) next() {
	for _, p := range t.dirty {
		t.reuse(p)
	}
	clear(t.dirty)
	clear(t.spilled)
	t.block++
}

func (t *tx) reuse(p *page) {
	if len(t.spare) < min(t.mostDirty, maxSparePages) {
		t.spare = append(t.spare, p)
	}
}

// maxSparePages are the buffers kept from one block to the next, 16 MiB.
const maxSparePages = 4096
