package resolve

import (
	"bytes"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Walker resolves Gets for one goroutine.
type Walker struct {
	r      *Resolver
	policy bloom.FilterPolicy
	levels []level           // in the order a Get looks
	memory lookuppath.Memory // what no table holds yet; nil: nothing

	// Of the Get being resolved:
	key     []byte
	known   bool // to be in the database
	numbers []uint32
	trusted uint // how often known was believed
	deleted bool // a deletion was seen: what lies below is only looked at
	// a merge operand was seen: older ones belong to it, up to an entry of another kind
	merging bool

	// Of the level being looked into:
	level     *level
	tableAt   int
	block     int // of the table, being searched
	partition int // of the index, last read; -1: none
	data      dataBlock
}

// Walker returns a walker for one goroutine.
func (r *Resolver) Walker() *Walker {
	w := &Walker{r: r, policy: filterPolicy(), levels: r.levels}
	if r.unflushed != nil && r.inLog > 0 {
		w.memory = r.unflushed
	}
	return w
}

// Get appends the numbers of the blocks that a Get of key asks for to dst[:0],
// in order, and reports whether it finds the key. known says that the caller
// knows the key to be in the database: then the last level is believed to hold
// it, mostly without a look into the data, which is most of the time. Every
// 1024th time it is looked, so that a caller who does not know is found out.
func (w *Walker) Get(
	key []byte, known bool, dst []uint32,
) (numbers []uint32, found bool, err error) {
	w.key, w.known, w.numbers, w.deleted, w.merging = key, known, dst[:0], false, false
	if w.memory != nil {
		kind, gone := w.memory.Find(key)
		if kind == lsmtail.Set || gone {
			return w.numbers, kind == lsmtail.Set || kind == lsmtail.Merge, nil
		}
		w.deleted, w.merging = kind == lsmtail.Delete, kind == lsmtail.Merge
	}

	for i := range w.levels {
		w.level = &w.levels[i]
		at, look := w.level.find(key, w.r.version)
		if !look {
			continue
		}

		w.tableAt = at
		answer, err := w.lookInto(i == len(w.levels)-1)
		if err == nil && answer == isHere && w.r.iterates {
			found, w.known = true, false
			continue
		}

		if err != nil || answer != goOn {
			return w.numbers, answer == isHere || w.merging, err
		}
	}

	return w.numbers, found || w.merging, nil
}

// answer is what a level says of a key.
type answer uint8

const (
	goOn   answer = iota // to the next level
	isHere               // found
	isGone               // no older entry counts
)

// lookInto walks through the level's table, and in v1 sometimes into the next.
// A Get takes the newest entry of its key; behind a deletion it steps through
// all older ones, level by level, before it gives up.
func (w *Walker) lookInto(last bool) (answer, error) {
	goneBelow, gone := w.enter()
	e, certain, err := w.seek(last)
	if err != nil || certain {
		return isHere, err
	}

	if e.end && w.r.version == cachesim.PebbleV1 && w.table().rangeDelAt.Bytes == 0 &&
		bytes.Equal(w.key, w.table().points.Largest) {
		// The table was searched to its end without its own largest key.
		if err := w.enterNext(&goneBelow, &gone); err != nil {
			return isGone, err
		}
	}

	for e.kind != lsmtail.None {
		if gone && e.seqNum < goneBelow {
			return isGone, nil
		}

		switch {
		case w.deleted:
		case e.kind == lsmtail.Set, w.merging && e.kind == lsmtail.Delete:
			return isHere, nil
		default:
			w.deleted, w.merging = e.kind == lsmtail.Delete, e.kind == lsmtail.Merge
		}

		if e, err = w.next(); err != nil {
			return isGone, err
		}

		if e.end && w.r.version == cachesim.PebbleV1 {
			if err := w.enterNext(&goneBelow, &gone); err != nil {
				return isGone, err
			}
		}
	}

	if gone {
		return isGone, nil
	}

	return goOn, nil
}

func (w *Walker) table() *table { return w.level.tables[w.tableAt] }

func (w *Walker) ask(t *table, at uint32) { w.numbers = append(w.numbers, t.First+at) }

// enter reads what opening an iterator on the table reads: its range deletions,
// and its root index even if the filter is going to say no.
func (w *Walker) enter() (goneBelow uint64, gone bool) {
	t := w.table()
	w.partition, w.numbers = -1, w.r.Lookup(t, w.numbers)
	if t.rangeDelAt.Bytes > 0 {
		w.ask(t, rangeDelNumber)
		goneBelow, gone = lookuppath.CoveredBy(t.tombstones, w.key)
	}

	if !t.allObsolete {
		w.ask(t, rootNumber)
	}

	return goneBelow, gone
}

// seek searches the table for the key. certain: the key is there, and nobody
// has to look.
func (w *Walker) seek(last bool) (e entry, certain bool, err error) {
	t := w.table()
	if t.allObsolete {
		return entry{end: true}, false, nil
	}

	// there, a Get never asks for it
	if t.filter != nil && (w.r.iterates || w.level.number != lastLevel) {
		w.ask(t, filterNumber)
		if !w.policy.MayContain(pebble2.TableFilter, t.filter, w.key) {
			return entry{end: true}, false, nil
		}
	}

	wanted := t.Separators.Seek(w.key)
	if !w.advance(wanted) {
		return entry{end: true}, false, nil
	}

	if w.known && last && !w.deleted && !w.merging && !t.merges && t.excluded == nil &&
		t.rangeDelAt.Bytes == 0 {
		if w.trusted++; w.trusted%lookuppath.LookEvery != 0 {
			return entry{}, true, nil
		}
	}

	if err := w.data.load(t, w.block, w.key); err != nil {
		return entry{}, false, err
	}

	if w.block != wanted {
		return w.first()
	}

	if e = w.data.seek(); !e.end {
		return e, false, nil
	}

	if t.excluded == nil {
		// The separator above the key was above the block's last key, too. The
		// next block begins beyond the separator, so with another key.
		return entry{end: !w.advance(w.block + 1)}, false, nil
	}

	return w.following()
}

// next goes to the entry behind the one found.
func (w *Walker) next() (entry, error) {
	if e := w.data.next(); !e.end {
		return e, nil
	}
	e, _, err := w.following()
	return e, err
}

// following goes to the first entry of the next block.
func (w *Walker) following() (e entry, certain bool, err error) {
	if !w.advance(w.block + 1) {
		return entry{end: true}, false, nil
	}
	if err := w.data.load(w.table(), w.block, w.key); err != nil {
		return entry{}, false, err
	}
	return w.first()
}

// first goes to the first entry of the loaded block, or the first behind it.
func (w *Walker) first() (e entry, certain bool, err error) {
	if e = w.data.first(); !e.end {
		return e, false, nil
	}
	return w.following()
}

// advance reads the first data block from on that a Get does not step over, and
// the index partitions on the way there. It reports false at the table's end.
func (w *Walker) advance(from int) bool {
	t := w.table()
	for i := from; i < len(t.Data); i++ {
		if t.twoLevels() {
			if p := t.PartitionOf(i); p != w.partition {
				if t.partitionExcluded(p) {
					i = int(t.PartitionEnds[p]) - 1
					continue
				}

				w.partition = p
				w.ask(t, fixedNumbers+uint32(p))
			}
		}

		if t.excluded != nil && t.excluded[i] {
			continue
		}

		w.block = i
		w.ask(t, t.FirstData+uint32(i))
		return true
	}

	return false
}

// enterNext is what v1 does where a table ends before an entry above the key:
// it opens the next ones and reads their first entries, until one has a visible
// entry or range deletions that the level must not leave behind.
func (w *Walker) enterNext(goneBelow *uint64, gone *bool) error {
	for !w.table().points.Exclusive && w.tableAt+1 < len(w.level.tables) {
		w.tableAt++
		t := w.table()
		if below, is := w.enter(); t.rangeDelAt.Bytes > 0 {
			*goneBelow, *gone = below, is
		}

		if !t.allObsolete && w.advance(0) {
			if err := w.data.load(t, w.block, w.key); err != nil {
				return err
			}

			if e, _, err := w.first(); err != nil || !e.end {
				return err
			}
		}

		if t.rangeDelAt.Bytes > 0 && (t.allObsolete || t.excluded != nil) {
			return nil
		}
	}

	return nil
}
