package statemodel

import (
	"math"
	"math/rand/v2"
	"slices"
)

// profile is how a level lies over its keys: places from 0 to 1 in the order of keys, as far
// apart as keys are wide if all of them were written evenly; between two of them, how long ago all
// was compacted out of the level there, as a multiple of the mean; and the share of the level's
// bytes before each place.
type profile struct{ places, ages, shares []float64 }

var even = profile{places: []float64{0, 1}, ages: []float64{1}, shares: []float64{0, 1}}

func (p profile) before(place float64) float64 { return interpolate(p.places, p.shares, place) }
func (p profile) at(share float64) float64     { return interpolate(p.shares, p.places, share) }

// beforeAll are the shares before ascending places.
func (p profile) beforeAll(places []float64) []float64 {
	shares, i := make([]float64, len(places)), 0
	for n, place := range places {
		for i < len(p.places)-2 && p.places[i+1] <= place {
			i++
		}
		shares[n] = between(p.places, p.shares, i, place)
	}
	return shares
}

func (p profile) age(place float64) float64 { return p.ages[step(p.places, place)] }

// step is the last of the ascending xs, but one, that x is not below.
func step(xs []float64, x float64) int {
	i, _ := slices.BinarySearch(xs, math.Nextafter(x, math.Inf(1)))
	return min(max(i-1, 0), len(xs)-2)
}

func interpolate(xs, ys []float64, x float64) float64 {
	return between(xs, ys, step(xs, x), x)
}

// between is the y of an x from the i-th of xs to the next.
func between(xs, ys []float64, i int, x float64) float64 {
	if xs[i+1] == xs[i] {
		return ys[i]
	}
	return ys[i] + (ys[i+1]-ys[i])*(x-xs[i])/(xs[i+1]-xs[i])
}

// without is the profile after all from one place to another was compacted out of it. Its
// shares are to be made.
func (p profile) without(from, to float64) (after profile) {
	after.places = make([]float64, 0, len(p.places)+2)
	after.ages = make([]float64, 0, len(p.ages)+2)
	add := func(place, age float64) {
		if n := len(after.places); n == 0 || place > after.places[n-1] {
			after.places, after.ages = append(after.places, place), append(after.ages, age)
		}
	}

	for i, age := range p.ages {
		start, end := p.places[i], p.places[i+1]
		if start < from {
			add(start, age)
		}

		if start < to && end > from {
			add(max(start, from), 0)
		}

		if end > to {
			add(max(start, to), age)
		}
	}

	after.places = append(after.places, 1)
	return after
}

// agesTo and its steps are of tier.bytesAt.
const (
	agesTo   = 6
	ageSteps = 8
)

// bytesOf are the bytes of a place of an age, as a multiple of those of the mean age: in
// proportion to the age, unless the same keys are written again and again.
func (l *tier) bytesOf(age float64) float64 {
	at := min(age, agesTo) * ageSteps
	i := min(int(at), agesTo*ageSteps-1)
	return l.bytesAt[i] + (l.bytesAt[i+1]-l.bytesAt[i])*(at-float64(i))
}

// fill lets all ages grow until the level has so many bytes, as a multiple of its own.
func (l *tier) fill(p profile, full float64) profile {
	const little = 1e-3
	for range 4 { // Newton's steps
		bytes, more := 0.0, 0.0
		for i, age := range p.ages {
			wide := p.places[i+1] - p.places[i]
			bytes += wide * l.bytesOf(age)
			more += wide * l.bytesOf(age+little)
		}

		if more <= bytes {
			break
		}

		by := (full - bytes) * little / (more - bytes)
		for i := range p.ages {
			p.ages[i] = max(0, p.ages[i]+by)
		}
	}

	p.shares = append(p.shares[:0], 0)
	for i, age := range p.ages {
		p.shares = append(p.shares, p.shares[i]+(p.places[i+1]-p.places[i])*l.bytesOf(age))
	}

	for i, all := 0, p.shares[len(p.shares)-1]; i < len(p.shares); i++ {
		p.shares[i] /= all
	}

	return p
}

// build draws the files of a database.
func (t *tables) build(random *rand.Rand) {
	for i := range slices.Backward(t.levels) {
		l := &t.levels[i]
		l.lie = even
		if l.last {
			l.cutLast(random, i == 0)
		} else {
			t.churn(random, i)
		}
	}
}

// cutLast draws where the files of the last level end: a compaction into it ends files at their
// target, and one wherever its keys end. Files of the only level are as long as their target;
// where keys begin is not known as well.
func (l *tier) cutLast(random *rand.Rand, only bool) {
	l.ends = l.ends[:0]
	scale := 1.0
	if only {
		scale = .75 + random.Float64()/2
	}

	for at := 0.0; at < 1; {
		target := l.drawTarget(random) * scale
		at += target
		l.ends = append(l.ends, math.Min(at, 1))
		if !only {
			at += random.Float64() * target
			l.ends = append(l.ends, math.Min(at, 1))
		}
	}
}

// drawTarget is a file's target, as a share of the level.
func (l *tier) drawTarget(random *rand.Rand) float64 {
	if random.Float64() < l.renewed {
		return l.target / l.bytes
	}
	return l.target / 2 / l.bytes
}

// manyFiles are so many that two Gets of a lookup seldom read the same one.
const manyFiles = 200

// churn draws a level that is not the last. What is written comes evenly. Whenever the level is
// full, a file of it is compacted into the level below: the one with the most bytes for each file
// that it overlaps there. There is little then where that file was, so files there are wide; the
// files that it overlapped below are written anew.
func (t *tables) churn(random *rand.Rand, i int) {
	l, below := &t.levels[i], &t.levels[i+1]
	ends := t.endsBelow(i)
	l.ends = l.split(random, 0, 1, ends)
	if len(l.ends) == 1 || len(l.ends) > manyFiles {
		return
	}

	belowThat := t.endsBelow(i + 1)
	for range 3 * len(l.ends) {
		from, to := l.heaviest(ends)
		l.lie = l.fill(l.lie.without(from, to), l.churned/l.bytes)
		first, last := overlap(below.ends, l.placeIn(below, from), l.placeIn(below, to))
		start, end := 0.0, below.ends[last]
		if first > 0 {
			start = below.ends[first-1]
		}

		written := below.split(random, start, end, belowThat)
		below.ends = slices.Replace(below.ends, first, last+1, written...)
		ends = slices.Replace(ends, first, last+1, below.placesIn(l, written)...)
		l.ends = l.split(random, 0, 1, ends)
	}

	if l.churned < l.bytes {
		l.lie = l.fill(l.lie, 1)
		l.ends = l.split(random, 0, 1, ends)
	}
}

// placeIn is where a place of a level is in another.
func (l *tier) placeIn(other *tier, place float64) float64 {
	for region, r := range l.regions {
		if in := place - r.from; in < r.wide {
			to := other.regions[region]
			return to.from + in/r.wide*to.wide
		}
	}
	return 1
}

// endsBelow are the ends of the files of the level below in the places of this one.
func (t *tables) endsBelow(i int) []float64 {
	if i+1 == len(t.levels) {
		return nil
	}
	return t.levels[i+1].placesIn(&t.levels[i], t.levels[i+1].ends)
}

// placesIn are where places of a level are in another.
func (l *tier) placesIn(other *tier, places []float64) []float64 {
	in := make([]float64, len(places))
	for i, place := range places {
		in[i] = l.placeIn(other, place)
	}
	return in
}

// sameEnd is how far apart two places may be that are one: those that were carried from one level
// to another are as exact as that.
const sameEnd = 1e-9

// overlap are the first and the last of the files with these ends that overlap a range.
func overlap(ends []float64, from, to float64) (first, last int) {
	first, _ = slices.BinarySearch(ends, from+sameEnd)
	last, _ = slices.BinarySearch(ends, to-sameEnd)
	last = min(last, len(ends)-1)
	return min(first, last), last
}

// heaviest is the file with the most bytes for each file below that it overlaps.
func (l *tier) heaviest(below []float64) (from, to float64) {
	start, startShare, maximum := 0.0, l.lie.before(0), -1.0
	shares := l.lie.beforeAll(l.ends)
	first, last := 0, 0
	for i, end := range l.ends {
		// both ends of what a file overlaps move on with the file, as overlap finds them
		for first < len(below) && below[first] < start+sameEnd {
			first++
		}

		for last < len(below) && below[last] < end-sameEnd {
			last++
		}

		overlapped := min(last, len(below)-1)
		overlapped -= min(first, overlapped)
		if weight := (shares[i] - startShare) / float64(1+overlapped); weight > maximum {
			from, to, maximum = start, end, weight
		}

		start, startShare = end, shares[i]
	}

	return from, to
}

// split is where files end that a compaction writes from one place to another: at an end below
// them, from half the target on and more with each end that they pass, or at twice the target; at
// the target if no end follows (OutputSplitter of Pebble v2.1.7).
func (l *tier) split(random *rand.Rand, first, last float64, below []float64) (ends []float64) {
	from, passed, target, stop := l.lie.before(first), 0.0, l.drawTarget(random), l.lie.before(last)
	cut := func(at, place float64) {
		from, passed, target = at, 0, l.drawTarget(random)
		ends = append(ends, place)
	}

	start, _ := slices.BinarySearch(below, math.Nextafter(first+sameEnd, math.Inf(1)))
	stops, _ := slices.BinarySearch(below, last-sameEnd)
	below = below[start:max(start, stops)]
	before := l.lie.beforeAll(below)
	for i, end := range below {
		at := before[i]
		for at-from > 2*target {
			cut(from+2*target, l.lie.at(from+2*target))
		}

		if passed++; at-from > target*(.5+.05*min(passed-1, 8)) {
			cut(at, end)
		}
	}

	for stop-from > target*(1+1e-6) {
		cut(from+target, l.lie.at(from+target))
	}

	return append(ends, last)
}

// record is a key of a flat table: a letter and hashes.
const (
	accountKey = 1 + hashBytes
	slotKey    = 1 + 2*hashBytes
)

// accountValue is the nonce, the balance behind its length, and the code's hash of a
// contract.
func (s State) accountValue() float64 {
	return nonceBytes + 1 + balanceBytes + hashBytes*s.ContractShare
}

// Pages of libmdbx: a header, and of each record a 2-byte pointer and a node header.
const (
	mdbxPageBytes = pageBytes - 20
	mdbxRecord    = 2 + 8
)

// filled is the share of a B-tree's pages that random inserts fill (A. Yao, On random
// 2-3 trees, Acta Informatica 9, 1978).
const filled = math.Ln2

// FlatMDBX are the pages of one B-tree in the page cache: accounts and slots lie in
// different leaves, and a level of branch pages is above each until one is left.
func FlatMDBX(s State, pageCacheBytes float64) []Memory {
	room := mdbxPageBytes * filled
	var classes []Class
	add := func(records, key, value float64, visits [kinds]float64) {
		for units := records * (mdbxRecord + key +
			value) / room; ; units *= (mdbxRecord + key) / room {
			classes = append(classes, Class{
				Units:     max(1, units),
				UnitBytes: pageBytes,
				Visits:    visits,
			})

			if units <= 1 {
				return
			}
		}
	}

	add(s.Accounts, accountKey, s.accountValue(), [kinds]float64{1, 1, 0, 0})
	add(s.contracts()*s.SlotsPer, slotKey, slotValue, [kinds]float64{0, 0, 1, 1})
	return []Memory{{Bytes: pageCacheBytes, Classes: classes}}
}

// Blocks of Pebble: what a record takes beyond key and value (three lengths and the
// trailer), of an index entry (a separator of a few bytes, trailer, handle, restart),
// and of the cache for each block, in v2.
const (
	pebbleBlock      = 4096
	pebbleRecord     = 3 + 8
	pebbleIndexEntry = 3 + 5 + 8 + 6 + 4
	pebbleV2Charge   = 336
)

// FlatPebble are the data and index blocks in Pebble's cache, and below it the pages
// of the blocks in the file, where they are as long: hashes do not compress. A key
// shares with the one before it what N keys have in common, log256 N bytes.
//
// One level is taken for all: nine tenths of the keys are in the last. It is the model of
// caches that are warm; FirstFlatPebble has the levels.
func FlatPebble(s State, cacheBytes float64, shards int, pageCacheBytes float64) []Memory {
	cache := Memory{Bytes: cacheBytes, Policy: ClockPro, Shards: shards}
	add := func(records, key, value float64, visits [kinds]float64) {
		if records < 1 {
			return
		}

		key -= math.Log(records) / math.Log(256)
		blocks := math.Max(1, records*(pebbleRecord+key+value)/pebbleBlock)
		cache.Classes = append(cache.Classes,
			Class{Units: blocks, UnitBytes: pebbleBlock + pebbleV2Charge, Visits: visits},
			Class{
				Units:     math.Max(1, blocks*pebbleIndexEntry/pebbleBlock),
				UnitBytes: pebbleBlock + pebbleV2Charge,
				Visits:    visits,
			})
	}

	add(s.Accounts, accountKey, s.accountValue(), [kinds]float64{1, 1, 0, 0})
	add(s.contracts()*s.SlotsPer, slotKey-hashBytes*(1-1/s.SlotsPer), slotValue, [kinds]float64{0,
		0, 1, 1})
	return []Memory{cache, filePages(cache.Classes, pebbleBlock, pageCacheBytes)}
}

// filePages are the pages that blocks lie on in their file, asked for by the misses of
// a block cache.
func filePages(blocks []Class, fileBytes, pageCacheBytes float64) Memory {
	file := Memory{Bytes: pageCacheBytes, Classes: quiet(passing(blocks))}
	for i := range file.Classes {
		file.Classes[i].UnitBytes, file.Classes[i].EndToEnd = fileBytes, true
	}
	return file
}
