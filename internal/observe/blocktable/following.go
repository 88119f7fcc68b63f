package blocktable

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/observe/follow"
)

// Following follows a database while its owner writes into it: which tables there are from when to when, by the changes of its
// manifest, and which keys are in memory, by its logs. It opens tables as they come, so that they can be read when their owner
// has deleted them. It writes nothing. Times are the caller's. For one goroutine.
type Following struct {
	dir, logs  string
	levelBlock int // see Follow
	appeared   func() ([]string, error)

	record       follow.Tail // of the manifest
	manifestName string
	manifest     *manifest
	tables       map[uint64]placed // as the last change left them
	levels       map[uint64]int    // the last ones of all tables that there have been
	changes      []change

	files    map[uint64]*os.File // tables, as soon as they are created
	written  []*followedLog
	memories map[uint32]*follow.Memory // of families
	made     []*Resolver
	failed   error
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
	tail   follow.Tail
	number uint64
	from   time.Duration
	of     map[uint32]*follow.Log // families
}

// Follow begins. levelBlock is the option of that name with which a database of LevelDB is opened, see OpenLevel; 0: it is RocksDB's. appeared returns
// the paths of files that came into its Folders since it was last called, or since Follow was.
func Follow(dir string, levelBlock int, appeared func() ([]string, error)) (f *Following, err error) {
	f = &Following{dir: dir, levelBlock: levelBlock, appeared: appeared, tables: map[uint64]placed{}, levels: map[uint64]int{}, files: map[uint64]*os.File{},
		memories: map[uint32]*follow.Memory{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("follow %s: %w", dir, err), f.Close())
		}
	}()
	if f.logs, err = logFolder(dir, levelBlock); err != nil {
		return f, err
	}
	for attempt := 1; ; attempt++ { // a table can go before it is opened
		if err = f.readManifest(0, true); err == nil {
			err = f.openTables()
		}
		if !errors.Is(err, fs.ErrNotExist) || attempt == vanishedRetries {
			break
		}
		f.manifestName = ""
	}
	if err != nil {
		return f, err
	}
	paths, err := filepath.Glob(filepath.Join(f.logs, "*.log"))
	for _, path := range paths {
		err = errors.Join(err, f.openLog(path, 0))
	}
	return f, errors.Join(err, f.readLogs(0))
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

// Look notices what has changed. An error stays, and Source returns it.
func (f *Following) Look(at time.Duration) {
	if f.failed == nil {
		f.failed = f.look(at)
	}
}

func (f *Following) look(at time.Duration) error {
	paths, err := f.appeared()
	if err != nil {
		return err
	}
	renewed := false
	for _, path := range paths {
		renewed = renewed || filepath.Base(path) == "CURRENT"
		switch number, kind := numberOf(path); kind {
		case ".sst", ".ldb":
			if err := f.openFile(number); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case ".log":
			if err := f.openLog(path, at); err != nil {
				return err
			}
		}
	}
	// What is in memory is in the log first, and in the log before it is in a table.
	if err := f.readLogs(at); err != nil {
		return err
	}
	if err := f.readManifest(at, renewed); err != nil {
		return err
	}
	if err := f.openTables(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // the edit that took it away comes next
}

// numberOf is that of a file, and what kind of file it is.
func numberOf(path string) (number uint64, kind string) {
	kind = filepath.Ext(path)
	number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), kind), 10, 64)
	if err != nil {
		return 0, ""
	}
	return number, kind
}

// readManifest applies the edits that came since; renewed: there may be another manifest, which begins with all that there is.
func (f *Following) readManifest(at time.Duration, renewed bool) error {
	edits := 0
	edit := func(record []byte) error {
		edits++
		return f.manifest.edit(record)
	}
	if f.manifest != nil {
		if err := f.record.Read(edit); err != nil {
			return fmt.Errorf("%s: %w", f.manifestName, err)
		}
	}
	if renewed {
		name, err := manifestName(f.dir)
		if err != nil {
			return err
		}
		if name != f.manifestName {
			file, err := os.Open(filepath.Join(f.dir, name))
			if err != nil {
				return err
			}
			if f.record.File != nil {
				err = f.record.File.Close()
			}
			f.manifestName, f.manifest, f.record = name, newManifest(), follow.Tail{File: file}
			if err := errors.Join(err, f.record.Read(edit)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if edits > 0 {
		f.changed(at)
	}
	return nil
}

// changed notes what the manifest has otherwise than before.
func (f *Following) changed(at time.Duration) {
	c, now := change{at: at}, map[uint64]placed{}
	for _, family := range f.manifest.families {
		if family.dropped {
			continue
		}
		for file, facts := range family.tables {
			now[file] = placed{facts, family.Number}
		}
		for _, l := range f.written {
			if of := l.of[family.Number]; of != nil && of.Until == 0 && l.number < family.firstLog {
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
}

// openTables opens all tables that are there; its error may be that one is gone.
func (f *Following) openTables() (gone error) {
	for number := range f.tables {
		if err := f.openFile(number); errors.Is(err, fs.ErrNotExist) {
			gone = err
		} else if err != nil {
			return err
		}
	}
	return gone
}

func (f *Following) openFile(number uint64) error {
	if f.files[number] != nil {
		return nil
	}
	file, err := openNamed(f.dir, number)
	if err == nil {
		f.files[number] = file
	}
	return err
}

// firstLog is the oldest log that some family needs.
func (f *Following) firstLog() uint64 {
	first := uint64(math.MaxUint64)
	for _, family := range f.manifest.families {
		if !family.dropped {
			first = min(first, family.firstLog)
		}
	}
	return first
}

func (f *Following) openLog(path string, at time.Duration) error {
	number, kind := numberOf(path)
	if kind != ".log" || number < f.firstLog() || slices.ContainsFunc(f.written, func(l *followedLog) bool { return l.number == number }) {
		return nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		f.written = append(f.written, &followedLog{follow.Tail{File: file, Number: uint32(number)}, number, at, map[uint32]*follow.Log{}})
	}
	return err
}

// readLogs reads on, and closes logs that no family needs.
func (f *Following) readLogs(at time.Duration) error {
	first := f.firstLog()
	for _, l := range f.written {
		if l.tail.File == nil {
			continue
		}
		if l.number < first {
			if err := l.tail.Close(); err != nil {
				return err
			}
			continue
		}
		if err := l.tail.Read(func(batch []byte) error { return f.wrote(l, batch, at) }); err != nil {
			return fmt.Errorf("read log %06d: %w", l.number, err)
		}
	}
	return nil
}

func (f *Following) wrote(l *followedLog, batch []byte, at time.Duration) (failed error) {
	err := eachEntry(batch, func(family uint32, kind byte, key, end []byte) {
		memory, log := f.memories[family], l.of[family]
		if memory == nil {
			memory = new(follow.Memory)
			f.memories[family] = memory
		}
		if log == nil {
			log = &follow.Log{Number: l.number, From: l.from}
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
	if f.failed != nil {
		return nil, f.failed
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
			if file := f.files[t.File]; t.family == family.Number && file != nil { // else it came and went between two looks
				all, files[t.File] = append(all, t.Facts), file
				delete(f.files, t.File)
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
	var errs []error
	for _, r := range f.made {
		errs = append(errs, r.Close())
	}
	errs = append(errs, f.record.Close())
	for _, l := range f.written {
		errs = append(errs, l.tail.Close())
	}
	for _, file := range f.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
