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
	levels []tier  // the newest first
	block  float64 // bytes
	open   func(*tables)
	read   map[block]bool
}

// tier is one level.
type tier struct {
	bytes   float64
	target  float64   // size of a file
	renewed float64   // share of the level that was written since targets were half of that
	churned float64   // bytes that files were compacted out of, again and again
	bytesAt []float64 // of ages 0 to agesTo, see bytesOf
	newest  float64   // share of all writes that are the newest, and are in this level or above
	regions []span
	last    bool

	// In a build:
	lie  profile
	ends []float64 // of files: places
}

// span is where the keys of a region lie in a level, how wide they are there, how
// many bytes each of its bytes was before compression, and what the index takes for it: an
// index entry is a key in full, up to where it differs from the next.
type span struct{ from, wide, raw, index float64 }

// stretch is keys that lie together: a region.
type stretch struct {
	parts  []part
	shared float64 // bytes that all of its keys begin with
	block  float64 // bytes of a block; 0: Pebble's own
}

func (r stretch) blockBytes() float64 {
	if r.block == 0 {
		return pebbleBlock
	}
	return r.block
}

// part is keys of a region: their bytes in data blocks before compression, and in files.
type part struct {
	raw, stored float64
	writes
}

// writes say when keys were written: last with the latest of so many; again, if each of those
// wrote them; or first, and a changed share of them again by the last blocks. A leaf of a trie
// is written with its own key, and pushed down to its place by the first of so many others.
type writes struct {
	latest  float64
	again   bool
	first   bool
	changed float64
	pushed  float64
}

// within is the share of the keys that a level has with the writes between two shares of all,
// counted from the newest. Older versions of keys lie below the newest.
func (w writes) within(above, newest float64) float64 {
	switch {
	case w.first && newest == 1:
		return 1
	case w.again:
		return 1 - math.Pow(1-(newest-above), w.latest)
	}
	return w.by(newest) - w.by(above)
}

// by is the share of the keys that the newest writes, a share of all, wrote.
func (w writes) by(newest float64) float64 {
	switch {
	case newest == 0:
		return 0
	case w.first:
		return w.changed
	case w.pushed > 0:
		return 1 - (1-newest)*(1-math.Pow(newest, w.pushed))
	}

	return 1 - math.Pow(1-newest, w.latest)
}

var once = writes{latest: 1}

// records are a part of so many records, of which a file has a share of the filter and, of
// the index, an entry for each block; compression saves some of them. A block ends before the
// record that it has no room for.
func records(n, bytes, saved float64, w writes) part {
	return part{
		raw:    n * bytes / (1 - bytes/2/pebbleBlock),
		stored: n * (bytes - saved + filterBytes + pebbleIndexEntry*bytes/pebbleBlock),
		writes: w,
	}
}

// within are the bytes of a region's keys in a level.
func (r stretch) within(above, newest float64) (raw, stored float64) {
	for _, p := range r.parts {
		here := p.writes.within(above, newest)
		raw, stored = raw+p.raw*here, stored+p.stored*here
	}
	return raw, stored
}

// block is a block of a file of a level.
type block struct {
	level, file int
	kind        engine.BlockType
	number      int
}

// tablesOf are those of a database of so many keys in these regions. Levels are as large
// as lsm.Settle says; each holds what was written last of what those above it do not, and
// older versions of what they do.
func tablesOf(keys float64, regions ...stretch) *tables {
	var targets [lsm.ModelLevels]int64
	for level := range targets {
		targets[level] = targetBytes(level)
	}

	bytes := storedWithin(regions, 0, 1)
	t := &tables{open: func(*tables) {}, block: regions[0].blockBytes()}
	for range 20 { // older versions make the database larger, and so its levels
		rest := lsm.Settle(uint64(keys), baseBytes, targets, func(int, float64) float64 {
			return bytes / keys
		})
		t.levels = tiers(rest, bytes/keys, regions)
		bytes = 0
		for _, l := range t.levels {
			bytes += l.bytes
		}
	}

	return t
}

// targetBytes is below L0 the same in both sets of options that layouts use.
func targetBytes(level int) int64 { return 2 << 20 << level }

func storedWithin(regions []stretch, above, newest float64) (bytes float64) {
	for _, r := range regions {
		_, stored := r.within(above, newest)
		bytes += stored
	}
	return bytes
}

const baseBytes = 64 << 20 // LBaseMaxBytes

// tiers are the levels that are not empty. When the base level moves up, the targets of all
// files double and a level in between may grow: both take until enough was written to it.
func tiers(rest lsm.LevelShape, bytesPerKey float64, regions []stretch) (levels []tier) {
	above, inflow := 0.0, 0.0
	if rest.Base < lsm.ModelLevels-1 {
		for _, n := range rest.Keys {
			inflow += n * bytesPerKey
		}
		inflow -= lsm.BaseStarts(rest.Base, baseBytes)
	}

	for level, n := range rest.Keys {
		if n < 1 {
			continue
		}

		l := tier{
			target: float64(targetBytes(max(1, 1+level-rest.Base))),
			newest: 1,
			last:   level == lsm.ModelLevels-1,
		}

		if !l.last {
			bytes, before := n*bytesPerKey, 0.0
			switch level {
			case rest.Base:
				// half of the file that left it last is missing: a long one, most likely
				bytes = baseBytes - .75*l.target
			case rest.Base + 1:
				before = baseBytes
				if grown := before + math.Max(0, inflow); grown < bytes {
					bytes, l.churned = grown, before
				}
			}

			low, high := above, 1.0
			for range 50 {
				if l.newest = (low + high) / 2; storedWithin(regions, above, l.newest) > bytes {
					high = l.newest
				} else {
					low = l.newest
				}
			}

			inflow += before - bytes // of the next level
		}

		l.bytes = storedWithin(regions, above, l.newest)
		if l.churned == 0 {
			l.churned = l.bytes
		}

		for n := range agesTo*ageSteps + 1 {
			newest := math.Min(1-1e-9, above+(l.newest-above)*float64(n)/ageSteps)
			l.bytesAt = append(l.bytesAt, storedWithin(regions, above, newest)/l.bytes)
		}

		l.renewed = 1
		if len(levels) > 0 {
			l.renewed = math.Max(0, math.Min(1, inflow/levels[len(levels)-1].bytes))
		}

		from := 0.0
		for _, r := range regions {
			raw, stored := r.within(above, l.newest)
			of := span{from: from, wide: stored / l.bytes, raw: raw / math.Max(1, stored)}
			of.index = of.raw * (pebbleIndexEntry + r.shared) / r.blockBytes()
			l.regions = append(l.regions, of)
			from += of.wide
		}

		above = l.newest
		levels = append(levels, l)
	}

	return levels
}

// before are the bytes in data blocks and in the index of all keys of a level before a place.
func (l *tier) before(place float64) (data, index float64) {
	for _, r := range l.regions {
		bytes := (l.lie.before(math.Max(r.from, math.Min(place, r.from+r.wide))) -
			l.lie.before(r.from)) * l.bytes
		data, index = data+bytes*r.raw, index+bytes*r.index
	}
	return data, index
}

// falsePositive is the share of absent keys that a filter of 10 bits a key lets pass
// (internal/model/predict).
const falsePositive = .011

// absent is a level that no key lies in.
const absent = -1

// levelOf is the level of the key at x, from 0 to 1 of a region, where age is even between 0
// and 1. A level has more of the newest writes where nothing was compacted out of it lately.
func (t *tables) levelOf(region int, x float64, w writes, age float64) int {
	above, here := 0.0, 0.0
	for i := range t.levels {
		l := &t.levels[i]
		here += (l.newest - above) * l.lie.age(l.place(region, x))
		if above = l.newest; l.last || age < w.by(math.Min(1-1e-9, here)) { // only the last has all
			return i
		}
	}

	return len(t.levels) - 1
}

// place is where a key lies in a level if all of it was written evenly.
func (l *tier) place(region int, x float64) float64 {
	r := l.regions[region]
	return math.Min(r.from+x*r.wide, 1-1e-9)
}

// slotWrites are those of slots of the one contract, or of nodes above so many of them: the
// first block wrote them, then none but the updates, which are what was written last. Slots that
// came with the accounts were written as those were.
func (s State) slotWrites(slots float64) writes {
	if s.Grown {
		return writes{latest: slots}
	}

	changed := 1 - math.Pow(1-math.Min(1, s.UpdateKeys/math.Max(1, s.SlotsPer)),
		math.Floor(s.UpdateBlocks/2))
	return writes{first: true, changed: 1 - math.Pow(1-changed, slots)}
}

// get reads the blocks that a Get of the key at x, from 0 to 1 of a region, needs.
func (t *tables) get(random *rand.Rand, region int, x float64, found int) {
	for i := range t.levels {
		l := &t.levels[i]
		place := l.place(region, x)
		file, _ := slices.BinarySearch(l.ends, place)
		start, end := 0.0, 1.0
		if file > 0 {
			start = l.ends[file-1]
		}

		if file < len(l.ends) {
			end = l.ends[file]
		}

		data0, index0 := l.before(start)
		data, index := l.before(place)
		_, indexEnd := l.before(end)
		if !l.last {
			t.read[block{i, file, engine.Filter, 0}] = true
		}

		t.read[block{i, file, engine.TopIndex, 0}] = true // of one level: the index
		if i == found || l.last || random.Float64() < falsePositive {
			if indexEnd-index0 > t.block {
				t.read[block{i, file, engine.Index, int((index - index0) / t.block)}] = true
			}
			t.read[block{i, file, engine.Data, int((data - data0) / t.block)}] = true
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
		t.build(random)
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
	flat := func(n, key, value float64, w writes) []part {
		return []part{records(n, pebbleRecord+key-math.Log(math.Max(1, n))/math.Log(256)+value, 0,
			w)}
	}

	slots := s.contracts() * s.SlotsPer
	t := tablesOf(
		s.Accounts+slots,
		stretch{parts: flat(s.Accounts, accountKey, s.accountValue(), once)},
		stretch{
			parts: flat(slots, slotKey-hashBytes*(1-1/math.Max(1, s.SlotsPer)), slotValue,
				s.slotWrites(1)),
			shared: hashBytes,
		},
	)

	t.open = func(t *tables) { t.get(nil, 1, 0, 0) }
	return t.first(func(random *rand.Rand) { t.getFlat(random, s, kind, 0) })
}

// getFlat gets a record of the flat accounts, in that region, or slots, in the next.
func (t *tables) getFlat(random *rand.Rand, s State, kind Kind, region int) {
	x, age := random.Float64(), random.Float64()
	switch kind {
	case Account:
		t.get(random, region, x, t.levelOf(region, x, once, age))
	case AbsentAccount:
		t.get(random, region, x, absent)
	case Slot:
		t.get(random, region+1, x, t.levelOf(region+1, x, s.slotWrites(1), age))
	case AbsentSlot:
		t.get(random, region+1, x, absent)
	}
}

const filterBytes = 10. / 8
