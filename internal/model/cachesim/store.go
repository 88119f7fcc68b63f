package cachesim

// store is the blocks of a cache: where each is, and its page.
type store struct {
	index
	ring
	seen int32
}

func newStore() store { return store{index: newIndex(), ring: newRing()} }

// together is how many accesses are looked up at a time.
const together = 16

// look reads what the next accesses, at most together, are going to read, and changes nothing.
// Memory looks for all of it at the same time, instead of one after the other.
func (s *store) look(requests []request) {
	if s.slots == nil {
		return
	}
	var slots [together]int32
	for i := range requests {
		slots[i%together] = s.slots[requests[i].id]
	}
	for _, slot := range slots {
		s.seen += s.pages[slot].bytes
	}
}
