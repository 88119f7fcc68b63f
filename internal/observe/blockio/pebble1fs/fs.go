// Package pebble1fs puts internal/observe/blockio under Pebble v1: a file system that
// counts the reads of tables, and one that refuses every change. Anatomies of tables
// are read by pebble2fs.
package pebble1fs

import (
	"io"
	"slices"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/objstorage"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// CountingReads returns base with the reads of its tables counted by recorder.
func CountingReads(base vfs.FS, recorder *blockio.Recorder) vfs.FS {
	return readsFS{FS: base, recorder: recorder}
}

// Counts tells whether reads through fs are counted already.
func Counts(fs vfs.FS) bool {
	for fs != nil {
		if _, is := fs.(readsFS); is {
			return true
		}

		wrapper, is := fs.(interface{ Unwrap() vfs.FS })
		if !is {
			return false
		}
		fs = wrapper.Unwrap()
	}

	return false
}

// Reads tells whether db reads its tables through a file system that recorder counts. Pebble makes
// the path of a table with that file system, whether or not there is such a table.
func Reads(db *pebble.DB, recorder *blockio.Recorder) bool {
	const table = 2 // base.FileTypeTable
	before := recorder.Joined.Load()
	db.ObjProvider().Path(objstorage.ObjectMetadata{FileType: table})
	return recorder.Joined.Load() != before
}

// Counting is CountingReads with the syncs counted, too, and the lock of another process told as an
// engine.LockedError.
func Counting(base vfs.FS, recorder *blockio.Recorder) vfs.FS {
	return countingFS{readsFS{FS: base, recorder: recorder}}
}

type readsFS struct {
	vfs.FS
	recorder *blockio.Recorder
}

// Open wraps tables. Pebble reopens one with SequentialReadsOption to compact
// it: those reads are background.
func (fs readsFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := fs.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}

	counted, err := fs.recorder.OpenFile(name, file,
		slices.Contains(opts, vfs.SequentialReadsOption))
	if err != nil {
		return nil, err
	}

	if counted == nil {
		return file, nil
	}

	return &countedFile{*counted, below{file}}, nil
}

// PathJoin tells that somebody uses this file system: see Reads.
func (fs readsFS) PathJoin(elements ...string) string {
	fs.recorder.Joined.Add(1)
	return fs.FS.PathJoin(elements...)
}

// Remove tells which tables are gone.
func (fs readsFS) Remove(name string) error {
	err := fs.FS.Remove(name)
	if err == nil {
		fs.recorder.Removed(name)
	}
	return err
}

// countingFS counts the syncs of what is written as well.
type countingFS struct{ readsFS }

// Create, OpenReadWrite and ReuseForWrite count the syncs of what is written.
func (fs countingFS) Create(name string) (vfs.File, error) {
	return fs.synced(fs.FS.Create(name))
}

func (fs countingFS) OpenReadWrite(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return fs.synced(fs.FS.OpenReadWrite(name, opts...))
}

func (fs countingFS) ReuseForWrite(oldname, newname string) (vfs.File, error) {
	return fs.synced(fs.FS.ReuseForWrite(oldname, newname))
}

func (fs countingFS) Lock(name string) (io.Closer, error) {
	lock, err := fs.FS.Lock(name)
	return lock, blockio.AsLocked(err, name)
}

// countedFile has the methods of blockio.CountedFile, and those it lacks from below.
type countedFile struct {
	blockio.CountedFile
	below
}

type below struct{ vfs.File }

// syncedFile has the methods of blockio.SyncedFile, and those it lacks from below.
type syncedFile struct {
	*blockio.SyncedFile
	below
}

func (fs countingFS) synced(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return syncedFile{fs.recorder.Syncs.Synced(file), below{file}}, nil
}

// ReadOnly returns base without any way to change it, as rules say: whatever would is an error.
func ReadOnly(base vfs.FS, rules blockio.ReadOnly) vfs.FS {
	return readOnlyFS{rules, belowFS{base}}
}

// readOnlyFS has the methods of blockio.ReadOnly, and those it lacks from below.
type readOnlyFS struct {
	blockio.ReadOnly
	belowFS
}

type belowFS struct{ vfs.FS }

func (fs readOnlyFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := fs.FS.Open(name, opts...)
	return file, fs.OpenError(err, name)
}

func (readOnlyFS) Create(name string) (vfs.File, error) {
	return nil, blockio.Refused("create", name)
}

func (readOnlyFS) OpenReadWrite(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, blockio.Refused("open for writing", name)
}

func (readOnlyFS) ReuseForWrite(name, _ string) (vfs.File, error) {
	return nil, blockio.Refused("reuse", name)
}

// Tables lists the tables of the current version of db, those of level 0 from the oldest to the
// newest.
func Tables(db *pebble.DB) ([]blockio.LiveTable, error) {
	// Pebble tells its listeners of a compaction, under its lock, before SSTables lists what it
	// made. Metrics waits for that lock.
	db.Metrics()
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}

	var tables []blockio.LiveTable
	for level, infos := range levels {
		for _, t := range infos {
			tables = append(tables, blockio.LiveTable{
				Number:         blockio.FileNumber(t.BackingSSTNum),
				Level:          level,
				Bytes:          int64(t.Size),
				Virtual:        t.Virtual,
				Remote:         t.BackingType != pebble.BackingTypeLocal,
				Smallest:       t.Smallest.UserKey,
				Largest:        t.Largest.UserKey,
				SmallestSeqNum: t.SmallestSeqNum,
				LargestSeqNum:  t.LargestSeqNum,
			})
		}
	}

	return tables, nil
}

// ApplyStoredOptions sets in o, whose FS is set, what a database says of itself. A merger that
// Pebble lacks is replaced by one whose merges fail.
func ApplyStoredOptions(o *pebble.Options, kept dbformat.KeptByPebble) {
	if len(kept.Logs) > 0 {
		o.WALDir = kept.Logs[0]
	}
	if kept.Merger != "" {
		o.Merger = unmerged(kept)
	}
}

func unmerged(kept dbformat.KeptByPebble) *pebble.Merger {
	return &pebble.Merger{
		Name:  kept.Merger,
		Merge: func(_, _ []byte) (pebble.ValueMerger, error) { return nil, kept.Unmerged() },
	}
}
