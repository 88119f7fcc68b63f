package blockbased

import (
	"bytes"
	"slices"

	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// maxTogether is how many Gets of a batch RocksDB makes together (MultiGetContext::MAX_BATCH_SIZE).
const maxTogether = 32

// together is a Get of a batch.
type together struct {
	asked
	at     int // in the batch
	block  int // where the search in a table begins; -1: the table does not have the key
	answer answer
}

// InBatches says that Gets are made in batches of so many, first those of the warm-up, and that
// some of them were made before.
func (r *Resolver) InBatches(gets, warmup, before uint64) {
	if r.reading.Level {
		return // goleveldb makes them one by one
	}

	r.endsBatch = func(made uint64) bool {
		made += before
		if made > warmup {
			made -= warmup
		}
		return made == warmup || made%gets == 0
	}
}

// EndsBatch implements lookuppath.Batcher.
func (r *Resolver) EndsBatch() func(made uint64) bool { return r.endsBatch }

// GetMany implements lookuppath.BatchPathResolver as RocksDB's MultiGet: in the order of the keys,
// some at a time, table by table. (Source: Version::MultiGet, FilePickerMultiGet and
// BlockBasedTable::MultiGet.)
func (w *Walker) GetMany(keys [][]byte, known, found []bool, numbers []uint32) ([]uint32, error) {
	w.numbers, w.many = numbers, w.many[:0]
	for i, key := range keys {
		w.many = append(w.many, together{asked: asked{key: key, known: known[i]}, at: i})
	}

	slices.SortStableFunc(w.many, func(a, b together) int { return bytes.Compare(a.key, b.key) })
	for some := range slices.Chunk(w.many, maxTogether) {
		if err := w.getTogether(some); err != nil {
			return w.numbers, err
		}

		for _, g := range some {
			found[g.at] = g.answer == isHere || g.answer == goOn && g.merging
		}
	}

	return w.numbers, nil
}

func (w *Walker) getTogether(gets []together) error {
	left := w.left[:0]
	for i := range gets {
		g := &gets[i]
		switch kind, gone := w.memory.Find(g.key); {
		case kind == lsmtail.Merge:
			g.merging = true
		case kind == lsmtail.Set:
			g.answer = isHere
		case kind != lsmtail.None || gone:
			g.answer = isGone
		}

		left = append(left, g)
	}

	w.left = left
	filtersL0 := filtersL0(w.levels)
	for i := range w.levels {
		left = slices.DeleteFunc(left, func(g *together) bool { return g.answer != goOn })
		l, last := &w.levels[i], i == len(w.levels)-1
		if l.number > 0 {
			if err := w.lookIntoLevelTogether(l, left, last); err != nil {
				return err
			}
			continue
		}

		for at, t := range l.tables {
			w.some = w.some[:0]
			for _, g := range left {
				if g.answer == goOn && (!filtersL0 || t.Holds(g.key)) {
					w.some = append(w.some, g)
				}
			}

			if err := w.lookIntoTogether(t, w.some, last, at == len(l.tables)-1); err != nil {
				return err
			}
		}
	}

	return nil
}

// lookIntoLevelTogether walks through the tables of a level that may have one of the keys.
func (w *Walker) lookIntoLevelTogether(l *level, gets []*together, last bool) error {
	at := -1 // the table to begin with; -1: the one that a search finds
	for from := 0; from < len(gets); {
		if at < 0 {
			at = seek(&l.largest, l.beyond, gets[from].key)
		}

		if at == len(l.tables) || bytes.Compare(gets[from].key, l.tables[at].Smallest) < 0 {
			from, at = from+1, -1
			continue
		}

		t, to := l.tables[at], from+1
		for to < len(gets) && bytes.Compare(gets[to].key, t.Largest) <= 0 &&
			seek(&l.largest, l.beyond, gets[to].key) == at {
			to++
		}

		if err := w.lookIntoTogether(t, gets[from:to], last, true); err != nil {
			return err
		}

		from = to
		if g := gets[to-1]; g.answer == goOn && bytes.Equal(g.key, t.Largest) {
			from, at = to-1, at+1 // older entries of the key may be in the next table
		} else {
			at = -1
		}
	}

	return nil
}

// lookIntoTogether is lookInto for some Gets: filters of all of them, then the index and the data
// blocks, each once where neighbours share it, and then the search, which may go on to a further
// block.
func (w *Walker) lookIntoTogether(t *table, gets []*together, last, lastInLevel bool) (err error) {
	if len(gets) == 0 {
		return nil
	}

	w.enter(t)
	skipsFilters := w.r.reading.ForHits && last && lastInLevel
	passed := w.passed[:0]
	for _, g := range gets {
		if w.asked = g.asked; w.goneBelow > 0 {
			g.answer = w.end()
			continue
		}

		w.cover()
		if skipsFilters || w.mayContain() {
			passed = append(passed, g)
		}

		g.asked = w.asked
	}

	if w.passed = passed; len(passed) > 0 {
		w.askRoot()
	}

	previous := -1
	for _, g := range passed {
		w.asked = g.asked
		if g.block, err = w.firstBlock(t); err != nil {
			return err
		}

		if !w.reach(g.block, skipsFilters) {
			g.block = -1
			continue
		}

		if previous < 0 {
			w.askData(g.block)
		} else if g.block != previous {
			w.ask(t.FirstData + uint32(g.block)) // the dictionary is at hand
		}

		previous = g.block
	}

	for _, g := range passed {
		if g.block < 0 {
			continue
		}

		w.asked = g.asked
		if g.answer, err = w.searchFrom(g.block, last && lastInLevel, skipsFilters); err != nil {
			return err
		}

		g.asked = w.asked
	}

	return nil
}
