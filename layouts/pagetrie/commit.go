//go:build linux

package pagetrie

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

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

	m = meta{
		block:    t.block,
		root:     root,
		rootPage: t.rootPage,
		pages:    t.space.pages,
		queue:    t.space.queue,
	}

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
	if len(t.spare) < min(t.maxDirty, maxSparePages) {
		t.spare = append(t.spare, p)
	}
}

// maxSparePages are the buffers kept from one block to the next, 16 MiB.
const maxSparePages = 4096

// space knows which pages of the file are in use. A page orphaned by block k is
// reused when no reader is older than k, and not before block k+2: until then
// the older of the two meta slots is still a whole state.
//
// What is free stands in a queue of list pages in the file, those of the oldest
// block first. A block takes whole list pages from the front, as many as it needs,
// and appends what it orphaned and what it took and did not use: it never touches
// what lies between, however long the queue is.
type space struct {
	source source
	pages  uint32 // of the file, free ones included
	queue  queue
	before uint64 // lists of older blocks than this may be taken
	young  bool   // the first list is none of them

	free     []uint32        // taken from the queue, the last to be used first
	recent   []uint32        // orphaned by the block being built
	orphaned map[uint32]bool // recent, as a set
	buf      *page
}

// queue is where the list pages are.
type queue struct {
	first uint32 // the page that is taken next; last if there is none
	last  uint32 // set aside for the next list to be written; 0 before the first
	lists uint32 // pages between the two, last excluded
	ids   uint32 // that they list
}

var errFull = errors.New("the file has as many pages as it can map")

// take gives out a page, a new one where none is free. lists refuses the block
// that took more than a file can have.
func (s *space) take() (uint32, error) {
	if len(s.free) == 0 {
		if err := s.refill(); err != nil {
			return 0, err
		}
	}

	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id, nil
	}

	s.pages++
	return s.pages, nil
}

// refill takes the first list of the queue, if it is old enough.
func (s *space) refill() error {
	if s.queue.lists == 0 || s.young {
		return nil
	}

	list, err := s.queue.read(s.source, s.pages, s.buf)
	if err != nil {
		return err
	}

	if s.young = list.block >= s.before; s.young {
		return nil
	}

	s.free = append(s.free, list.ids...)
	slices.Reverse(s.free) // taken in ascending order, pages make long writes
	taken := s.queue.first
	if err := s.queue.pop(list); err != nil {
		return err
	}

	return s.orphan(taken)
}

// putBack frees a page that no snapshot has seen.
func (s *space) putBack(id uint32) { s.free = append(s.free, id) }

// orphan notes that the block being built does without a page.
func (s *space) orphan(id uint32) error {
	if s.orphaned[id] {
		return damaged(id, "two pages lead to it")
	}
	s.orphaned[id] = true
	s.recent = append(s.recent, id)
	return nil
}

// begin starts a block: newest is the newest committed one, oldest that of the
// oldest reader.
func (s *space) begin(newest, oldest uint64) { s.before, s.young = min(newest, oldest+1), false }

// end closes the block, which has written its lists.
func (s *space) end() {
	s.free, s.recent = s.free[:0], s.recent[:0]
	clear(s.orphaned)
}

// A list page holds, behind the header, a checksum of what follows it, the next list
// page's id, its number of entries, and the entries.
const (
	listSumAt    = headerBytes
	listNextAt   = headerBytes + 4
	listCountAt  = headerBytes + 8
	listAt       = headerBytes + 12
	listCapacity = (pageBytes - listAt) / 4
)

// list is a list page's content.
type list struct {
	block uint64
	next  uint32
	ids   []uint32
}

func (p *page) setList(l list) {
	clear(p[:])
	p.setBlock(l.block)
	binary.LittleEndian.PutUint32(p[listNextAt:], l.next)
	binary.LittleEndian.PutUint32(p[listCountAt:], uint32(len(l.ids)))
	for k, id := range l.ids {
		binary.LittleEndian.PutUint32(p[listAt+4*k:], id)
	}
	binary.LittleEndian.PutUint32(p[listSumAt:], p.listSum())
}

// listSum covers the header and what is behind the sum itself.
func (p *page) listSum() uint32 {
	return crc32.Update(crc32.Checksum(p[:listSumAt], castagnoli()), castagnoli(), p[listNextAt:])
}

// lists writes the free pages and the orphans down, on pages of the block being
// built.
func (s *space) lists(block uint64) (map[uint32]*page, error) {
	written := map[uint32]*page{}
	if len(s.free)+len(s.recent) == 0 {
		return written, nil
	}

	var ids []uint32
	if s.queue.last != 0 {
		ids = append(ids, s.queue.last)
	}

	// Taking a page for a list may take a list, and orphan it: one page more than
	// the lists need is set aside for the block after.
	for len(ids) < 2 || (len(ids)-1)*listCapacity < len(s.free)+len(s.recent) {
		id, err := s.take()
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}

	if s.pages > maxPages {
		return nil, errFull
	}

	all := append(append(make([]uint32, 0, len(s.free)+len(s.recent)), s.free...), s.recent...)
	slices.Sort(all)
	if s.queue.lists == 0 {
		s.queue.first = ids[0]
	}

	s.queue.last = ids[len(ids)-1]
	s.queue.ids += uint32(len(all))
	s.queue.lists += uint32(len(ids) - 1)
	for i, id := range ids[:len(ids)-1] {
		n := min(len(all), listCapacity)
		written[id] = new(page)
		written[id].setList(list{block, ids[i+1], all[:n]})
		all = all[n:]
	}

	return written, nil
}

// read reads the first list. The ids are its own.
func (q queue) read(source source, pages uint32, buf *page) (l list, err error) {
	if q.first == 0 || q.first > pages {
		return l, damaged(q.first, "not a page of the list of free pages")
	}

	p, err := source.page(q.first, buf)
	if err != nil {
		return l, err
	}

	if sum := p.listSum(); sum != binary.LittleEndian.Uint32(p[listSumAt:]) {
		return l, damaged(q.first, "a list of free pages has the checksum %08x", sum)
	}

	l.block, l.next = p.block(), binary.LittleEndian.Uint32(p[listNextAt:])
	n := binary.LittleEndian.Uint32(p[listCountAt:])
	if n > listCapacity {
		return l, damaged(q.first, "%d entries on a list page", n)
	}

	for k := range int(n) {
		id := binary.LittleEndian.Uint32(p[listAt+4*k:])
		if id == 0 || id > pages {
			return l, damaged(q.first, "lists page %d of %d as free", id, pages)
		}
		l.ids = append(l.ids, id)
	}

	return l, nil
}

// pop goes on from the first list, which was read.
func (q *queue) pop(l list) error {
	if uint32(len(l.ids)) > q.ids || q.lists == 1 && l.next != q.last {
		return damaged(q.first, "the queue of free pages does not end here")
	}
	q.first = l.next
	q.ids -= uint32(len(l.ids))
	q.lists--
	return nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
