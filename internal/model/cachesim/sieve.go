package cachesim

// Sieve is a FIFO queue with one hand that spares blocks hit since it last came
// by, in place (Zhang et al., NSDI 2024). With Reinsert it is CLOCK instead:
// the hand stays at the oldest block and a spared one moves to the front.
type Sieve struct {
	_ apart

	Reinsert bool

	maxBytes, usedBytes int64
	index
	ring
	newest int32
	hand   int32 // the next block to look at; 0: the oldest
}

// NewSieve returns an empty cache of maxBytes.
func NewSieve(maxBytes int64) *Sieve {
	return &Sieve{maxBytes: maxBytes, index: newIndex(), ring: newRing()}
}

// NewClock returns an empty CLOCK (second chance) cache of maxBytes.
func NewClock(maxBytes int64) *Sieve {
	c := NewSieve(maxBytes)
	c.Reinsert = true
	return c
}

// Access implements Cache.
func (c *Sieve) Access(id uint32, bytes int32) (hit bool) {
	if slot := c.index.get(id); slot != 0 {
		c.pages[slot].marks = referenced
		return true
	}
	if int64(bytes) > c.maxBytes {
		return false
	}
	for c.usedBytes+int64(bytes) > c.maxBytes {
		c.evict()
	}
	slot := c.take(id, bytes)
	c.index.put(id, slot)
	if c.newest != 0 {
		c.linkBefore(c.newest, slot)
	}
	c.newest = slot
	c.usedBytes += int64(bytes)
	return false
}

// UsedBytes implements Cache.
func (c *Sieve) UsedBytes() int64 { return c.usedBytes }

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
	c.usedBytes -= int64(c.pages[slot].bytes)
	c.index.remove(c.pages[slot].id)
	if c.unlink(slot) {
		c.newest, c.hand = 0, 0
	}
	c.release(slot)
}
