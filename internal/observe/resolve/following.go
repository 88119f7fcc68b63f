package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/follow"
)

// Following follows a database while its owner writes into it: which tables there are from when to when, by the changes of its
// manifest, and which keys are in memory, by its log. It opens tables as they come, so that they can be read when their owner
// has deleted them. It writes nothing. Times are the caller's. For one goroutine.
type Following struct {
	dir      string
	version  cachesim.PebbleVersion
	kept     dbformat.KeptByPebble
	appeared func() ([]string, error)

	manifest     follow.Tail
	manifestName string
	live         map[uint64]int // levels of tables
	minLog       uint64         // older logs are in tables
	flushed      int64          // bytes of tables that memtables became before
	grown        bool           // there were so many that memtables have their full size
	reopened     bool           // the owner found a database, of whose log it made memtables before it made the one that it writes into
	changes      []change

	files  map[uint64]*os.File   // tables, as soon as they are created
	tables map[uint64]tableFacts // that belonged to the database, with the first level that they were on
	logs   []*followedLog
	memory follow.Memory
	failed error
}

// change is an edit, and when it was noticed.
type change struct {
	edit
	at time.Duration
}

// followedLog is a write-ahead log, and the batches in it that are kept apart.
type followedLog struct {
	*follow.Log
	tail    follow.Tail
	batches []largeBatch
}

// largeBatch is a batch that an engine with small memtables keeps apart from them, in memory that it takes from the
// block cache until it is in a table.
type largeBatch struct {
	at           time.Duration
	bytes, asKey int64 // as it is, and in a memtable
}

const leastLargeBatch = 64 << 10

// Follow begins. appeared returns the paths of files that came into the folders of the database since it was last called, or
// since Follow was.
func Follow(dir string, version cachesim.PebbleVersion, appeared func() ([]string, error)) (f *Following, err error) {
	f = &Following{dir: dir, version: version, appeared: appeared, live: map[uint64]int{}, files: map[uint64]*os.File{}, tables: map[uint64]tableFacts{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("follow %s: %w", dir, dbformat.RemoteObjects(dir, err)), f.Close())
		}
	}()
	if f.kept, err = dbformat.ReadKeptByPebble(dir); err != nil {
		return f, err
	}
	const attempts = vanishedRetries // a table can go before it is opened
	for range attempts {
		if err = f.readManifest(0, true); err != nil {
			break
		}
		if err = f.openLive(); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		f.manifestName = ""
	}
	if err == nil {
		err = f.openLogs()
	}
	if err == nil {
		err = f.readLogs(0)
	}
	return f, err
}

// Folders are where files of the database come and go.
func Folders(dir string) []string {
	kept, err := dbformat.ReadKeptByPebble(dir)
	if err != nil {
		return []string{dir} // Follow says why
	}
	return slices.Compact(slices.Sorted(slices.Values(append(kept.Logs, dir))))
}

// Look notices what has changed. An error stays, and Moments returns it.
func (f *Following) Look(at time.Duration) {
	if f.failed != nil {
		return
	}
	f.failed = f.look(at)
}

func (f *Following) look(at time.Duration) error {
	paths, err := f.appeared()
	if err != nil {
		return err
	}
	renewed := false
	for _, path := range paths {
		renewed = renewed || strings.HasPrefix(filepath.Base(path), "marker.manifest.") || filepath.Base(path) == "CURRENT"
		number, kind := numberOf(path)
		switch kind {
		case ".sst":
			if err := f.openFile(number); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case ".log":
			if err := f.openLog(path, number, at); err != nil {
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
	if err := f.openLive(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // the edit that took it away comes next; else Moments tells of it
}

// numberOf is that of a file, and what kind of file it is.
func numberOf(path string) (number uint64, kind string) {
	kind = filepath.Ext(path)
	digits, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), kind), "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, ""
	}
	return number, kind
}

// readManifest applies the edits that came since; renewed: there may be another manifest.
func (f *Following) readManifest(at time.Duration, renewed bool) error {
	if err := f.manifestEdits(at); err != nil || !renewed {
		return err
	}
	name, err := dbformat.PebbleManifest(f.dir)
	if err != nil || name == f.manifestName {
		return err
	}
	file, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return err
	}
	err = f.manifest.Close()
	// A new manifest begins with all that there is, so its first edits together are one change.
	was, before := f.live, len(f.changes)
	first := f.manifestName == ""
	f.manifestName, f.manifest, f.live = name, follow.Tail{File: file}, map[uint64]int{}
	if err := errors.Join(err, f.manifestEdits(at)); err != nil {
		return err
	}
	if first {
		if err := f.before(name); err != nil {
			return err
		}
	}
	whole := change{at: at}
	for _, c := range f.changes[before:] {
		whole.unresolved = errors.Join(whole.unresolved, c.unresolved)
	}
	for file, level := range was {
		if now, is := f.live[file]; !is || now != level {
			whole.removed = append(whole.removed, tableAt{level, file})
		}
	}
	for file, level := range f.live {
		if before, was := was[file]; !was || before != level {
			t := f.tables[file]
			t.level = level
			whole.added = append(whole.added, t)
		}
	}
	f.changes = append(f.changes[:before], whole)
	return nil
}

// before learns how much was written to tables since the owner opened the database. It began a manifest then, with all that there was,
// and then wrote its options. It begins another manifest when that is long.
func (f *Following) before(manifestName string) error {
	options, err := optionsfile.Newest(f.dir)
	if err != nil {
		return err
	}
	number := func(name, prefix string) uint64 {
		n, err := strconv.ParseUint(strings.TrimPrefix(name, prefix), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	f.grown = options != "" && number(manifestName, "MANIFEST-") > number(options, "OPTIONS-")
	const second = 2 // the first version makes the one that it writes into before
	for i, c := range f.changes {
		f.reopened = f.reopened || i == 0 && f.version == second && len(c.added) > 0
		for _, t := range c.added {
			if i > 0 && c.minLog > 0 {
				f.flushed += t.bytes
			}
		}
	}
	return nil
}

func (f *Following) manifestEdits(at time.Duration) error {
	if f.manifest.File == nil {
		return nil
	}
	return f.manifest.Read(func(record []byte) error {
		e, err := readEdit(record)
		if err != nil {
			return err
		}
		for _, t := range e.removed {
			delete(f.live, t.file)
		}
		for _, t := range e.added {
			f.live[t.file] = t.level
			if _, known := f.tables[t.file]; !known {
				f.tables[t.file] = t
			}
		}
		if e.minLog > f.minLog {
			f.minLog = e.minLog
			for _, l := range f.logs {
				if l.Until == 0 && l.Number < e.minLog {
					l.Until = at
				}
			}
		}
		f.changes = append(f.changes, change{e, at})
		return nil
	})
}

// openLive opens all tables that are there; its error may be that one is gone.
func (f *Following) openLive() (gone error) {
	for number := range f.live {
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
	file, err := os.Open(filepath.Join(f.dir, fmt.Sprintf("%06d.sst", number)))
	if err == nil {
		f.files[number] = file
	}
	return err
}

func (f *Following) openLogs() error {
	for _, dir := range f.kept.Logs {
		paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if number, kind := numberOf(path); kind == ".log" && number >= f.minLog {
				if err := f.openLog(path, number, 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (f *Following) openLog(path string, number uint64, at time.Duration) error {
	known := func(l *followedLog) bool { return l.Number == number }
	if number < f.minLog || number > math.MaxUint32 || slices.ContainsFunc(f.logs, known) {
		return nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l := &follow.Log{Number: number, From: at}
	f.memory.Logs = append(f.memory.Logs, l)
	f.logs = append(f.logs, &followedLog{Log: l, tail: follow.Tail{File: file, Number: uint32(number)}})
	return nil
}

// readLogs reads on, and closes logs that are in tables.
func (f *Following) readLogs(at time.Duration) error {
	for _, l := range f.logs {
		if l.tail.File == nil {
			continue
		}
		if l.Until > 0 {
			if err := l.tail.Close(); err != nil {
				return err
			}
			continue
		}
		if err := l.tail.Read(func(batch []byte) error { return f.written(l, batch, at) }); err != nil {
			return fmt.Errorf("read log %06d: %w", l.Number, err)
		}
	}
	return nil
}

// inMemtable is what Pebble reckons for an entry of a memtable besides its key and its value.
const inMemtable = 195

func (f *Following) written(l *followedLog, batch []byte, at time.Duration) error {
	entries, reckoned := batchrepr.Read(batch), int64(0)
	for {
		kind, key, value, more, err := entries.Next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		reckoned += inMemtable + int64(len(key)) + int64(len(value))
		entry := setEntry
		switch kind {
		case pebble2.InternalKeyKindSet, pebble2.InternalKeyKindSetWithDelete:
		case pebble2.InternalKeyKindDelete, pebble2.InternalKeyKindSingleDelete, pebble2.InternalKeyKindDeleteSized:
			entry = deleteEntry
		case pebble2.InternalKeyKindMerge:
			entry = mergeEntry
		case pebble2.InternalKeyKindRangeDelete: // the value is the end
			if err := f.memory.DeletedRange(l.Log, at, key, value); err != nil {
				return err
			}
			continue
		default:
			continue // no Get sees it
		}
		if err := f.memory.Wrote(l.Log, at, entry, key); err != nil {
			return err
		}
	}
	if bytes := int64(len(batch)); bytes >= leastLargeBatch {
		l.batches = append(l.batches, largeBatch{at, bytes, reckoned})
	}
	return nil
}

// Close closes all tables and logs.
func (f *Following) Close() error {
	errs := []error{f.manifest.Close()}
	for _, l := range f.logs {
		errs = append(errs, l.tail.Close())
	}
	for _, file := range f.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
