package cachesim

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

// admit makes a block the newest, once evict has made room for it. One larger than the cache stays outside.
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
