package cachesim

// LRU evicts the block not asked for the longest.
type LRU struct {
	_ apart
	queue
}

// NewLRU returns an empty cache of maxBytes.
func NewLRU(maxBytes int64) *LRU { return &LRU{queue: newQueue(maxBytes)} }

// Access implements Cache.
func (c *LRU) Access(id uint32, bytes int32) (hit bool) {
	slot := c.index.get(id)
	if slot == 0 {
		c.admit(id, bytes, c.evict)
		return false
	}
	if slot != c.newest {
		c.unlink(slot)
		c.linkBefore(c.newest, slot)
		c.newest = slot
	}
	return true
}

func (c *LRU) evict() {
	if c.drop(c.pages[c.newest].prev) {
		c.newest = 0
	}
}
