package cachesim

// ClockPro is one shard of Pebble's block cache: CLOCK-Pro as Pebble v1 and v2
// run it (internal/cache/clockpro.go there), with byte sizes.
//
// All pages stand on one clock. Hot pages are those with a short reuse
// distance; cold pages are on probation; test pages are ghosts of evicted cold
// ones, remembered without their bytes. Three hands go round:
//
//	cold  evicts: a cold page that was hit turns hot, another turns test
//	hot   demotes: a hot page that was not hit turns cold
//	test  forgets: a test page goes, and the cold share shrinks
//
// A miss on a test page shows that cold pages stay too short: the cold share
// grows and the page enters hot.
//
// The order of steps decides the figures, so it is Pebble's: room is made
// before a page enters; it enters before the hot hand; the hot hand runs the
// test hand where they meet, and the test hand the cold hand.
type ClockPro struct {
	_ cacheLinePad

	maxBytes      int64
	reservedBytes int64
	coldTarget    int64

	index
	ring

	handHot, handCold, handTest    int32
	hotBytes, coldBytes, testBytes int64

	// Steps counts how often a hand looked at a page. Where the cache is just
	// too small for what is asked often, hands go round for every miss, in
	// Pebble too: whoever simulates may want to stop.
	Steps int64

	inOrder int64 // Steps when the pages last lay in memory as on the clock
}

const (
	testPage uint8 = iota
	coldPage
	hotPage
)

const referenced uint8 = 1

// NewClockPro returns an empty shard of maxBytes. The cold share starts at all
// of it.
func NewClockPro(maxBytes int64) *ClockPro {
	return &ClockPro{maxBytes: maxBytes, coldTarget: maxBytes, index: newIndex(), ring: newRing()}
}

// Access implements Cache.
func (c *ClockPro) Access(id uint32, bytes int32) (hit bool) {
	slot := c.index.get(id)
	if slot == 0 {
		slot = c.take(id, bytes)
		c.pages[slot].kind = coldPage
		if c.add(slot) {
			c.coldBytes += int64(bytes)
		}

		return false
	}

	p := &c.pages[slot]
	if p.kind != testPage {
		p.marks = referenced
		return true
	}

	c.testBytes -= int64(p.bytes)
	c.remove(slot)
	c.coldTarget = min(c.coldTarget+int64(bytes), c.target())
	p.bytes, p.kind, p.marks = bytes, hotPage, 0
	if c.add(slot) {
		c.hotBytes += int64(bytes)
	}

	return false
}

// fill puts blocks of ids from first on into an empty cache, so many bytes in all. Those below
// first are to come.
func (c *ClockPro) fill(first uint32, bytes int32, all int64) {
	n := uint32(min(all, c.target())/int64(bytes)) + 1
	c.index.expect(first + n)
	for id := first; id < first+n; id++ {
		c.Access(id, bytes)
	}
}

// Touch uses a block if it is there.
func (c *ClockPro) Touch(id uint32) {
	if slot := c.index.get(id); slot != 0 && c.pages[slot].kind != testPage {
		c.pages[slot].marks = referenced
	}
}

// Drop forgets a block, as if it had never been there.
func (c *ClockPro) Drop(id uint32) {
	slot := c.index.get(id)
	if slot == 0 {
		return
	}

	switch p := &c.pages[slot]; p.kind {
	case hotPage:
		c.hotBytes -= int64(p.bytes)
	case coldPage:
		c.coldBytes -= int64(p.bytes)
	case testPage:
		c.testBytes -= int64(p.bytes)
	}

	c.remove(slot)
	c.release(slot)
}

// Reserve takes bytes away from the cache (memtables do), or gives them back.
func (c *ClockPro) Reserve(bytes int64) {
	c.reservedBytes += bytes
	c.coldTarget = min(c.coldTarget, c.target())
	c.evict()
}

// UsedBytes implements Cache.
func (c *ClockPro) UsedBytes() int64 { return c.hotBytes + c.coldBytes }

// target is what may be used; at least one byte, so that evict ends.
func (c *ClockPro) target() int64 { return max(1, c.maxBytes-c.reservedBytes) }

// add makes room and puts the page on the clock. It frees the page and reports
// false if that is larger than the whole shard.
func (c *ClockPro) add(slot int32) bool {
	c.evict()
	if int64(c.pages[slot].bytes) > c.target() {
		c.release(slot)
		return false
	}

	c.index.put(c.pages[slot].id, slot)
	if c.handHot == 0 {
		c.handHot, c.handCold, c.handTest = slot, slot, slot
	} else {
		c.linkBefore(c.handHot, slot)
	}

	if c.handCold == c.handHot {
		c.handCold = c.pages[c.handCold].prev
	}

	if c.Steps-c.inOrder > roundsInDisorder*int64(len(c.pages)) {
		c.straighten()
	}

	return true
}

// roundsInDisorder: a step to a page that lies elsewhere waits for memory, and putting a page in
// order takes as long as a few such steps.
const roundsInDisorder = 64

// straighten puts the pages in memory as they are on the clock, so that hands that go round
// read memory in order. It changes no figure.
func (c *ClockPro) straighten() {
	moved := c.ring.straighten(c.handHot)
	c.index.move(moved)
	c.handHot, c.handCold, c.handTest = moved[c.handHot], moved[c.handCold], moved[c.handTest]
	c.inOrder = c.Steps
}

// remove takes the page off the clock. Hands on it step back.
func (c *ClockPro) remove(slot int32) {
	p := &c.pages[slot]
	c.index.remove(p.id)
	if c.handHot == slot {
		c.handHot = p.prev
	}

	if c.handCold == slot {
		c.handCold = p.prev
	}

	if c.handTest == slot {
		c.handTest = p.prev
	}

	if c.unlink(slot) {
		c.handHot, c.handCold, c.handTest = 0, 0, 0
	}
}

func (c *ClockPro) evict() {
	for c.target() <= c.hotBytes+c.coldBytes && c.handCold != 0 {
		c.runHandCold()
	}
}

func (c *ClockPro) runHandCold() {
	c.Steps++
	if p := &c.pages[c.handCold]; p.kind == coldPage {
		bytes := int64(p.bytes)
		c.coldBytes -= bytes
		if p.marks == referenced {
			p.kind, p.marks = hotPage, 0
			c.hotBytes += bytes
		} else {
			p.kind = testPage
			c.testBytes += bytes
			for c.target() < c.testBytes && c.handTest != 0 {
				c.runHandTest()
			}
		}
	}

	c.handCold = c.pages[c.handCold].next
	for c.target()-c.coldTarget <= c.hotBytes && c.handHot != 0 {
		c.runHandHot()
	}
}

func (c *ClockPro) runHandHot() {
	if c.handHot == c.handTest {
		c.runHandTest()
		if c.handHot == 0 {
			return
		}
	}

	c.Steps++
	p := &c.pages[c.handHot]
	if p.kind == hotPage {
		if p.marks == referenced {
			p.marks = 0
		} else {
			p.kind = coldPage
			c.hotBytes -= int64(p.bytes)
			c.coldBytes += int64(p.bytes)
		}
	}

	c.handHot = p.next
}

func (c *ClockPro) runHandTest() {
	if c.coldBytes > 0 && c.handTest == c.handCold {
		c.runHandCold()
		if c.handTest == 0 {
			return
		}
	}

	c.Steps++
	if slot := c.handTest; c.pages[slot].kind == testPage {
		bytes := int64(c.pages[slot].bytes)
		c.testBytes -= bytes
		c.coldTarget = max(0, c.coldTarget-bytes)
		c.remove(slot)
		c.release(slot)
	}

	c.handTest = c.pages[c.handTest].next
}

// PebbleVersion tells Pebble's two caches apart: one policy, but other shards
// and another charge per block.
type PebbleVersion int

// Versions of Pebble's cache.
const (
	PebbleV1 PebbleVersion = 1
	PebbleV2 PebbleVersion = 2
)

// BlockCharge are the bytes a cached block takes beyond its decompressed
// content: v2 keeps decoder state with each (block.MetadataSize).
func (v PebbleVersion) BlockCharge() int64 {
	if v == PebbleV2 {
		return 336
	}
	return 0
}

// Policy is that of the version's cache.
func (v PebbleVersion) Policy() Policy {
	if v == PebbleV2 {
		return ClockPro2Policy
	}
	return ClockPro1Policy
}

// ShardCount is how many shards Pebble divides a cache into on a machine of
// that many cores (GOMAXPROCS).
func ShardCount(cacheBytes int64, cores int) int {
	const minShardBytes = 4 << 20
	if n := 4 * cores; n <= 4 || cacheBytes/int64(n) >= minShardBytes {
		return n
	}
	return 4
}

// Shard is the shard among n that holds the block at offset of a file, for the
// first database opened with the cache.
func (v PebbleVersion) Shard(file, offset uint64, n int) int {
	if v == PebbleV2 {
		// Fibonacci hashing of the three words, reduced by multiplication.
		const m, handle = 11400714819323198485, 1
		h := (handle*m ^ file*m ^ offset*m) >> 32
		return int(h * uint64(n) >> 32)
	}

	// FNV-1 over the three words, lowest byte first.
	const basis, prime, cacheID = 14695981039346656037, 1099511628211, 2
	h := uint64(basis)
	for _, word := range [3]uint64{cacheID, file, offset} {
		for range 8 {
			h = h*prime ^ word&0xff
			word >>= 8
		}
	}

	return int(h % uint64(n))
}
