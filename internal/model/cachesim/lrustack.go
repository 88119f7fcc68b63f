package cachesim

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// lruStack is LRU caches of several sizes at once, in one list of blocks from
// the newest to the oldest (Mattson et al., 1970, with bytes for blocks).
//
// That is exact as long as every block fits into the smallest cache. Then a
// cache always holds as many of the newest blocks as fit: a block asked for
// that it holds moves to the front and changes nothing else; one it does not
// hold enters at the front, and the oldest leave until the rest fits. What did
// not fit before cannot fit now. So a cache is a place in the list, and caches
// of growing sizes hold each other.
type lruStack struct {
	maxBytes, usedBytes []int64   // by size, ascending
	oldest              []int32   // by size: the last page it holds, 0 if none
	pages               []lruPage // by block number, from 1
	newest              int32

	misses    []counts // by how many of the sizes missed, from the smallest
	diskBytes []int64
	ahead     int32
}

// lruPage is a block; those in no cache are in no list.
type lruPage struct {
	next, prev int32
	bytes      int32
	diskBytes  int32
	outside    uint8 // of how many sizes, from the smallest
	class      class
}

const maxStackSizes = math.MaxUint8

// newLRUStack returns the caches as they are after these accesses.
func newLRUStack(trace *Trace, maxBytes []int64, before []uint32) *lruStack {
	n := len(maxBytes)
	s := &lruStack{
		maxBytes:  maxBytes,
		usedBytes: make([]int64, n),
		oldest:    make([]int32, n),
		pages:     make([]lruPage, len(trace.Blocks)+1),
		misses:    make([]counts, n+1),
		diskBytes: make([]int64, n+1),
	}

	for i := range trace.Blocks {
		b := &trace.Blocks[i]
		s.pages[i+1] = lruPage{
			bytes:     b.Bytes,
			diskBytes: b.DiskBytes,
			outside:   uint8(n),
			class:     classOf(b),
		}
	}

	// The newest blocks that fit, whatever happened before them.
	full := 0
	for _, number := range slices.Backward(before) {
		slot := int32(number) + 1
		p := &s.pages[slot]
		if int(p.outside) < n {
			continue
		}

		for full < n && s.usedBytes[full]+int64(p.bytes) > maxBytes[full] {
			full++
		}

		if full == n {
			break
		}

		for i := full; i < n; i++ {
			s.usedBytes[i] += int64(p.bytes)
			s.oldest[i] = slot
		}

		p.outside = uint8(full)
		s.linkLast(slot)
	}

	return s
}

// linkLast puts a page that is in no list behind all others; it is also before
// the newest.
func (s *lruStack) linkLast(slot int32) {
	p := &s.pages[slot]
	if s.newest == 0 {
		s.newest, p.next, p.prev = slot, slot, slot
		return
	}

	newest := &s.pages[s.newest]
	p.next, p.prev = s.newest, newest.prev
	s.pages[newest.prev].next = slot
	newest.prev = slot
}

func (s *lruStack) unlink(p *lruPage) {
	s.pages[p.prev].next = p.next
	s.pages[p.next].prev = p.prev
}

// play plays accesses to all sizes and counts.
func (s *lruStack) play(accesses []uint32) {
	// Asking memory for some pages at a time makes it look for them together.
	const together = 16
	for len(accesses) > 0 {
		n := min(together, len(accesses))
		for _, number := range accesses[:n] {
			s.ahead += s.pages[number+1].bytes
		}

		for _, number := range accesses[:n] {
			slot := int32(number) + 1
			p := &s.pages[slot]
			s.misses[p.outside][p.class]++
			s.diskBytes[p.outside] += int64(p.diskBytes)
			if slot != s.newest {
				s.moveToFront(slot, p)
			}
		}

		accesses = accesses[n:]
	}
}

func (s *lruStack) moveToFront(slot int32, p *lruPage) {
	outside, sizes := int(p.outside), len(s.maxBytes)
	for i := outside; i < sizes; i++ {
		if s.oldest[i] == slot {
			s.oldest[i] = p.prev
		}
	}

	if outside < sizes {
		s.unlink(p)
	}

	s.linkLast(slot)
	s.newest, p.outside = slot, 0
	for i := range outside {
		if s.oldest[i] == 0 {
			s.oldest[i] = slot
		}

		s.usedBytes[i] += int64(p.bytes)
		for s.usedBytes[i] > s.maxBytes[i] {
			oldest := &s.pages[s.oldest[i]]
			s.usedBytes[i] -= int64(oldest.bytes)
			s.oldest[i] = oldest.prev
			if oldest.outside = uint8(i + 1); i+1 == sizes {
				s.unlink(oldest)
			}
		}
	}
}

// maxStackParts bounds the memory: each has all blocks, 20 bytes each.
const maxStackParts = 8

// playStack replays the trace to LRU caches of all sizes, in parts at the same
// time: what the caches hold where a part begins follows from the accesses
// before it.
func playStack(ctx context.Context, trace *Trace, setup Setup, points []*Point) error {
	points = slices.Clone(points)
	slices.SortFunc(points,
		func(a, b *Point) int { return cmp.Compare(a.CacheBytes, b.CacheBytes) })
	maxBytes := make([]int64, len(points))
	for i, p := range points {
		maxBytes[i] = p.CacheBytes >> setup.sampleShift
	}

	first := int(trace.Gets[trace.WarmupGets])
	counted := len(trace.Accesses) - first
	parts := make([]*lruStack, min(runtime.GOMAXPROCS(0), maxStackParts))
	var work errgroup.Group
	for i := range parts {
		from, to := first+counted*i/len(parts), first+counted*(i+1)/len(parts)
		work.Go(func() error {
			parts[i] = newLRUStack(trace, maxBytes, trace.Accesses[:from])
			for from < to && ctx.Err() == nil {
				n := min(batchAccesses, to-from)
				parts[i].play(trace.Accesses[from : from+n])
				from += n
			}

			return ctx.Err()
		})
	}

	if err := work.Wait(); err != nil {
		return err
	}

	for _, s := range parts {
		for outside := range s.misses {
			for i, p := range points {
				p.addAccesses(&s.misses[outside])
				if i < outside {
					p.addReads(&s.misses[outside], s.diskBytes[outside])
				}
			}
		}
	}

	for i, p := range points {
		p.UsedBytesAtEnd = parts[len(parts)-1].usedBytes[i]
	}

	return nil
}

// LRU evicts the block not asked for the longest.
type LRU struct {
	_ cacheLinePad
	queue
}

// NewLRU returns an empty cache of maxBytes.
func NewLRU(maxBytes int64) *LRU { return &LRU{queue: newQueue(maxBytes)} }

// Access implements Cache.
func (c *LRU) Access(id uint32, bytes int32) (hit bool) {
	if c.use(id) {
		return true
	}
	c.admit(id, bytes, c.evict)
	return false
}

// Touch uses a block if the cache has it.
func (c *LRU) Touch(id uint32) { c.use(id) }

func (c *LRU) use(id uint32) (is bool) {
	slot := c.index.get(id)
	if slot != 0 && slot != c.newest {
		c.unlink(slot)
		c.linkBefore(c.newest, slot)
		c.newest = slot
	}
	return slot != 0
}

func (c *LRU) evict() {
	if c.drop(c.pages[c.newest].prev) {
		c.newest = 0
	}
}
