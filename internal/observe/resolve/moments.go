package resolve

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"time"

	"github.com/statelab/statelab/internal/observe/follow"
	"github.com/statelab/statelab/internal/observe/getpath"
)

// Moments resolves Gets on a database that changed: each on the tables, and with the keys in memory, of its own moment. A key
// is followed by its moment (follow.At).
type Moments struct {
	*Resolver
	states []state
	memory *follow.Memory
}

// state is what there was from a time on.
type state struct {
	from   time.Duration
	levels []level
}

func (f *Following) history() *follow.History {
	h := new(follow.History)
	for _, c := range f.changes {
		var gone, came []uint64
		for _, t := range c.removed {
			gone = append(gone, t.file)
		}
		for _, t := range c.added {
			came = append(came, t.file)
		}
		h.Changed(c.at, gone, came)
	}
	return h
}

// Correct moves changes to when they were made: see follow.History.
func (f *Following) Correct(all []follow.Seen) {
	h := f.history()
	h.Correct(all)
	for i := range f.changes {
		f.changes[i].at = h.At(i)
	}
}

// Moments opens the tables of all times. Nothing may be followed any more; the Following stays open.
func (f *Following) Moments() (*Moments, error) {
	errs := []error{f.Failed()}
	for _, c := range f.changes {
		errs = append(errs, c.unresolved)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for number := range f.live {
		if f.Files[number] == nil {
			return nil, fmt.Errorf("table %06d was deleted before it could be read: %w", number, fs.ErrNotExist)
		}
	}
	m := &Moments{Resolver: &Resolver{version: f.version, kept: f.kept}, memory: &f.memory}
	m.memory.Sort()
	var all, present []tableFacts
	for number, t := range f.tables {
		if f.Files[number] == nil {
			continue // it came and went between two looks
		}
		all = append(all, t)
		if level, is := f.live[number]; is {
			now := t
			now.level = level
			present = append(present, now)
		}
	}
	inOrder := func(a, b tableFacts) int { return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.file, b.file)) }
	slices.SortFunc(all, inOrder)
	slices.SortFunc(present, inOrder)
	m.identity = identify(present)
	var err error
	if m.tables, err = f.openTables(all); err != nil {
		return nil, err
	}
	if err := m.number(); err != nil {
		return nil, err
	}
	if f.kept.NoFilters {
		m.PassOverFilters()
	}
	m.build(f.changes)
	return m, nil
}

// openTables reads what is needed of tables, through the descriptors that are open.
func (f *Following) openTables(facts []tableFacts) ([]*table, error) {
	return eachTable(facts, func(facts tableFacts) (*table, error) {
		t := &table{tableFacts: facts, opened: f.Files[facts.file]}
		return t, t.open(f.kept)
	})
}

// build makes the levels of every time from those of the time before.
func (m *Moments) build(changes []change) {
	byFile := map[uint64]*table{}
	for _, t := range m.tables {
		byFile[t.file] = t
	}
	var levels [lastLevel + 1][]*table
	for _, c := range changes {
		removed, touched := map[tableAt]bool{}, map[int]bool{}
		for _, t := range c.removed {
			removed[t], touched[t.level] = true, true
		}
		for _, t := range c.added {
			touched[t.level] = true
		}
		for number := range touched {
			levels[number] = slices.DeleteFunc(slices.Clone(levels[number]), func(t *table) bool { return removed[tableAt{number, t.file}] })
		}
		for _, t := range c.added {
			if table := byFile[t.file]; table != nil {
				levels[t.level] = append(levels[t.level], table)
			}
		}
		s := state{from: c.at}
		for _, sublevel := range slices.Backward(sublevels(levels[0])) {
			s.levels = append(s.levels, level{number: 0, tables: withPoints(sublevel)})
		}
		for number := 1; number <= lastLevel; number++ {
			if touched[number] {
				sortByKey(levels[number])
			}
			if len(levels[number]) > 0 {
				s.levels = append(s.levels, level{number: number, tables: withPoints(levels[number])})
			}
		}
		m.states = append(m.states, s)
	}
}

func withPoints(tables []*table) []*table {
	if !slices.ContainsFunc(tables, func(t *table) bool { return t.points == nil }) {
		return tables
	}
	return slices.DeleteFunc(slices.Clone(tables), func(t *table) bool { return t.points == nil })
}

// Walk implements getpath.Source.
func (m *Moments) Walk() getpath.Walker { return &momentWalker{Walker: m.Walker(), m: m} }

// momentWalker resolves Gets for one goroutine, each at its moment.
type momentWalker struct {
	*Walker
	m  *Moments
	at time.Duration
}

// Get implements getpath.Walker.
func (w *momentWalker) Get(key []byte, known bool, dst []uint32) (numbers []uint32, found bool, err error) {
	key, w.at = follow.Moment(key)
	after := sort.Search(len(w.m.states), func(i int) bool { return w.m.states[i].from > w.at })
	w.levels, w.memory = w.m.states[max(after-1, 0)].levels, w
	return w.Walker.Get(key, known, dst)
}

// find implements memory.
func (w *momentWalker) find(key []byte) (newest entryKind, gone bool) {
	return w.m.memory.Find(key, w.at)
}

// A database is opened with a memtable of this size, and each is twice as large as the last until they have their full size.
const firstMemTableBytes = 256 << 10

// memTables are what an owner whose memtables have so many bytes when they have grown took of its cache for them, and held
// at first. Each log is one. The last one that came into a table is kept until the next one begins, which takes it over if it is as large.
// An owner that did not write what is there has flushed nothing yet, and keeps none.
func (f *Following) memTables(bytes int64, wrote bool) (changes []follow.Change, held int64) {
	size, kept := int64(min(firstMemTableBytes, bytes)), int64(0)
	if wrote {
		size, kept = f.grew(size, bytes)
	}
	logs := slices.Clone(f.logs)
	slices.SortStableFunc(logs, func(a, b *followedLog) int { return cmp.Compare(a.Number, b.Number) })
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
	events = append(begin, events...) // what fills up is followed by another before it comes into a table
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	held = kept
	for i, e := range events {
		switch {
		case e.ends:
			changes, kept = append(changes, follow.Change{At: e.at, Held: -kept}), e.size
		case e.at > 0:
			changes, kept = append(changes, follow.Change{At: e.at, Held: e.size - kept}), 0
		case i > 0: // the last of several that were there took over what was kept
			held, kept = held-kept+e.size, 0
		default:
			held += e.size
		}
	}
	return slices.DeleteFunc(changes, func(c follow.Change) bool { return c.Held == 0 }), held
}

// grew tells how large the memtable was that the owner wrote into when Follow began, of which the first had so many bytes, and what it kept.
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

// Changes are those of an owner whose memtables have so many bytes when they have grown, and what they held at first. wrote: it had
// opened the database for writing when Follow began; else what was written to tables until then is another's, as for one that reads.
func (f *Following) Changes(memTableBytes int64, wrote bool) (changes []follow.Change, held int64) {
	changes, held = f.memTables(memTableBytes, wrote)
	changes = append(changes, f.history().Changes()...)
	for _, l := range f.logs {
		for _, b := range l.batches {
			if b.asKey < memTableBytes/2 {
				continue
			}
			changes = append(changes, follow.Change{At: b.at, Held: b.bytes})
			if l.Until > 0 {
				changes = append(changes, follow.Change{At: l.Until, Held: -b.bytes})
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b follow.Change) int { return cmp.Compare(a.At, b.At) })
	return changes, held
}

// Came tells of tables that came while the database was followed.
func (f *Following) Came() map[uint64]bool { return f.history().Came() }

// Level is that of a table, the last one if it is gone.
func (f *Following) Level(file uint64) (level int, known bool) {
	if level, known = f.live[file]; known {
		return level, true
	}
	t, known := f.tables[file]
	return t.level, known
}

// seek is the first table whose largest key is not below key.
func (l *level) seek(key []byte) int {
	if l.largest.Len() == len(l.tables) {
		return l.largest.Seek(key)
	}
	return sort.Search(len(l.tables), func(i int) bool { return bytes.Compare(l.tables[i].points.largest, key) >= 0 })
}
