package resolve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Moments resolves Gets on a database that changed: each on the tables, and with the keys in
// memory, of its own moment. A key is followed by its moment (lsmtail.AppendTime). Nothing may be
// followed any more; the Following stays open.
func (f *Following) Moments() (*Resolver, error) {
	if err := errors.Join(f.Failed(), f.Unresolved()); err != nil {
		return nil, err
	}

	for number := range f.Live {
		if f.Files[number] == nil {
			return nil, fmt.Errorf("table %06d was deleted before it could be read: %w", number,
				fs.ErrNotExist)
		}
	}

	r := &Resolver{version: f.version, kept: f.kept, memory: f.Memory(0)}
	r.memory.Sort()
	inOrder := func(a, b lsmtail.Facts) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.File, b.File))
	}
	all := slices.SortedFunc(maps.Values(f.Known), inOrder)
	// it came and went between two looks
	all = slices.DeleteFunc(all, func(t lsmtail.Facts) bool { return f.Files[t.File] == nil })
	tables, err := lsmtail.EachTable(all, func(facts lsmtail.Facts) (*table, error) {
		t := &table{Table: lookuppath.Table{Facts: facts, Opened: f.Files[facts.File]}}
		return t, t.open(f.kept)
	})
	if err != nil {
		return nil, err
	}

	r.Tables = lookuppath.Opened(tables, slices.SortedFunc(maps.Values(f.Live), inOrder))
	if _, err := r.Number(0); err != nil {
		return nil, err
	}

	if f.kept.NoFilters {
		r.IgnoreFilters()
	}

	opened := map[uint64]*table{}
	for _, t := range r.All {
		opened[t.File] = t
	}

	r.states, err = lsmtail.States(&f.Database, 0, opened, levelsOf)
	return r, err
}

// A database is opened with a memtable of this size, and each is twice as large as the last until
// they have their full size.
const firstMemTableBytes = 256 << 10

// memTables are what an owner whose memtables have so many bytes when they have grown took of its
// cache for them, and held at first. Each log is one. The last one that came into a table is kept
// until the next one begins, which takes it over if it is as large. An owner that did not write
// what is there has flushed nothing yet, and keeps none.
func (f *Following) memTables(bytes int64, wrote bool) (changes []lsmtail.Change, held int64) {
	made := 0
	if wrote {
		made, _, _ = f.MemTablesMade(bytes)
	}

	first, _ := memTablesAfter(made, bytes)
	size, kept := first.written, first.kept

	logs := slices.Clone(f.Memory(0).Logs)
	slices.SortStableFunc(logs, func(a, b *lsmtail.Log) int {
		return cmp.Compare(a.Number, b.Number)
	})
	type event struct {
		at   time.Duration
		size int64
		ends bool
	}

	var begin, events []event
	for _, l := range logs {
		begin = append(begin, event{at: l.From, size: size})
		if l.Until > 0 {
			events = append(events, event{l.Until, size, true})
		}
		size = min(2*size, bytes)
	}

	// what fills up is followed by another before it comes into a table
	events = append(begin, events...)
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	held = kept
	for i, e := range events {
		switch {
		case e.ends:
			changes, kept = append(changes, lsmtail.Change{At: e.at, Held: -kept}), e.size
		case e.at > 0:
			changes, kept = append(changes, lsmtail.Change{At: e.at, Held: e.size - kept}), 0
		case i > 0: // the last of several that were there took over what was kept
			held, kept = held-kept+e.size, 0
		default:
			held += e.size
		}
	}

	return slices.DeleteFunc(changes, func(c lsmtail.Change) bool { return c.Held == 0 }), held
}

// MemTablesMade is how many memtables the owner had made before the one that it wrote into when
// Follow began, as long as each was larger than the last; all of them: that many. A memtable has so
// many bytes when it has grown. It is known of an owner that has written much, and else estimated.
func (f *Following) MemTablesMade(bytes int64) (made, all int, known bool) {
	for _, full := memTablesAfter(all, bytes); !full; _, full = memTablesAfter(all, bytes) {
		all++
	}

	if f.made != nil {
		return min(*f.made, all), all, true
	}

	if f.grown {
		return all, all, true
	}

	if f.reopened {
		made++
	}

	rest := f.flushed
	for ; rest > 0 && made < all; made++ {
		size, _ := memTablesAfter(made, bytes)
		rest -= size.written
	}

	return made, all, false
}

// SetMemTablesMade says what MemTablesMade is.
func (f *Following) SetMemTablesMade(made int) { f.made = &made }

// memTables are the one that is written into, and the last one that came into a table, which is
// kept until the next begins; in bytes.
type memTables struct{ written, kept int64 }

// memTablesAfter are those after so many others, and whether all later ones are as large.
func memTablesAfter(made int, bytes int64) (m memTables, full bool) {
	m.written = min(firstMemTableBytes, bytes)
	for range made {
		m.kept, m.written = m.written, min(2*m.written, bytes)
	}
	return m, m.kept == bytes
}

// Changes are those of an owner whose memtables have so many bytes when they have grown, and what
// they held at first. wrote: it had opened the database for writing when Follow began; else what
// was written to tables until then is another's, as for one that reads.
func (f *Following) Changes(
	memTableBytes int64, wrote bool,
) (changes []lsmtail.Change, held int64) {
	changes, held = f.memTables(memTableBytes, wrote)
	changes = append(changes, f.Database.Changes()...)
	for _, l := range f.Memory(0).Logs {
		for _, b := range f.batches[l.Number] {
			if b.asKey < memTableBytes/2 {
				continue
			}

			changes = append(changes, lsmtail.Change{At: b.at, Held: b.bytes})
			if l.Until > 0 {
				changes = append(changes, lsmtail.Change{At: l.Until, Held: -b.bytes})
			}
		}
	}

	slices.SortStableFunc(changes, func(a, b lsmtail.Change) int { return cmp.Compare(a.At, b.At) })
	return changes, held
}

// seek is the first table whose largest key is not below key.
func (l *level) seek(key []byte) int {
	if l.largest.Len() == len(l.tables) {
		return l.largest.Seek(key)
	}
	return sort.Search(len(l.tables), func(i int) bool {
		return bytes.Compare(l.tables[i].points.Largest, key) >= 0
	})
}
