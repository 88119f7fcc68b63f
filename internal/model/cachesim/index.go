package cachesim

// index finds the slot of a block: open addressing with linear probing, so that
// a lookup is one cache line and a deletion leaves no tombstone. Slots are
// positive; 0 is none.
type index struct {
	slots   []int32      // by id, where ids are known to be dense; then the rest is not used
	entries []indexEntry // a power of two, at most half full
	shift   uint         // 32 - log2(len(entries))
	n       int
}

type indexEntry struct {
	id   uint32
	slot int32
}

func newIndex() index {
	const log2 = 8
	return index{entries: make([]indexEntry, 1<<log2), shift: 32 - log2}
}

// home is where id would like to be: Fibonacci hashing spreads dense ids.
func (x *index) home(id uint32) uint32 { return id * 2654435769 >> x.shift }

// expect tells an empty index that ids are below n.
func (x *index) expect(n uint32) { x.slots, x.entries = make([]int32, n), nil }

func (x *index) get(id uint32) int32 {
	if x.slots != nil {
		return x.slots[id]
	}

	mask := uint32(len(x.entries) - 1)
	for i := x.home(id); ; i = (i + 1) & mask {
		e := x.entries[i&mask]
		if e.slot == 0 || e.id == id {
			return e.slot
		}
	}
}

// put adds id, which must not be there.
func (x *index) put(id uint32, slot int32) {
	if x.slots != nil {
		x.slots[id] = slot
		return
	}

	if 2*x.n >= len(x.entries) {
		x.grow()
	}

	x.n++
	mask := uint32(len(x.entries) - 1)
	i := x.home(id)
	for x.entries[i&mask].slot != 0 {
		i = (i + 1) & mask
	}

	x.entries[i] = indexEntry{id, slot}
}

// remove takes id, which must be there, away and closes the gap.
func (x *index) remove(id uint32) {
	if x.slots != nil {
		x.slots[id] = 0
		return
	}

	mask := uint32(len(x.entries) - 1)
	gap := x.home(id)
	for x.entries[gap].id != id || x.entries[gap].slot == 0 {
		gap = (gap + 1) & mask
	}

	for i := (gap + 1) & mask; x.entries[i].slot != 0; i = (i + 1) & mask {
		// An entry may move back to the gap unless its home lies behind it.
		if home := x.home(x.entries[i].id); (i-home)&mask >= (i-gap)&mask {
			x.entries[gap] = x.entries[i]
			gap = i
		}
	}

	x.entries[gap] = indexEntry{}
	x.n--
}

// move puts moved[slot] in the place of every slot.
func (x *index) move(moved []int32) {
	for i, slot := range x.slots {
		x.slots[i] = moved[slot]
	}
	for i := range x.entries {
		x.entries[i].slot = moved[x.entries[i].slot]
	}
}

func (x *index) grow() {
	old := x.entries
	x.entries = make([]indexEntry, 2*len(old))
	x.shift--
	x.n = 0
	for _, e := range old {
		if e.slot != 0 {
			x.put(e.id, e.slot)
		}
	}
}

// queue holds the blocks of a cache of one list, in at most maxBytes.
type queue struct {
	maxBytes, usedBytes int64
	index
	ring
	newest int32
}

func newQueue(maxBytes int64) queue {
	return queue{maxBytes: maxBytes, index: newIndex(), ring: newRing()}
}

// admit makes a block the newest, once evict has made room for it. One larger than the cache stays
// outside.
func (q *queue) admit(id uint32, bytes int32, evict func()) {
	if int64(bytes) > q.maxBytes {
		return
	}

	for q.usedBytes+int64(bytes) > q.maxBytes {
		evict()
	}

	slot := q.take(id, bytes)
	q.index.put(id, slot)
	if q.newest != 0 {
		q.linkBefore(q.newest, slot)
	}

	q.newest = slot
	q.usedBytes += int64(bytes)
}

// drop forgets a block and reports whether it was the only one.
func (q *queue) drop(slot int32) (last bool) {
	q.usedBytes -= int64(q.pages[slot].bytes)
	q.index.remove(q.pages[slot].id)
	last = q.unlink(slot)
	q.release(slot)
	return last
}

// UsedBytes implements Cache.
func (q *queue) UsedBytes() int64 { return q.usedBytes }

// ring holds the pages of a policy in circular doubly linked lists. Links are
// slot numbers; slot 0 is nil and links to itself, so that moving a nil hand is
// harmless. Freed slots are reused.
type ring struct {
	pages []page
	free  int32 // chained by next
}

type page struct {
	next, prev int32
	id         uint32
	bytes      int32
	kind       uint8 // of the policy
	marks      uint8 // of the policy
}

func newRing() ring { return ring{pages: make([]page, 1, 256)} }

// take returns a slot for a page that links to itself.
func (r *ring) take(id uint32, bytes int32) int32 {
	slot := r.free
	if slot != 0 {
		r.free = r.pages[slot].next
	} else {
		slot = int32(len(r.pages))
		r.pages = append(r.pages, page{})
	}

	r.pages[slot] = page{next: slot, prev: slot, id: id, bytes: bytes}
	return slot
}

func (r *ring) release(slot int32) {
	r.pages[slot] = page{next: r.free}
	r.free = slot
}

// linkBefore puts slot, linked to itself, in front of at.
func (r *ring) linkBefore(at, slot int32) {
	before := r.pages[at].prev
	r.pages[slot].prev, r.pages[slot].next = before, at
	r.pages[before].next = slot
	r.pages[at].prev = slot
}

// unlink takes slot out of its list and reports whether it was the only page.
func (r *ring) unlink(slot int32) (last bool) {
	p := &r.pages[slot]
	last = p.next == slot
	r.pages[p.prev].next = p.next
	r.pages[p.next].prev = p.prev
	p.next, p.prev = slot, slot
	return last
}

// straighten gives the pages of the only list, from first on, slots in their order, and returns the
// new slot of each old one.
func (r *ring) straighten(first int32) (moved []int32) {
	moved = make([]int32, len(r.pages))
	ordered := make([]page, 1, cap(r.pages))
	for slot := first; moved[slot] == 0; slot = r.pages[slot].next {
		at := int32(len(ordered))
		moved[slot] = at
		p := r.pages[slot]
		p.prev, p.next = at-1, at+1
		ordered = append(ordered, p)
	}

	last := int32(len(ordered) - 1)
	ordered[1].prev, ordered[last].next = last, 1
	r.pages, r.free = ordered, 0
	return moved
}
