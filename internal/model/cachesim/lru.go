package cachesim

// LRU evicts the block not asked for the longest.
type LRU struct {
	_ apart

	maxBytes, usedBytes int64
	index
	ring
	newest int32
}

// NewLRU returns an empty cache of maxBytes.
func NewLRU(maxBytes int64) *LRU {
	return &LRU{maxBytes: maxBytes, index: newIndex(), ring: newRing()}
}

// Access implements Cache.
func (c *LRU) Access(id uint32, bytes int32) (hit bool) {
	if slot := c.index.get(id); slot != 0 {
		if slot != c.newest {
			c.unlink(slot)
			c.linkBefore(c.newest, slot)
			c.newest = slot
		}
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
func (c *LRU) UsedBytes() int64 { return c.usedBytes }

func (c *LRU) evict() {
	oldest := c.pages[c.newest].prev
	c.usedBytes -= int64(c.pages[oldest].bytes)
	c.index.remove(c.pages[oldest].id)
	if c.unlink(oldest) {
		c.newest = 0
	}
	c.release(oldest)
}
