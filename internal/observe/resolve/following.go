package resolve

import (
	"errors"
	"fmt"
	"iter"
	"maps"
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
// manifest, and which keys are in memory, by its log. Times are the caller's. For one goroutine.
type Following struct {
	follow.Database
	dir     string
	version cachesim.PebbleVersion
	kept    dbformat.KeptByPebble

	live     map[uint64]int // levels of tables
	minLog   uint64         // older logs are in tables
	flushed  int64          // bytes of tables that memtables became before
	grown    bool           // there were so many that memtables have their full size
	reopened bool           // the owner found a database, of whose log it made memtables before it made the one that it writes into
	changes  []change

	tables map[uint64]tableFacts // that belonged to the database, with the first level that they were on
	logs   []*followedLog
	memory follow.Memory
}

// change is an edit, and when it was noticed.
type change struct {
	edit
	at time.Duration
}

// followedLog is a write-ahead log, and the batches in it that are kept apart.
type followedLog struct {
	*follow.Log
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
	f = &Following{dir: dir, version: version, live: map[uint64]int{}, tables: map[uint64]tableFacts{}}
	if f.kept, err = dbformat.ReadKeptByPebble(dir); err == nil {
		err = f.Begin(&format{Following: f}, f.kept.Logs, appeared)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("follow %s: %w", dir, dbformat.RemoteObjects(dir, err)), f.Close())
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

// format is what Pebble's files mean.
type format struct {
	*Following
	was    map[uint64]int // tables, before another manifest
	before int            // changes
}

// Manifest implements follow.Format.
func (f *format) Manifest() (string, error) {
	name, err := dbformat.PebbleManifest(f.dir)
	return filepath.Join(f.dir, name), err
}

// Begin implements follow.Format.
func (f *format) Begin() { f.was, f.before, f.live = f.live, len(f.changes), map[uint64]int{} }

// Edited implements follow.Format. What another manifest begins with is one change.
func (f *format) Edited(at time.Duration, another string) error {
	if another == "" {
		return nil
	}
	was, before := f.was, f.before
	if before == 0 {
		if err := f.since(filepath.Base(another)); err != nil {
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

// since learns how much was written to tables since the owner opened the database. It began a manifest then, with all that there was,
// and then wrote its options. It begins another manifest when that is long.
func (f *Following) since(manifestName string) error {
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

// Edit implements follow.Format.
func (f *format) Edit(record []byte, at time.Duration) error {
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
}

// Tables implements follow.Format.
func (f *format) Tables() iter.Seq[uint64] { return maps.Keys(f.live) }

// OpenTable implements follow.Format.
func (f *format) OpenTable(number uint64) (*os.File, error) {
	return os.Open(filepath.Join(f.dir, fmt.Sprintf("%06d.sst", number)))
}

// OldestLog implements follow.Format.
func (f *format) OldestLog() uint64 { return f.minLog }

// LogOpened implements follow.Format.
func (f *format) LogOpened(number uint64, at time.Duration) {
	l := &follow.Log{Number: number, From: at}
	f.memory.Logs = append(f.memory.Logs, l)
	f.logs = append(f.logs, &followedLog{Log: l})
}

// inMemtable is what Pebble reckons for an entry of a memtable besides its key and its value.
const inMemtable = 195

// Wrote implements follow.Format.
func (f *format) Wrote(log uint64, batch []byte, at time.Duration) error {
	l := f.logs[slices.IndexFunc(f.logs, func(l *followedLog) bool { return l.Number == log })]
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
