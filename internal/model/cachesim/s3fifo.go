package cachesim

// S3FIFO keeps new blocks in a small FIFO queue, those asked for again in a
// large one, and remembers which it threw out of the small one (Yang et al.,
// SOSP 2023): a tenth of the bytes for the small queue, ghosts of as many bytes
// as the large one, reuse counted up to three.
type S3FIFO struct {
	_ cacheLinePad

	maxBytes, smallMaxBytes int64
	index
	ring
	queues [3]fifo // by kind
}

// fifo is a queue in the ring; its oldest page is behind the newest.
type fifo struct {
	newest int32
	bytes  int64
}

const (
	smallQueue uint8 = iota
	mainQueue
	ghostQueue
)

// NewS3FIFO returns an empty cache of maxBytes.
func NewS3FIFO(maxBytes int64) *S3FIFO {
	return &S3FIFO{
		maxBytes:      maxBytes,
		smallMaxBytes: maxBytes / 10,
		index:         newIndex(),
		ring:          newRing(),
	}
}

// Access implements Cache.
func (c *S3FIFO) Access(id uint32, bytes int32) (hit bool) {
	slot := c.index.get(id)
	if slot != 0 && c.pages[slot].kind != ghostQueue {
		c.pages[slot].marks = min(c.pages[slot].marks+1, 3)
		return true
	}

	if int64(bytes) > c.maxBytes {
		return false
	}

	queue := smallQueue
	if slot != 0 {
		queue = mainQueue
		c.drop(slot)
	}

	for c.UsedBytes()+int64(bytes) > c.maxBytes {
		c.evict()
	}

	slot = c.take(id, bytes)
	c.index.put(id, slot)
	c.push(queue, slot)
	return false
}

// UsedBytes implements Cache.
func (c *S3FIFO) UsedBytes() int64 { return c.queues[smallQueue].bytes + c.queues[mainQueue].bytes }

func (c *S3FIFO) evict() {
	if c.queues[smallQueue].bytes > c.smallMaxBytes || c.queues[mainQueue].newest == 0 {
		slot := c.pop(smallQueue)
		if c.pages[slot].marks > 1 {
			c.pages[slot].marks = 0
			c.push(mainQueue, slot)
			return
		}

		c.push(ghostQueue, slot)
		for c.queues[ghostQueue].bytes > c.maxBytes-c.smallMaxBytes {
			c.drop(c.oldest(ghostQueue))
		}

		return
	}

	slot := c.pop(mainQueue)
	if c.pages[slot].marks > 0 {
		c.pages[slot].marks--
		c.push(mainQueue, slot)
		return
	}

	c.index.remove(c.pages[slot].id)
	c.release(slot)
}

func (c *S3FIFO) oldest(queue uint8) int32 { return c.pages[c.queues[queue].newest].prev }

func (c *S3FIFO) push(queue uint8, slot int32) {
	q := &c.queues[queue]
	c.pages[slot].kind = queue
	if q.newest != 0 {
		c.linkBefore(q.newest, slot)
	}
	q.newest = slot
	q.bytes += int64(c.pages[slot].bytes)
}

func (c *S3FIFO) pop(queue uint8) int32 {
	slot := c.oldest(queue)
	c.leave(slot)
	return slot
}

// leave takes slot out of its queue.
func (c *S3FIFO) leave(slot int32) {
	q := &c.queues[c.pages[slot].kind]
	q.bytes -= int64(c.pages[slot].bytes)
	next := c.pages[slot].next
	if c.unlink(slot) {
		q.newest = 0
	} else if q.newest == slot {
		q.newest = next
	}
}

// drop forgets the page.
func (c *S3FIFO) drop(slot int32) {
	c.leave(slot)
	c.index.remove(c.pages[slot].id)
	c.release(slot)
}

// Sieve is a FIFO queue with one hand that spares blocks hit since it last came
// by, in place (Zhang et al., NSDI 2024). With Reinsert it is CLOCK instead:
// the hand stays at the oldest block and a spared one moves to the front.
type Sieve struct {
	_ cacheLinePad

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
