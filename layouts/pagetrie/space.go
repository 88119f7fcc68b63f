//go:build linux

package pagetrie

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

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
