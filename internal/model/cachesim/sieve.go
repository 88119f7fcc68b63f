package cachesim

// Sieve is a FIFO queue with one hand that spares blocks hit since it last came
// by, in place (Zhang et al., NSDI 2024). With Reinsert it is CLOCK instead:
// the hand stays at the oldest block and a spared one moves to the front.
type Sieve struct {
	_ apart

	Reinsert bool

	queue
	hand int32 // the next block to look at; 0: the oldest
}

// NewSieve returns an empty cache of maxBytes.
func NewSieve(maxBytes int64) *Sieve { return &Sieve{queue: newQueue(maxBytes)} }

// NewClock returns an empty CLOCK (second chance) cache of maxBytes.
func NewClock(maxBytes int64) *Sieve {
	return &Sieve{queue: newQueue(maxBytes), Reinsert: true}
}

// Access implements Cache.
func (c *Sieve) Access(id uint32, bytes int32) (hit bool) {
	if slot := c.index.get(id); slot != 0 {
		c.pages[slot].marks = referenced
		return true
	}
	c.admit(id, bytes, c.evict)
	return false
}

func (c *Sieve) evict() {
	slot := c.hand
	if slot == 0 {
		slot = c.pages[c.newest].prev
	}
	for c.pages[slot].marks == referenced {
		c.pages[slot].marks = 0
		if c.Reinsert {
			c.newest = slot // the oldest becomes the newest: the ring just turns
		}
		slot = c.pages[slot].prev
	}
	// The hand goes on towards newer blocks, and from the newest to the oldest.
	if c.Reinsert || slot == c.newest {
		c.hand = 0
	} else {
		c.hand = c.pages[slot].prev
	}
	if slot == c.newest {
		c.newest = c.pages[slot].next
	}
	if c.drop(slot) {
		c.newest, c.hand = 0, 0
	}
}
