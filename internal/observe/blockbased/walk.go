package blockbased

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Walker resolves Gets for one goroutine.
type Walker struct {
	r *Resolver

	// Of the moment of the Get:
	levels []level
	memory lookuppath.Memory

	asked   // the Get being resolved
	numbers []uint32
	trusted uint // how often known was believed

	// Of the table being looked into:
	t                     *table
	filtered              bool // its filter, or the top of it, was asked for
	filterPart, partition int  // of the filter and of the index, last read; -1: none
	buffer                buffer
	entryKey              []byte

	takes  func(kind lsmtail.Entry, seqNum uint64) answer // takes an entry of the key
	newest levelEntry
	first  struct { // entry of the key that was met, which is the newest in the tables
		in     *table // nil: none
		seqNum uint64
	}

	// Of the batch being resolved:
	many               []together
	left, some, passed []*together
}

// asked is a Get.
type asked struct {
	key       []byte
	known     bool   // to be in the database
	goneBelow uint64 // entries with lower sequence numbers are deleted by a range deletion
	merging   bool   // a merge operand was seen: older entries belong to it
}

// Walk implements lookuppath.Source.
func (r *Resolver) Walk() lookuppath.PathResolver {
	w := &Walker{r: r, levels: r.levels, memory: r.unflushed}
	if w.takes = w.take; r.reading.Level {
		w.takes = w.takeNewest
	}
	if r.states != nil {
		return lookuppath.AtMoments(w, &w.levels, &w.memory, r.states, r.memory)
	}
	return w
}

// Get implements lookuppath.PathResolver. Every 1024th time a key that is said to be known is
// looked for, so that a caller who does not know is found out.
func (w *Walker) Get(
	key []byte, known bool, dst []uint32,
) (numbers []uint32, found bool, err error) {
	w.asked, w.numbers, w.t = asked{key: key, known: known}, dst[:0], nil
	w.first.in = nil
	if kind, gone := w.memory.Find(key); kind != lsmtail.None || gone {
		if kind != lsmtail.Merge {
			return w.numbers, kind == lsmtail.Set, nil
		}
		w.merging = true
	}

	if w.r.reading.Level {
		return w.getLevel()
	}

	levels, filtersL0 := w.levels, filtersL0(w.levels)
	for i := range levels {
		l := &levels[i]
		if l.number == 0 {
			for at, t := range l.tables {
				if filtersL0 && !t.Holds(key) {
					continue
				}

				if answer, err := w.lookInto(t, i == len(levels)-1,
					at == len(l.tables)-1); err != nil || answer != goOn {
					return w.numbers, answer == isHere, err
				}
			}

			continue
		}

		for at := seek(&l.largest, l.beyond, key); at < len(l.tables) &&
			bytes.Compare(l.tables[at].Smallest, key) <= 0; at++ {
			if answer, err := w.lookInto(l.tables[at], i == len(levels)-1, true); err != nil ||
				answer != goOn {
				return w.numbers, answer == isHere, err
			}

			if !bytes.Equal(l.tables[at].Largest, key) {
				break
			}
		}
	}

	return w.numbers, w.merging, nil
}

// answer is what a table says of a key.
type answer uint8

const (
	goOn   answer = iota // to the next table
	isHere               // found
	isGone               // no older entry counts
)

func (w *Walker) ask(at uint32) { w.numbers = append(w.numbers, w.t.First+at) }

// lookInto walks through a table. last: no table of a lower level follows; lastInLevel: and none
// of the same level.
func (w *Walker) lookInto(t *table, last, lastInLevel bool) (answer, error) {
	if w.goneBelow > 0 {
		return w.end(), nil // what is left is older
	}

	w.enter(t)
	w.cover()
	skipsFilters := w.r.reading.ForHits && last && lastInLevel
	if !skipsFilters && !w.mayContain() {
		return goOn, nil
	}

	w.askRoot()
	block, err := w.firstBlock(t)
	if err != nil || !w.reach(block, skipsFilters) {
		return goOn, err
	}

	w.askData(block)
	return w.searchFrom(block, last && lastInLevel, skipsFilters)
}

func (w *Walker) enter(t *table) {
	w.t, w.filtered, w.filterPart, w.partition = t, false, -1, -1
	w.numbers = w.r.Lookup(t, w.numbers)
}

// cover notes which entries the table's range deletions delete.
func (w *Walker) cover() {
	if seqNum, covered := lookuppath.CoveredBy(w.t.tombstones, w.key); covered {
		w.goneBelow = max(w.goneBelow, seqNum)
	}
}

func (w *Walker) askRoot() {
	if !w.t.pinnedRoot && w.r.reading.MetadataInCache {
		w.ask(rootNumber)
	}
}

// reach goes to a data block by the index, which may tell that no block has the key.
func (w *Walker) reach(block int, skipsFilters bool) bool {
	if block == len(w.t.Data) {
		return false
	}
	w.askPartition(block)
	return w.t.index != firstKeyIndex || skipsFilters ||
		bytes.Compare(w.key, w.t.firstKeys.At(block)) >= 0
}

// searchFrom searches a data block that was asked for, and those behind it as far as they may
// have the key. last: no further table can have it, neither of a lower level nor, in level 0, an
// older one; only then must a key that is in the database be in this table.
func (w *Walker) searchFrom(first int, last, skipsFilters bool) (answer, error) {
	t := w.t
	for block := first; ; {
		if w.known && last && !w.merging && w.goneBelow == 0 && !t.merges && !t.Blobs {
			if w.trusted++; w.trusted%lookuppath.LookEvery != 0 {
				return isHere, nil
			}
		}

		answer, further, err := w.search(block)
		if err != nil || answer != goOn || !further {
			return answer, err
		}

		if block == first {
			w.askPartition(first) // the index may stand where a later Get of the batch wanted it
		}

		block++
		if !w.reach(block, skipsFilters) {
			return goOn, nil
		}

		w.askData(block)
	}
}

// end is the answer where no older entry counts.
func (w *Walker) end() answer {
	if w.merging {
		return isHere
	}
	return isGone
}

// mayContain asks the filter.
func (w *Walker) mayContain() bool {
	f, key := &w.t.filters, w.key
	if f.at.Bytes == 0 {
		return true
	}

	if !f.wholeKeys {
		// Only filters of prefixes are left, and only where the same prefixes are asked for.
		if !f.prefixes || !w.t.samePrefixes {
			return true
		}

		var is bool
		if key, is = w.r.reading.prefix(key); !is {
			return true
		}
	}

	if !w.filtered && !w.t.pinnedFilter && w.r.reading.MetadataInCache {
		w.ask(filterNumber)
	}

	w.filtered = true
	if !f.parted {
		return f.whole.mayContain(key)
	}

	if len(f.parts) == 0 {
		return true
	}

	at := min(seek(&f.separators, f.beyond, w.key), len(f.parts)-1)
	if f.partitions[at].Bytes == 0 {
		return false
	}

	if at != w.filterPart && !w.t.pinnedPartitions {
		w.ask(w.t.firstFilter + uint32(at))
	}

	w.filterPart = at
	return f.parts[at].mayContain(key)
}

func (w *Walker) askPartition(block int) {
	t := w.t
	if len(t.Partitions) == 0 {
		return
	}

	if p := t.PartitionOf(block); p != w.partition {
		w.partition = p
		if !t.pinnedPartitions {
			w.ask(fixedNumbers + uint32(p))
		}
	}
}

func (w *Walker) askData(block int) {
	if w.t.dictionaryAt.Bytes > 0 && w.r.reading.MetadataInCache && !w.t.pinnedDictionary {
		w.ask(dictionaryNumber)
	}
	w.ask(w.t.FirstData + uint32(block))
}

// search looks for the key in a data block. further: the entries end before one that is above the
// key, so the next block is asked, too.
func (w *Walker) search(block int) (a answer, further bool, err error) {
	at := w.t.Data[block]
	content, err := w.t.decode(at, &w.buffer)
	if err != nil {
		return isGone, false, err
	}

	entries, err := newRows(content, false, w.entryKey)
	if err != nil {
		return isGone, false, w.t.Damaged(at, err.Error())
	}

	defer func() { w.entryKey = entries.key }()
	limit := len(entries.entries)
	if restart, is, err := w.hashed(content); err != nil {
		return isGone, false, w.t.Damaged(at, err.Error())
	} else if is {
		entries.at, limit = restart.from, restart.to
	} else if entries.at, err = restartBefore(content, w.key); err != nil {
		return isGone, false, w.t.Damaged(at, err.Error())
	}

	for entries.at < limit && entries.next() {
		if len(entries.key) < 8 {
			return isGone, false, w.t.Damaged(at, "damaged key")
		}

		user := entries.key[:len(entries.key)-8]
		switch order := bytes.Compare(user, w.key); {
		case order < 0:
			continue
		case order > 0:
			return goOn, false, nil
		}

		limit = len(entries.entries) // versions of the key may go on behind a restart point
		trailer := le64(entries.key[len(user):])
		kind := kindOf(byte(trailer))
		if kind == lsmtail.None {
			return isGone, false, w.t.Damaged(at, fmt.Sprintf("it holds an entry of kind %d, "+
				"which is not supported", byte(trailer)))
		}

		if a := w.takes(kind, trailer>>8); a != goOn {
			if a == isHere && byte(trailer) == kindBlob {
				err = w.askValue(entries.value)
			}
			return a, false, err
		}
	}

	if entries.err != nil {
		return isGone, false, w.t.Damaged(at, entries.err.Error())
	}

	return goOn, entries.at >= len(entries.entries), nil
}

// askValue asks for a value in a blob file, by what stands for it in the table: a kind, perhaps
// when it expires, a file, and where in it.
func (w *Walker) askValue(stored []byte) error {
	const inTable, elsewhere, elsewhereForATime = 0, 1, 2
	f := &lsmtail.Fields{Rest: stored[min(1, len(stored)):]}
	switch {
	case len(stored) == 0 || stored[0] > elsewhereForATime:
		return errors.New("damaged value in a blob file")
	case stored[0] == inTable:
		return nil
	case stored[0] == elsewhereForATime:
		f.Number()
	}

	file := f.Number()
	at, is := slices.BinarySearchFunc(w.r.blobs, file, func(b lsmtail.BlobFile, number uint64) int {
		return cmp.Compare(b.Number, number)
	})
	if !is {
		return fmt.Errorf("table %06d: a value is in the blob file %d, which the manifest does "+
			"not have", w.t.File, file)
	}

	w.numbers = append(w.numbers, w.r.firstBlob+uint32(at))
	return nil
}

// take takes an entry of the key, the newest first.
func (w *Walker) take(kind lsmtail.Entry, seqNum uint64) answer {
	if w.first.in == nil {
		w.first.in, w.first.seqNum = w.t, seqNum
	}

	switch {
	case seqNum < w.goneBelow, kind == lsmtail.Delete:
		return w.end()
	case kind == lsmtail.Set:
		return isHere
	}
	w.merging = true
	return goOn
}

// Kinds of entries, as tables and logs have them.
const (
	kindDelete         = 0
	kindValue          = 1
	kindMerge          = 2
	kindSingleDelete   = 7
	kindRangeDelete    = 15
	kindBlob           = 17
	kindDeleteWithTime = 20
	kindEntity         = 22
	kindPreferred      = 24
)

// kindOf is follow.None for a kind that is not known.
func kindOf(kind byte) lsmtail.Entry {
	switch kind {
	case kindValue, kindBlob, kindEntity, kindPreferred:
		return lsmtail.Set
	case kindDelete, kindSingleDelete, kindDeleteWithTime:
		return lsmtail.Delete
	case kindMerge:
		return lsmtail.Merge
	}

	return lsmtail.None
}

// stretch is a part of the entries of a block.
type stretch struct{ from, to int }

// hashed is the stretch that the hash index of a data block names for the key; not is where there
// is no such index, or keys collide in it. Where it names none, the last one is searched.
func (w *Walker) hashed(content []byte) (s stretch, is bool, err error) {
	restarts, hashed, err := footerOf(content)
	if err != nil || !hashed || restarts == 0 {
		return s, false, err
	}

	buckets, err := hashBuckets(content)
	if err != nil {
		return s, false, err
	}

	const collision, nothing = 254, 255
	entry := int(buckets[hashOld(w.key, 397, true)%uint32(len(buckets))])
	switch {
	case entry == collision:
		return s, false, nil
	case entry == nothing:
		entry = restarts - 1
	}

	points := content[len(content)-6-len(buckets)-4*restarts:]
	if entry >= restarts {
		return s, false, nil
	}

	s = stretch{int(le32(points[4*entry:])), len(content) - 6 - len(buckets) - 4*restarts}
	if entry+1 < restarts {
		s.to = int(le32(points[4*(entry+1):]))
	}

	return s, true, nil
}

// restartBefore is where the last restart point stands whose key is below key.
func restartBefore(content []byte, key []byte) (int, error) {
	restarts, hashed, err := footerOf(content)
	if err != nil {
		return 0, err
	}

	end := len(content) - 4
	if hashed {
		buckets, err := hashBuckets(content)
		if err != nil {
			return 0, err
		}
		end -= len(buckets) + 2
	}

	points := content[end-4*restarts : end]
	low, high := 0, restarts
	for low < high {
		mid := int(uint(low+high) / 2)
		entry := rows{entries: content[:end-4*restarts], at: int(le32(points[4*mid:]))}
		// A restart point's key is whole, so it can be looked at where it is.
		user, err := entry.wholeKey()
		if err != nil {
			return 0, err
		}

		if bytes.Compare(user, key) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}

	if low == 0 {
		return 0, nil
	}

	return int(le32(points[4*(low-1):])), nil
}

// Describe implements lookuppath.Described. It tells all of a block that does not need its content.
func (t *table) Describe(number uint32) (b cachesim.Block, h handle) {
	b = cachesim.Block{File: t.File, Level: uint8(min(t.Level, engine.LevelUnknown))}
	switch at := number - t.First; {
	case at == rootNumber:
		b.Type, h = engine.SingleIndex, t.Root
		if len(t.Partitions) > 0 {
			b.Type = engine.TopIndex
		}
		b.Marks = marked(t.pinnedRoot, cachesim.Pinned)
	case at == filterNumber:
		b.Type, h = engine.Filter, t.filters.at
		b.Marks = marked(t.pinnedFilter, cachesim.Pinned) |
			marked(!t.filters.parted, cachesim.ParsedFilter)
	case at == dictionaryNumber:
		b.Type, h = engine.Meta, t.dictionaryAt
		b.Marks = marked(t.pinnedDictionary, cachesim.Pinned)
	case at < t.firstFilter:
		b.Type, h = engine.Index, t.Partitions[at-fixedNumbers]
		b.Marks = marked(t.pinnedPartitions, cachesim.Pinned)
	case at < t.FirstData:
		b.Type, h = engine.Filter, t.filters.partitions[at-t.firstFilter]
		b.Marks = marked(t.pinnedPartitions, cachesim.Pinned) | cachesim.ParsedFilter
	default:
		b.Type, h = engine.Data, t.Data[at-t.FirstData]
		b.Marks = marked(t.uncached(b.Type), cachesim.Uncached)
		return b, h
	}

	b.Marks |= marked(t.highPriority, cachesim.HighPriority)
	if b.Marks&cachesim.Pinned == 0 {
		b.Marks |= marked(t.uncached(b.Type), cachesim.Uncached)
	}
	return b, h
}

// uncached reports whether blocks of a type never enter the cache: there is none, or the table is
// mapped and they are not compressed, so that they would be copies.
func (t *table) uncached(kind engine.BlockType) bool {
	if t.reading == nil { // it is only described, as a file
		return false
	}
	plain := kind == engine.Filter || t.properties["rocksdb.compression"] == "NoCompression"
	return t.reading.NoCache || t.reading.Mapped && plain
}

func marked(is bool, as cachesim.Marks) cachesim.Marks {
	if is {
		return as
	}
	return 0
}
