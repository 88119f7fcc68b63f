package cachesim

// index finds the slot of a block: open addressing with linear probing, so that
// a lookup is one cache line and a deletion leaves no tombstone. Slots are
// positive; 0 is none.
type index struct {
	slots   []int32      // by id, where ids are known to be dense; then the rest is not used
	entries []indexEntry // a power of two, at most half full
	shift   uint         // 32 - log2(len(entries))
	n       int
}

type indexEntry struct {
	id   uint32
	slot int32
}

func newIndex() index {
	const log2 = 8
	return index{entries: make([]indexEntry, 1<<log2), shift: 32 - log2}
}

// home is where id would like to be: Fibonacci hashing spreads dense ids.
func (x *index) home(id uint32) uint32 { return id * 2654435769 >> x.shift }

// expect tells an empty index that ids are below n.
func (x *index) expect(n uint32) { x.slots, x.entries = make([]int32, n), nil }

func (x *index) get(id uint32) int32 {
	if x.slots != nil {
		return x.slots[id]
	}
	mask := uint32(len(x.entries) - 1)
	for i := x.home(id); ; i = (i + 1) & mask {
		e := x.entries[i&mask]
		if e.slot == 0 || e.id == id {
			return e.slot
		}
	}
}

// put adds id, which must not be there.
func (x *index) put(id uint32, slot int32) {
	if x.slots != nil {
		x.slots[id] = slot
		return
	}
	if 2*x.n >= len(x.entries) {
		x.grow()
	}
	x.n++
	mask := uint32(len(x.entries) - 1)
	i := x.home(id)
	for x.entries[i&mask].slot != 0 {
		i = (i + 1) & mask
	}
	x.entries[i] = indexEntry{id, slot}
}

// remove takes id, which must be there, away and closes the gap.
func (x *index) remove(id uint32) {
	if x.slots != nil {
		x.slots[id] = 0
		return
	}
	mask := uint32(len(x.entries) - 1)
	gap := x.home(id)
	for x.entries[gap].id != id || x.entries[gap].slot == 0 {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; x.entries[i].slot != 0; i = (i + 1) & mask {
		// An entry may move back to the gap unless its home lies behind it.
		if home := x.home(x.entries[i].id); (i-home)&mask >= (i-gap)&mask {
			x.entries[gap] = x.entries[i]
			gap = i
		}
	}
	x.entries[gap] = indexEntry{}
	x.n--
}

// move puts moved[slot] in the place of every slot.
func (x *index) move(moved []int32) {
	for i, slot := range x.slots {
		x.slots[i] = moved[slot]
	}
	for i := range x.entries {
		x.entries[i].slot = moved[x.entries[i].slot]
	}
}

func (x *index) grow() {
	old := x.entries
	x.entries = make([]indexEntry, 2*len(old))
	x.shift--
	x.n = 0
	for _, e := range old {
		if e.slot != 0 {
			x.put(e.id, e.slot)
		}
	}
}
