// Package pebble2 counts the block reads of a database of Pebble v2
// (github.com/cockroachdb/pebble/v2), by type of block and by level, in the program that has the
// database open. See package blockreads for what is counted. It is tested with v2.1.7.
//
// Counting takes about 20 ns for each block read and allocates nothing. A Get that Pebble's caches
// serve costs nothing more. BenchmarkGets compares Gets with and without a counter.
//
// [Attach] to the options, open the database, and take a [Counter.Snapshot] before and after what
// is to be counted. Package blockreads shows all of that.
//
// The type of a block follows from the layout of its table, which the counter reads when the table
// is first opened: all its index blocks and four data blocks, which are not counted as reads.
package pebble2

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/blockreads"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
)

// A Counter counts the block reads of one database. It is safe for concurrent use.
type Counter struct{ counter *blockio.Counter }

// Attach makes the database that is opened with options next count its block reads. Call it when
// all other options are set, and with new options for each database: it panics if these count
// block reads already.
//
// It sets options that are not set to their defaults, as pebble.Open does, wraps options.FS, and
// adds an event listener. Tables and their layouts are read through the file system that options
// had, which need not be the operating system's.
//
// Where a library makes the options and sets no FS, as go-ethereum's ethdb/pebble does, attach to
// options of your own, and set vfs.Default to their FS while the library opens the database:
// examples/blockreads-geth does so. The levels of reads are known only to who has the *pebble.DB.
func Attach(options *pebble.Options) *Counter { return attach(options, false) }

// AttachDirect is Attach with O_DIRECT: blocks are read past the page cache, so each read reaches
// the device. It needs Linux, files of the operating system, and a second descriptor for each open
// table. Where the file system refuses O_DIRECT, opening a table fails with an error that says so.
func AttachDirect(options *pebble.Options) *Counter { return attach(options, true) }

func attach(options *pebble.Options, direct bool) *Counter {
	options.EnsureDefaults()
	base := options.FS
	if pebble2fs.Counts(base) {
		panic(blockio.ErrAttachedTwice)
	}

	open := func(path string) (*blockio.LearningFile, error) { return openLearning(base, path) }
	c := blockio.NewCounter(pebble2fs.LayoutReaderOf(open, options.MakeReaderOptions()), direct)
	options.FS = pebble2fs.CountingReads(base, c.Recorder)
	options.AddEventListener(pebble.EventListener{
		CompactionEnd: func(pebble.CompactionInfo) { c.Changes.Tell() },
		FlushEnd:      func(pebble.FlushInfo) { c.Changes.Tell() },
		TableIngested: func(pebble.TableIngestInfo) { c.Changes.Tell() },
	})
	// A cache smaller than a block is meant to hold none.
	whole := options.Cache != nil && !options.ReadOnly &&
		int64(options.MemTableSize) >= options.Cache.MaxSize()
	if whole && options.Cache.MaxSize() > int64(options.Levels[0].BlockSize) {
		c.Shared = options.Cache
	}

	return &Counter{c}
}

func openLearning(base vfs.FS, path string) (*blockio.LearningFile, error) {
	file, err := base.Open(path)
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return blockio.NewLearning(file, info.Size()), nil
}

// Follow counts reads under the level of their table from now until stop, which must be called
// before db.Close. After each flush, compaction and ingestion it lists db's tables again, on a
// goroutine of its own; reads of a new table until then are of unknown level. It fails if the
// tables cannot be listed, if db was opened with other options than those that Attach had, or if
// the counter follows a database already.
func (c *Counter) Follow(db *pebble.DB) (stop func(), err error) {
	if !pebble2fs.Reads(db, c.counter.Recorder) {
		return nil, blockio.ErrOtherOptions
	}

	return c.counter.Follow(func() ([]blockio.LiveTable, error) { return pebble2fs.Tables(db) })
}

// Snapshot returns what was counted since Attach. It takes some microseconds. Reads that happen
// meanwhile may be in it or not.
func (c *Counter) Snapshot() blockreads.Snapshot { return c.counter.Snapshot() }

// Err is the first reason why reads are untyped, or why their levels may be wrong: the layout of a
// table that could not be read, or a list of tables that could not be had. It also says if the
// block cache was empty at each Snapshot because memtables, which Pebble charges to it, took all of
// options.Cache. nil: nothing of that happened. The database itself is not affected.
func (c *Counter) Err() error { return c.counter.Err() }
