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
	size, kept := int64(min(firstMemTableBytes, bytes)), int64(0)
	if wrote {
		size, kept = f.grew(size, bytes)
	}

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

// grew tells how large the memtable was that the owner wrote into when Follow began, of which the
// first had so many bytes, and what it kept.
func (f *Following) grew(first, bytes int64) (size, kept int64) {
	size = first
	next := func() { kept, size = size, min(2*size, bytes) }
	if f.reopened {
		next()
	}

	if f.grown {
		size, kept = bytes, bytes
	}

	const uncompressed = 1.5 // about
	for rest := int64(uncompressed * float64(f.flushed)); rest > 0 && kept < bytes; rest -= kept {
		next()
	}

	return size, kept
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
