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
type space struct {
	pages    uint32          // of the file, free ones included
	free     []uint32        // to be taken, the last first
	waiting  []orphans       // by block, ascending
	recent   []uint32        // orphaned by the block being built
	orphaned map[uint32]bool // recent, as a set
	lists    []uint32        // pages of the newest list
}

type orphans struct {
	block uint64
	pages []uint32
}

var errFull = errors.New("the file has as many pages as it can map")

// take gives out a page, a new one where none is free. list refuses the block
// that took more than a file can have.
func (s *space) take() uint32 {
	if n := len(s.free); n > 0 {
		id := s.free[n-1]
		s.free = s.free[:n-1]
		return id
	}
	s.pages++
	return s.pages
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

// begin frees what neither a reader nor the older meta slot needs: newest is the
// newest committed block, oldest that of the oldest reader.
func (s *space) begin(newest, oldest uint64) {
	grown := false
	for len(s.waiting) > 0 && s.waiting[0].block < newest && s.waiting[0].block <= oldest {
		s.free = append(s.free, s.waiting[0].pages...)
		s.waiting = s.waiting[1:]
		grown = true
	}
	if grown { // taken in ascending order, pages make long writes
		slices.SortFunc(s.free, func(a, b uint32) int { return int(int64(b) - int64(a)) })
	}
}

// end closes the block.
func (s *space) end(block uint64, lists []uint32) {
	s.waiting = append(s.waiting, orphans{block, s.recent})
	s.recent, s.lists = nil, lists
	clear(s.orphaned)
}

// A list page holds, behind the header, the next list page's id, its number of
// entries, and the entries: free pages, then those orphaned by the newest block.
const (
	listNextAt   = headerBytes
	listCountAt  = headerBytes + 4
	listAt       = headerBytes + 8
	listCapacity = (pageBytes - listAt) / 4
)

type freeList struct {
	ids   []uint32
	pages []*page
	older int // entries orphaned before this block
	sum   uint32
}

// list writes the free pages down, on pages taken from them.
func (s *space) list(block uint64) (l freeList, err error) {
	for _, id := range s.lists {
		if err := s.orphan(id); err != nil {
			return l, err
		}
	}
	for {
		entries := len(s.free) + len(s.recent)
		for _, w := range s.waiting {
			entries += len(w.pages)
		}
		if len(l.ids)*listCapacity >= entries {
			break
		}
		l.ids = append(l.ids, s.take())
	}
	if s.pages > maxPages {
		return l, errFull
	}
	all := slices.Clone(s.free)
	for _, w := range s.waiting {
		all = append(all, w.pages...)
	}
	l.older = len(all)
	all = append(all, s.recent...)
	for i := range l.ids {
		p := new(page)
		p.setBlock(block)
		if i+1 < len(l.ids) {
			binary.LittleEndian.PutUint32(p[listNextAt:], l.ids[i+1])
		}
		n := min(len(all), listCapacity)
		binary.LittleEndian.PutUint32(p[listCountAt:], uint32(n))
		for k, id := range all[:n] {
			binary.LittleEndian.PutUint32(p[listAt+4*k:], id)
		}
		all = all[n:]
		l.pages = append(l.pages, p)
		l.sum = crc32.Update(l.sum, castagnoli(), p[:])
	}
	return l, nil
}

// readSpace reads the free list of a committed state.
func readSpace(m meta, source source) (s space, err error) {
	s = space{pages: m.pages, orphaned: map[uint32]bool{}}
	var sum uint32
	var all []uint32
	wanted := uint64(m.older) + uint64(m.recent)
	buf := new(page)
	for id := m.list; id != 0; {
		if id > m.pages || uint64(len(s.lists)) > wanted/listCapacity {
			return s, damaged(id, "not a page of the list of free pages")
		}
		p, err := source.page(id, buf)
		if err != nil {
			return s, err
		}
		s.lists = append(s.lists, id)
		sum = crc32.Update(sum, castagnoli(), p[:])
		n := binary.LittleEndian.Uint32(p[listCountAt:])
		if n > listCapacity {
			return s, damaged(id, "%d entries on a list page", n)
		}
		for k := range int(n) {
			free := binary.LittleEndian.Uint32(p[listAt+4*k:])
			if free == 0 || free > m.pages {
				return s, damaged(id, "lists page %d of %d as free", free, m.pages)
			}
			all = append(all, free)
		}
		id = binary.LittleEndian.Uint32(p[listNextAt:])
	}
	if uint64(len(all)) != wanted || sum != m.listSum {
		return s, damaged(m.list, "the list of free pages has %d entries and checksum %08x, not %d and %08x", len(all), sum, wanted, m.listSum)
	}
	s.free = all[:m.older:m.older]
	s.waiting = []orphans{{m.block, all[m.older:]}}
	return s, nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
