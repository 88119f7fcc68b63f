package blocktable

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/statelab/statelab/internal/observe/follow"
)

// Following follows a database while its owner writes into it: which tables there are from when to when, by the changes of its
// manifest, and which keys are in memory, by its logs. Times are the caller's. For one goroutine.
type Following struct {
	follow.Database
	dir        string
	levelBlock int // see Follow

	manifest *manifest
	tables   map[uint64]placed // as the last change left them
	levels   map[uint64]int    // the last ones of all tables that there have been
	changes  []change
	logs     map[uint64]*followedLog
	memories map[uint32]*follow.Memory // of families
	made     []*Resolver
}

// placed is a table of a family.
type placed struct {
	Facts
	family uint32
}

// change is what the manifest's edits changed that were noticed at a time.
type change struct {
	at         time.Duration
	came, gone []placed
}

// followedLog is a write-ahead log, which holds keys of several families.
type followedLog struct {
	from time.Duration
	of   map[uint32]*follow.Log // families
}

// Follow begins. levelBlock is the option of that name with which a database of LevelDB is opened, see OpenLevel; 0: it is RocksDB's. appeared returns
// the paths of files that came into its Folders since it was last called, or since Follow was.
func Follow(dir string, levelBlock int, appeared func() ([]string, error)) (f *Following, err error) {
	f = &Following{dir: dir, levelBlock: levelBlock, tables: map[uint64]placed{}, levels: map[uint64]int{}, logs: map[uint64]*followedLog{},
		memories: map[uint32]*follow.Memory{}}
	logs, err := logFolder(dir, levelBlock)
	if err == nil {
		err = f.Begin(format{f}, []string{logs}, appeared)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("follow %s: %w", dir, err), f.Close())
	}
	return f, err
}

// Folders are where files of the database come and go.
func Folders(dir string, levelBlock int) []string {
	logs, err := logFolder(dir, levelBlock)
	if err != nil {
		return []string{dir} // Follow says why
	}
	return slices.Compact(slices.Sorted(slices.Values([]string{dir, logs})))
}

func logFolder(dir string, levelBlock int) (logs string, err error) {
	if levelBlock > 0 {
		return dir, nil
	}
	_, logs, err = readOptions(dir, defaultFamily, "")
	return logs, err
}

// format is what the files mean.
type format struct{ *Following }

// Manifest implements follow.Format.
func (f format) Manifest() (string, error) {
	name, err := manifestName(f.dir)
	return filepath.Join(f.dir, name), err
}

// Begin implements follow.Format.
func (f format) Begin() { f.manifest = newManifest() }

// Edit implements follow.Format.
func (f format) Edit(record []byte, _ time.Duration) error { return f.manifest.edit(record) }

// Edited implements follow.Format: it notes what the manifest has otherwise than before.
func (f format) Edited(at time.Duration, _ string) error {
	c, now := change{at: at}, map[uint64]placed{}
	for _, family := range f.manifest.families {
		if family.dropped {
			continue
		}
		for file, facts := range family.tables {
			now[file] = placed{facts, family.Number}
		}
		for number, l := range f.logs {
			if of := l.of[family.Number]; of != nil && of.Until == 0 && number < family.firstLog {
				of.Until = at
			}
		}
	}
	for file, t := range f.tables {
		if is, still := now[file]; !still || is.Level != t.Level {
			c.gone = append(c.gone, t)
		}
	}
	for file, t := range now {
		if was, known := f.tables[file]; !known || was.Level != t.Level {
			c.came = append(c.came, t)
			f.levels[file] = t.Level
		}
	}
	f.tables = now
	if len(c.gone)+len(c.came) > 0 {
		f.changes = append(f.changes, c)
	}
	return nil
}

// Tables implements follow.Format.
func (f format) Tables() iter.Seq[uint64] { return maps.Keys(f.tables) }

// OpenTable implements follow.Format.
func (f format) OpenTable(number uint64) (*os.File, error) { return openNamed(f.dir, number) }

// OldestLog implements follow.Format: some family needs it.
func (f format) OldestLog() uint64 {
	first := uint64(math.MaxUint64)
	for _, family := range f.manifest.families {
		if !family.dropped {
			first = min(first, family.firstLog)
		}
	}
	return first
}

// LogOpened implements follow.Format.
func (f format) LogOpened(number uint64, at time.Duration) {
	f.logs[number] = &followedLog{at, map[uint32]*follow.Log{}}
}

// Wrote implements follow.Format.
func (f format) Wrote(number uint64, batch []byte, at time.Duration) (failed error) {
	l := f.logs[number]
	err := eachEntry(batch, func(family uint32, kind byte, key, end []byte) {
		memory, log := f.memories[family], l.of[family]
		if memory == nil {
			memory = new(follow.Memory)
			f.memories[family] = memory
		}
		if log == nil {
			log = &follow.Log{Number: number, From: l.from}
			l.of[family], memory.Logs = log, append(memory.Logs, log)
		}
		var err error
		if kind == kindRange {
			err = memory.DeletedRange(log, at, key, end)
		} else {
			err = memory.Wrote(log, at, kindOf(kind), key)
		}
		failed = cmp.Or(failed, err)
	})
	return errors.Join(failed, err)
}

func (f *Following) history() *follow.History {
	h := new(follow.History)
	for _, c := range f.changes {
		h.Changed(c.at, filesOf(c.gone), filesOf(c.came))
	}
	return h
}

func filesOf(tables []placed) (files []uint64) {
	for _, t := range tables {
		files = append(files, t.File)
	}
	return files
}

// Correct moves changes to when they were made: see follow.History.
func (f *Following) Correct(all []follow.Seen) {
	h := f.history()
	h.Correct(all)
	for i := range f.changes {
		f.changes[i].at = h.At(i)
	}
}

// Came tells of tables that came while the database was followed.
func (f *Following) Came() map[uint64]bool { return f.history().Came() }

// Changes are when tables came and went. Memtables are not in the cache.
func (f *Following) Changes(int64, bool) (changes []follow.Change, held int64) {
	return f.history().Changes(), 0
}

// Level is that of a table, the last one if it is gone.
func (f *Following) Level(file uint64) (level int, known bool) {
	level, known = f.levels[file]
	return level, known
}

// Source resolves the Gets of some families, each at its moment (follow.At); LevelDB's is the default one. The first byte of a key says which of them is
// asked. Nothing may be followed any more, and it can be called once. The Following stays open.
func (f *Following) Source(names []string) (*Mix, error) {
	if err := f.Failed(); err != nil {
		return nil, err
	}
	for _, name := range names {
		r, err := f.resolver(name)
		if err != nil {
			return nil, err
		}
		f.made = append(f.made, r)
	}
	return NewMix(f.made...), nil
}

// resolver resolves the Gets of a family.
func (f *Following) resolver(name string) (*Resolver, error) {
	name = cmp.Or(name, defaultFamily)
	family, err := f.manifest.family(name)
	if err != nil {
		return nil, err
	}
	r := &Resolver{identity: identify(slices.SortedFunc(maps.Values(family.tables), inLevelOrder)), memory: f.memories[family.Number],
		reading: levelReading(true, f.levelBlock)}
	if f.levelBlock == 0 {
		own, _, err := readOptions(f.dir, name, "")
		if err == nil {
			r.reading, err = own.Reading()
		}
		if err != nil {
			return nil, err
		}
	}
	if r.memory != nil {
		r.memory.Sort()
	}
	var all []Facts
	files := map[uint64]*os.File{} // they are the resolver's from now on
	for _, c := range f.changes {
		for _, t := range c.came {
			if file := f.Files[t.File]; t.family == family.Number && file != nil { // else it came and went between two looks
				all, files[t.File] = append(all, t.Facts), file
				delete(f.Files, t.File)
			}
		}
	}
	slices.SortFunc(all, inLevelOrder)
	r.tables, err = eachTable(all, func(facts Facts) (*table, error) { return readTable(files[facts.File], facts, &r.reading) })
	if err == nil {
		err = r.number(family)
	}
	if err == nil {
		err = r.remember(f.changes, family.Number)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// state is what there was from a time on.
type state struct {
	from      time.Duration
	levels    []level
	filtersL0 bool
}

// remember makes the levels of every time from those of the time before.
func (r *Resolver) remember(changes []change, family uint32) error {
	known := map[uint64]*table{}
	for _, t := range r.tables {
		known[t.File] = t
	}
	tables, levels := map[int][]*table{}, map[int]level{}
	r.states = []state{} // there are none yet if there were no tables at all
	for _, c := range changes {
		touched := map[int]bool{}
		for _, t := range c.gone {
			if t.family == family {
				touched[t.Level] = true
				tables[t.Level] = slices.DeleteFunc(tables[t.Level], func(other *table) bool { return other.File == t.File })
			}
		}
		for _, t := range c.came {
			if is := known[t.File]; t.family == family && is != nil {
				touched[t.Level] = true
				tables[t.Level] = append(tables[t.Level], is)
			}
		}
		if len(touched) == 0 {
			continue
		}
		for number := range touched {
			l, err := levelOf(number, tables[number])
			if err != nil {
				return err
			}
			levels[number] = l
		}
		s := state{from: c.at}
		for _, number := range slices.Sorted(maps.Keys(levels)) {
			if l := levels[number]; len(l.tables) > 0 {
				s.levels = append(s.levels, l)
			}
		}
		s.filtersL0 = filtersL0(s.levels)
		r.states = append(r.states, s)
	}
	return nil
}

// momentWalker resolves Gets for one goroutine, each at its moment.
type momentWalker struct {
	*Walker
	at time.Duration
}

// Get implements getpath.Walker.
func (w *momentWalker) Get(key []byte, known bool, dst []uint32) (numbers []uint32, found bool, err error) {
	key, w.at = follow.Moment(key)
	states := w.r.states
	after := sort.Search(len(states), func(i int) bool { return states[i].from > w.at })
	if len(states) > 0 {
		s := &states[max(after-1, 0)]
		w.levels, w.filtersL0 = s.levels, s.filtersL0
	}
	w.memory = w
	return w.Walker.Get(key, known, dst)
}

// find implements memory.
func (w *momentWalker) find(key []byte) (kind entryKind, gone bool) {
	if w.r.memory == nil {
		return noEntry, false
	}
	return w.r.memory.Find(key, w.at)
}

// Close closes all tables and logs, also those of what was made of them.
func (f *Following) Close() error {
	errs := []error{f.Database.Close()}
	for _, r := range f.made {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
