package cachesim

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
)

// ParseRocksCache reads which cache a database of RocksDB gets: lru, hyper-clock, or
// hyper-clock:8192, whose table is fixed and made for blocks of so many bytes. "" is lru.
func ParseRocksCache(text string) (policy Policy, entryBytes int64, err error) {
	switch kind, entry, fixed := strings.Cut(text, ":"); {
	case text == "" || text == "lru":
		return PooledLRUPolicy, 0, nil
	case text == "hyper-clock":
		return HyperClockPolicy, 0, nil
	case kind == "hyper-clock" && fixed:
		if entryBytes, err = strconv.ParseInt(entry, 10, 32); err == nil && entryBytes > 0 {
			return FixedClockPolicy, entryBytes, nil
		}
	}

	return "", 0, fmt.Errorf("invalid kind of cache %q (examples: lru, hyper-clock, "+
		"hyper-clock:8192 for blocks of 8,192 bytes)", text)
}

// hyperClock is a shard of RocksDB's HyperClockCache, of either kind: the fixed table, whose size
// follows from how large a block is said to be, and the one that grows, which is the default. Both
// charge the memory of their table. (Source: RocksDB's cache/clock_cache.cc.)
//
// A block enters with two lives, or three with high priority; a hit gives one more, up to three. A
// hand goes round and takes one from each block that it meets; a block without any leaves. The
// fixed table is met slot by slot, the growing one chain by chain: blocks of equal low bits of
// their hash, in as many chains as linear hashing has made so far.
//
// A block of an index that a Get holds while it inserts the next block loses no life meanwhile.
type hyperClock struct {
	_                   cacheLinePad
	maxBytes, usedBytes int64
	index               // entries by block, from 1
	keys                []clockKey
	entries             []clockEntry
	taken, limit        int // entries that hold blocks, and how many may
	hand                uint64
	held                int32 // the entry of an index that was asked for last

	// Of the table that grows; chains is nil in the fixed one.
	chains    []int32 // the newest entry of each; 0: none
	maxChains int
	free      int32
	handMask  uint64
}

// clockKey is the hash of a block's name: its second word tells where the block is, its first in
// which shard and how to go on from a slot that is taken.
type clockKey [2]uint64

type clockEntry struct {
	id     uint32
	bytes  int32
	next   int32 // of a chain, or of the free ones
	lives  uint8
	pinned bool
	taken  bool
}

const (
	clockSlotBytes   = 64
	clockLives       = 2
	maxLives         = 3
	clockStep        = 4  // slots or chains that the hand passes at once
	clockEffort      = 30 // pinned blocks that are met for each one that leaves, at most
	defaultEntry     = 8 << 10
	minMeanEntry     = 450
	firstChains      = 4096 / clockSlotBytes
	clockMinShard    = 32 << 20
	growingLoad      = 0.6
	fixedLoad        = 0.7
	fixedStrictLoad  = 0.84
	roundedUpChains  = 0.999999
	roundedUpEntries = 0.999
)

// newHyperClock is a shard of maxBytes with a fixed table for blocks of entryBytes, or with 0 one
// with a table that grows.
func newHyperClock(maxBytes, entryBytes int64) *hyperClock {
	maxBytes = max(maxBytes, 1) // nothing may be left of a small cache
	c := &hyperClock{maxBytes: maxBytes, index: newIndex()}
	if entryBytes > 0 {
		slots := uint64(float64(maxBytes)/(float64(entryBytes)*fixedLoad+clockSlotBytes) +
			roundedUpChains)
		log2 := bits.Len64(slots<<1-1) - 1
		for log2 > 0 && clockSlotBytes<<log2 > maxBytes {
			log2--
		}

		c.entries = make([]clockEntry, 1<<log2)
		c.usedBytes, c.limit = clockSlotBytes<<log2, int(float64(len(c.entries))*fixedStrictLoad)
		return c
	}

	maximum := int(float64(maxBytes)/(minMeanEntry*growingLoad+clockSlotBytes) + roundedUpChains)
	c.maxChains = (maximum + firstChains - 1) / firstChains * firstChains
	first := firstChains
	if maxBytes <= 4096 {
		first = 4
	}

	c.chains, c.entries, c.handMask = make([]int32, first), make([]clockEntry, 1), uint64(first-1)
	c.usedBytes, c.limit = int64(first)*clockSlotBytes, chainLimit(first)
	return c
}

func chainLimit(chains int) int { return int(float64(chains)*growingLoad + roundedUpEntries) }

// UsedBytes implements Cache.
func (c *hyperClock) UsedBytes() int64 { return c.usedBytes }

// Access implements Cache.
func (c *hyperClock) Access(id uint32, bytes int32) (hit bool) {
	return c.access(&request{id: id, bytes: bytes})
}

func (c *hyperClock) access(q *request) (hit bool) {
	if slot := c.get(q.id); slot != 0 {
		e := &c.entries[slot-1]
		e.lives = min(e.lives+1, maxLives)
		c.hold(q, slot)
		return true
	}

	chains, charge := len(c.chains), int64(q.bytes)
	c.taken++
	full := !c.grow()
	need := int64(0)
	if c.usedBytes+charge > c.maxBytes && charge <= c.usedBytes {
		need = charge
		if c.usedBytes > c.maxBytes {
			need += min(c.maxBytes/1024, charge) + 1
		}
	}

	if full {
		need = max(need, 1)
	}

	left := 0
	if need > 0 {
		left = c.evict(need, chains)
	}

	if c.taken -= left; full && left == 0 {
		c.taken--
		return false // it leaves as soon as the Get is done with it
	}

	c.usedBytes += charge
	e := clockEntry{
		id:     q.id,
		bytes:  q.bytes,
		lives:  clockLives,
		pinned: q.marks&Pinned != 0,
		taken:  true,
	}

	if q.marks&HighPriority != 0 {
		e.lives = maxLives
	}

	slot := c.room(&e)
	c.entries[slot] = e
	c.put(q.id, slot+1)
	c.hold(q, slot+1)
	return false
}

func (c *hyperClock) hold(q *request, slot int32) {
	switch q.class.blockType() {
	case engine.Index, engine.SingleIndex, engine.TopIndex:
		c.held = slot
	default:
		c.held = 0
	}
}

// room finds a slot for an entry; in the table that grows it puts it into its chain.
func (c *hyperClock) room(e *clockEntry) (slot int32) {
	key := c.keys[e.id]
	if c.chains == nil {
		mask := uint64(len(c.entries) - 1)
		at := key[1] & mask
		for c.entries[at].taken {
			at = (at + (key[0] | 1)) & mask
		}

		return int32(at)
	}

	if slot = c.free; slot != 0 {
		c.free = c.entries[slot].next
	} else {
		slot = int32(len(c.entries))
		c.entries = append(c.entries, clockEntry{})
	}

	chain := &c.chains[c.chainOf(key)]
	e.next, *chain = *chain, slot
	return slot
}

func (c *hyperClock) chainOf(key clockKey) uint64 {
	n := uint64(len(c.chains))
	log2 := bits.Len64(n) - 1
	if chain := key[1] & (2<<log2 - 1); chain < n {
		return chain
	}
	return key[1] & (1<<log2 - 1)
}

// grow splits chains until there are enough for all entries; false: there can be no more.
func (c *hyperClock) grow() bool {
	for c.taken > c.limit {
		n := len(c.chains)
		if c.chains == nil || n >= c.maxChains {
			return false
		}

		bit := uint64(1) << (bits.Len(uint(n)) - 1)
		from := uint64(n) &^ bit
		rest := c.chains[from]
		c.chains = append(c.chains, 0)
		c.chains[from] = 0
		for rest != 0 {
			e := &c.entries[rest]
			to := &c.chains[from|c.keys[e.id][1]&bit]
			rest, e.next, *to = e.next, *to, rest
		}

		c.usedBytes += clockSlotBytes
		c.limit = chainLimit(n + 1)
	}

	return true
}

// evict moves the hand until blocks of need bytes have left, or until it has gone round often
// enough. chains were there before the table grew.
func (c *hyperClock) evict(need int64, chains int) (left int) {
	pinned, freed, last := 0, int64(0), uint64(0)
	for {
		at := c.hand
		c.hand += clockStep
		var round uint64
		if c.chains == nil {
			round = uint64(len(c.entries))
			for i := range uint64(clockStep) {
				left += c.pass(int32((at+i)&(round-1)), &pinned, &freed)
			}
		} else {
			if at&c.handMask == 0 {
				c.handMask = 1<<(bits.Len(uint(chains))-1) - 1
			}

			round = c.handMask + 1
			for base := at & c.handMask; base < uint64(chains); base += round {
				for chain := base; chain < min(base+clockStep, uint64(chains)); chain++ {
					left += c.passChain(&c.chains[chain], &pinned, &freed)
				}
			}
		}

		if freed >= need {
			return left
		}

		if last == 0 {
			last = at + maxLives*round
			if c.chains != nil {
				last = at + (maxLives+1)*round - clockStep
			}
		}

		if at >= last || (left+1)*clockEffort <= pinned {
			return left
		}
	}
}

// pass takes a life from the block in a slot, or the block from the cache.
func (c *hyperClock) pass(slot int32, pinned *int, freed *int64) (left int) {
	e := &c.entries[slot]
	switch {
	case !e.taken:
	case e.pinned, slot == c.held-1:
		*pinned++
	case e.lives > 0:
		e.lives--
	default:
		*freed += int64(e.bytes)
		c.usedBytes -= int64(e.bytes)
		c.remove(e.id)
		*e = clockEntry{}
		return 1
	}

	return 0
}

func (c *hyperClock) passChain(chain *int32, pinned *int, freed *int64) (left int) {
	for *chain != 0 {
		slot := *chain
		next := c.entries[slot].next
		if c.pass(slot, pinned, freed) == 0 {
			chain = &c.entries[slot].next
			continue
		}

		left++
		*chain = next
		c.entries[slot].next, c.free = c.free, slot
	}

	return left
}

// clockKey hashes the name of a block as the cache does, with XXH3 of 128 bits.
func (t *Trace) clockKey(b *Block, seed uint32) clockKey {
	name := t.cacheKey(b)
	low, high := name[0]^uint64(seed), name[1]
	highProduct, lowProduct := bits.Mul64(low^high^0x59973f0033362349, 0x9E3779B185EBCA87)
	lowProduct += 15 << 54
	high ^= 0xc202797692d63d58
	highProduct += high + uint64(uint32(high))*0x85EBCA76
	const prime = 0xC2B2AE3D27D4EB4F
	upper, lower := bits.Mul64(lowProduct^bits.ReverseBytes64(highProduct), prime)
	avalanche := func(h uint64) uint64 {
		h = (h ^ h>>37) * 0x165667919E3779F9
		return h ^ h>>32
	}

	return clockKey{avalanche(lower), avalanche(upper + highProduct*prime)}
}
