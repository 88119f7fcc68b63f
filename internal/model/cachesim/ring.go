package cachesim

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
