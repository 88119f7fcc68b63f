package statemodel

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/lsm"
)

// tables are the files of a Pebble database at rest, with L0 compacted. Blocks of
// transactions write all over the key space: a compaction of L0 rewrites the whole base
// level, and files have no gaps between them. A Get goes through the levels as
// internal/model/predict says:
//
//	in each level down to the key's: the filter (never in the last level) and the index,
//	  or the top index
//	where the key lies, or the filter is wrong: a block of the index, a block of data
//
// A lookup makes several Gets. Blocks that one of them has read are cached for the next.
type tables struct {
	levels []tier // the newest first
	open   func(*tables)
	read   map[block]bool
	files  float64 // of a build: how long files are over their mean, so that they end anywhere
}

// tier is one level.
type tier struct {
	bytes, fileBytes float64
	newest           float64 // share of all writes that are the newest, and are in this level or above
	regions          []span
	last             bool
}

// span is where the keys of a region lie among those of a level, how wide they are, and
// what the index takes for each of their bytes: an index entry is a key in full, up to
// where it differs from the next.
type span struct{ from, wide, index float64 }

// stretch is keys that lie together: a region.
type stretch struct {
	parts  []part
	shared float64 // bytes that all of its keys begin with
}

// part is keys of a region that were written last with the latest of so many.
type part struct{ bytes, written float64 }

// newer are the bytes of a region's keys that the newest share of all writes wrote.
func (r stretch) newer(share float64) (bytes float64) {
	for _, p := range r.parts {
		bytes += p.bytes * (1 - math.Pow(1-share, p.written))
	}
	return bytes
}

// block is a block of a file of a level.
type block struct {
	level, file int
	kind        engine.BlockType
	number      int
}

// tablesOf are those of a database of so many keys in these regions. Levels are as large
// as lsm.Settle says; each holds what was written last of what those above it do not.
func tablesOf(keys float64, regions ...stretch) *tables {
	newer := func(share float64) (bytes float64) {
		for _, r := range regions {
			bytes += r.newer(share)
		}
		return bytes
	}
	bytes := newer(1)
	var targets [engine.MaxLevels]int64
	for level := range targets {
		targets[level] = 2 << 20 << level // below L0 the same in both sets of options that layouts use
	}
	const baseBytes = 64 << 20
	rest := lsm.Settle(uint64(keys), baseBytes, targets, func(int, float64) float64 { return bytes / keys })
	t, cumulative, above := &tables{open: func(*tables) {}}, 0.0, 0.0
	for level, n := range rest.Keys {
		if n < 1 {
			continue
		}
		l := tier{bytes: bytes * n / keys, fileBytes: rest.FileBytes[level], newest: 1, last: level == engine.MaxLevels-1}
		if cumulative += l.bytes; !l.last {
			low, high := 0.0, 1.0
			for range 50 {
				if l.newest = (low + high) / 2; newer(l.newest) > cumulative {
					high = l.newest
				} else {
					low = l.newest
				}
			}
		}
		from := 0.0
		for _, r := range regions {
			wide := (r.newer(l.newest) - r.newer(above)) / l.bytes
			l.regions = append(l.regions, span{from, wide, (pebbleIndexEntry + r.shared) / pebbleBlock})
			from += wide
		}
		above = l.newest
		t.levels = append(t.levels, l)
	}
	return t
}

// indexBytes are those of the index of all keys of a level before a place.
func (l tier) indexBytes(before float64) (bytes float64) {
	for _, r := range l.regions {
		bytes += math.Max(0, math.Min(before/l.bytes-r.from, r.wide)) * l.bytes * r.index
	}
	return bytes
}

// falsePositive is the share of absent keys that a filter of 10 bits a key lets pass
// (internal/model/predict).
const falsePositive = .011

// absent is a level that no key lies in.
const absent = -1

// levelOf is the level of a key that was last written with the latest of so many, where
// u is even between 0 and 1.
func (t *tables) levelOf(written, u float64) int {
	for i, l := range t.levels {
		if u < 1-math.Pow(1-l.newest, written) {
			return i
		}
	}
	return len(t.levels) - 1
}

// slotLevelOf is the level of a slot of the one contract, or a node above so many of
// them: the first block wrote it, then none but the updates, which are what was written
// last.
func (t *tables) slotLevelOf(s State, slots, u float64) int {
	changed := 1 - math.Pow(1-math.Min(1, s.UpdateKeys/s.SlotsPer), math.Floor(s.UpdateBlocks/2))
	if u < 1-math.Pow(1-changed, slots) {
		return 0
	}
	return len(t.levels) - 1
}

// get reads the blocks that a Get of the key at x, from 0 to 1 of a region, needs.
func (t *tables) get(random *rand.Rand, region int, x float64, found int) {
	for i, l := range t.levels {
		r, fileBytes := l.regions[region], l.fileBytes*t.files
		at := math.Min(r.from+x*r.wide, 1-1e-9) * l.bytes
		file := int(at / fileBytes)
		start := float64(file) * fileBytes
		before, of := l.indexBytes(at)-l.indexBytes(start), l.indexBytes(math.Min(l.bytes, start+fileBytes))-l.indexBytes(start)
		if !l.last {
			t.read[block{i, file, engine.Filter, 0}] = true
		}
		t.read[block{i, file, engine.TopIndex, 0}] = true // of one level: the index
		if i == found || l.last || random.Float64() < falsePositive {
			if of > pebbleBlock {
				t.read[block{i, file, engine.Index, int(before / pebbleBlock)}] = true
			}
			t.read[block{i, file, engine.Data, int((at - start) / pebbleBlock)}] = true
		}
		if i == found {
			return
		}
	}
}

// Reads are what a lookup reads: in the mean, and how far one database is from that, nine
// of ten times, as a share of it. Databases of the same keys differ by where files end and
// so by which blocks share one, and by how long files are.
type Reads struct{ Mean, Off float64 }

// A draw of builds, and of lookups in each, is enough for a standard error of a percent.
const (
	firstBuilds  = 60
	firstLookups = 60
	usualBuilds  = 54 // nine of ten
)

// drawn are the reads of lookups in builds that build draws.
func drawn(seed uint64, build func(*rand.Rand) (lookup func() float64)) Reads {
	random := rand.New(rand.NewPCG(1, seed))
	var builds []float64
	for range firstBuilds {
		lookup, reads := build(random), 0.0
		for range firstLookups {
			reads += lookup() / firstLookups
		}
		builds = append(builds, reads)
	}
	r := Reads{Mean: sum(builds) / firstBuilds}
	if r.Mean > 0 {
		for i := range builds {
			builds[i] = math.Abs(builds[i]/r.Mean - 1)
		}
		slices.Sort(builds)
		r.Off = builds[usualBuilds-1]
	}
	return r
}

// first is what a lookup reads after opening, which has read what open says.
func (t *tables) first(lookup func(*rand.Rand)) Reads {
	return drawn(uint64(len(t.levels)), func(random *rand.Rand) func() float64 {
		t.files = .75 + random.Float64()/2
		return func() float64 {
			t.read = map[block]bool{}
			t.open(t)
			opened := len(t.read)
			lookup(random)
			return float64(len(t.read) - opened)
		}
	})
}

// FirstFlatPebble is what the first lookup of a flat table reads after opening, which
// reads the key of the block's number: it lies between accounts and slots.
func FirstFlatPebble(s State, kind Kind) Reads {
	stored := func(records, key, value float64) float64 {
		return records * (pebbleRecord + key - math.Log(math.Max(1, records))/math.Log(256) + value + filterBytes + pebbleIndexEntry*(key+value)/pebbleBlock)
	}
	slots := s.contracts() * s.SlotsPer
	t := tablesOf(s.Accounts+slots, stretch{[]part{{stored(s.Accounts, accountKey, s.accountValue()), 1}}, 0},
		stretch{[]part{{stored(slots, slotKey-hashBytes*(1-1/math.Max(1, s.SlotsPer)), slotValue), 1}}, hashBytes})
	t.open = func(t *tables) { t.get(nil, 1, 0, 0) }
	return t.first(func(random *rand.Rand) { t.getFlat(random, s, kind, 0) })
}

// getFlat gets a record of the flat accounts, in that region, or slots, in the next.
func (t *tables) getFlat(random *rand.Rand, s State, kind Kind, region int) {
	x, age := random.Float64(), random.Float64()
	switch kind {
	case Account:
		t.get(random, region, x, t.levelOf(1, age))
	case AbsentAccount:
		t.get(random, region, x, absent)
	case Slot:
		t.get(random, region+1, x, t.slotLevelOf(s, 1, age))
	case AbsentSlot:
		t.get(random, region+1, x, absent)
	}
}

const filterBytes = 10. / 8
