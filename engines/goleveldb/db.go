package goleveldb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/syndtr/goleveldb/leveldb"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/blockio"
)

type db struct {
	leveldb  *leveldb.DB
	storage  *counting
	recorder *blockio.Recorder
	follower blockio.Follower
	settings settings
	dir      string
	readOnly bool
	beside   bool // a writer, whose lock is ignored

	written   atomic.Int64 // keys and values committed, bytes
	settledAt atomic.Int64 // compactions begun by then
	unsettled atomic.Bool
}

func newDB(
	o engine.Options, s settings, opened *leveldb.DB, storage *counting, recorder *blockio.Recorder,
) *db {
	d := &db{
		leveldb:  opened,
		storage:  storage,
		recorder: recorder,
		settings: s,
		dir:      o.Dir,
		readOnly: o.ReadOnly,
		beside:   o.IgnoreLock,
	}

	d.follower.Recorder, d.follower.Tables, d.follower.Path = recorder, d.tables, storage.tablePath
	return d
}

// start learns the tables there are and begins to follow changes.
func (d *db) start(ctx context.Context) error {
	d.follower.Follow(d.storage.changed)
	if d.beside {
		if err := d.pinTables(); err != nil {
			return err
		}
	} else if d.readOnly {
		if err := d.checkTablesExist(); err != nil {
			return err
		}
	}

	return d.follower.Refresh(ctx, nil)
}

// checkTablesExist refuses a database that lists tables which are not here. goleveldb opens it, and
// fails when a Get needs one.
func (d *db) checkTablesExist() error {
	tables, err := d.tables()
	if err != nil {
		return err
	}

	var missing []string
	for _, t := range tables {
		path := d.storage.tablePath(t.Number)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, filepath.Base(path))
		} else if err != nil {
			return err
		}
	}

	if len(missing) == 0 {
		return nil
	}

	return engine.Fail(engine.CodeNotDatabase, "%s lists %s that are not there, such as %s: they "+
		"were lost, or not copied", d.dir,
		unit.Plural(len(missing), "table"), missing[0]).
		WithRemedy("copy the whole folder again while the program that owns it is stopped, or " +
			"read the original")
}

// pinTables keeps every table open that the database consists of: its writer may
// delete them.
func (d *db) pinTables() error {
	tables, err := d.tables()
	if err != nil {
		return err
	}

	files := d.storage.Storage.(*readOnly)
	for _, t := range tables {
		if err := files.pin(int64(t.Number)); err != nil {
			return err
		}
	}

	return nil
}

// tables are those of the current version, oldest first. Their keys are unknown.
func (d *db) tables() ([]blockio.LiveTable, error) {
	text, err := d.leveldb.GetProperty("leveldb.sstables")
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	return parseTables(text)
}

// parseTables reads goleveldb's list: a heading per level, then a line
// number:size[first .. last] per table, whose keys are shortened.
func parseTables(text string) ([]blockio.LiveTable, error) {
	var tables []blockio.LiveTable
	level := engine.LevelUnknown
	for line := range strings.Lines(text) {
		if heading, is := strings.CutPrefix(line, "--- level "); is {
			digits, _, _ := strings.Cut(heading, " ")
			n, err := strconv.Atoi(digits)
			if err != nil {
				return nil, fmt.Errorf("list of tables: %q is no level", line)
			}

			if n >= engine.MaxLevels {
				err := engine.Fail(engine.CodeUnsupported,
					"a table is on level %d, and only levels below %d are counted",
					n, engine.MaxLevels)
				return nil, err.WithRemedy("let the program that owns the database write a copy " +
					"with fewer levels")
			}

			level = n
			continue
		}

		file, _, _ := strings.Cut(line, "[")
		digits, size, _ := strings.Cut(file, ":")
		number, err := strconv.ParseUint(digits, 10, 64)
		bytes, sizeErr := strconv.ParseInt(size, 10, 64)
		if err != nil || sizeErr != nil || level == engine.LevelUnknown {
			return nil, fmt.Errorf("list of tables: %q is no table of a level", line)
		}

		tables = append(tables, blockio.LiveTable{
			Number: blockio.FileNumber(number),
			Level:  level,
			Bytes:  bytes,
		})
	}

	slices.SortFunc(tables, func(a, b blockio.LiveTable) int {
		return cmp.Compare(a.Number, b.Number)
	})
	return tables, nil
}

// Sync makes the journals survive a power cut; a kill they survive anyway.
func (d *db) Sync(context.Context) error {
	if d.readOnly {
		return nil
	}

	if err := d.BackgroundError(); err != nil {
		return err
	}

	if err := d.storage.syncJournals(); err != nil {
		return fmt.Errorf("goleveldb: sync %s: %w", d.dir, err)
	}

	return nil
}

// Counters are totals since Open. Reads of compactions are among Reads.
func (d *db) Counters() engine.Counters {
	c := engine.Counters{
		Reads:          d.recorder.Reads(),
		TableOpens:     new(d.recorder.Opens()),
		UncachedReads:  new(2 * d.recorder.Opens()), // a footer and a metaindex each
		UserWriteBytes: new(d.written.Load()),
		WALBytes:       new(d.storage.journalBytes.Load()),
	}

	if d.recorder.Direct() {
		c.DirectBytes = new(d.recorder.DirectBytes())
	}

	var s leveldb.DBStats
	if err := d.leveldb.Stats(&s); err != nil {
		return c // closed: the rest is not known any more
	}

	c.CacheHits, c.CacheMisses = new(s.BlockCache.HitCount), new(s.BlockCache.MissCount)
	c.TableCacheHits, c.TableCacheMisses = new(s.FileCache.HitCount), new(s.FileCache.MissCount)
	c.CacheUsedBytes = new(int64(s.BlockCacheSize))
	c.Stalls, c.StallNanos = new(int64(s.WriteDelayCount)), new(int64(s.WriteDelayDuration))
	// A flush writes to level 0, whatever writes below is a compaction.
	var flushed, compacted int64
	for level, bytes := range s.LevelWrite {
		if level == 0 {
			flushed += bytes
		} else {
			compacted += bytes
		}
	}

	c.FlushBytes, c.CompactBytes = new(flushed), new(compacted)
	return c
}

// Shape is the state of the files now. The number of keys is estimated.
func (d *db) Shape() (engine.Shape, error) {
	shape, err := d.shape()
	if err != nil {
		return engine.Shape{}, fmt.Errorf("goleveldb: shape of %s: %w", d.dir, err)
	}
	return shape, nil
}

func (d *db) shape() (engine.Shape, error) {
	if err := d.follower.Refresh(context.Background(), nil); err != nil {
		return engine.Shape{}, err
	}

	tables, err := d.tables()
	if err != nil {
		return engine.Shape{}, err
	}

	for i := range tables {
		if tables[i].Level != 0 {
			continue // only there do tables overlap
		}

		if err := d.readBounds(&tables[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return engine.Shape{}, err
		}
	}

	shape := d.recorder.Shape(tables, tables, 0)
	for i := range shape.Levels {
		shape.Levels[i].FilterConsulted = d.settings.BloomBitsPerKey > 0
		shape.Levels[i].KeysEstimated = true
	}

	return shape, nil
}

func (d *db) readBounds(t *blockio.LiveTable) error {
	return withTable(d.storage.tablePath(t.Number), func(table *blockbased.Table) (err error) {
		t.Smallest, t.Largest, err = boundsOf(table)
		return asDamaged(err)
	})
}

// Memory is what the options allow.
func (d *db) Memory() []engine.MemoryShare {
	shares := []engine.MemoryShare{
		{Use: "block cache", Bytes: d.settings.BlockCacheCapacity, Basis: "limit"},
		{Use: "write buffers", Bytes: 2 * int64(d.settings.WriteBuffer), Basis: "limit"},
		{Use: "open tables", Bytes: d.settings.openTablesBytes(), Basis: "estimate"},
	}

	if log := d.replayedBytes(); log > 0 {
		shares = append(shares, adapter.ReplayedLog(log))
	}

	slices.SortStableFunc(shares, func(a, b engine.MemoryShare) int {
		return cmp.Compare(b.Bytes, a.Bytes)
	})
	return shares
}

// replayedBytes are those of the journals of a database that is open for reading: its memory holds
// what is in them. One that may be written flushes them first.
func (d *db) replayedBytes() int64 {
	if !d.readOnly {
		return 0
	}
	return d.storage.replayed.Load()
}

// Warnings are about this database or its options.
func (d *db) Warnings() (warnings []engine.Warning) {
	if n := d.storage.compactions.Load() - d.settledAt.Load(); n > 0 {
		warnings = append(warnings, engine.Warning{
			Code: "compaction_reads",
			Text: fmt.Sprintf("%d compactions ran since the database was settled: their reads "+
				"count as those of Gets", n),
			Remedy: "measure with --set DisableSeeksCompaction=true or --read-only, with which " +
				"Gets start no compaction",
		})
	}

	if d.unsettled.Load() {
		warnings = append(warnings, adapter.Unsettled("load again"))
	}

	if tables, err := d.tables(); err == nil {
		var bytes int64
		for _, t := range tables {
			bytes += t.Bytes
		}

		if w, much := adapter.Unflushed(d.replayedBytes(), bytes); much {
			warnings = append(warnings, w)
		}
	}

	return append(warnings, d.follower.Warnings()...)
}

// BackgroundError tells what could not be written.
func (d *db) BackgroundError() error {
	if err := d.storage.failure.Load(); err != nil {
		return fmt.Errorf("goleveldb: %s: %w", d.dir, *err)
	}
	return nil
}

// Close closes the database, then its files. After a file could not be written, the
// files alone: where a memtable cannot be flushed, leveldb.DB.OpenTransaction, which also
// writes large batches, returns without releasing the lock that leveldb.DB.Close waits for.
func (d *db) Close() error {
	d.follower.Stop()
	if d.BackgroundError() != nil {
		if err := d.storage.Close(); err != nil {
			return fmt.Errorf("goleveldb: close %s: %w", d.dir, err)
		}
		return nil
	}

	if err := errors.Join(d.leveldb.Close(), d.storage.Close()); err != nil {
		return fmt.Errorf("goleveldb: close %s: %w", d.dir, err)
	}

	return nil
}

type reader struct{ leveldb *leveldb.DB }

func (d *db) Reader() (engine.Reader, error) { return reader{d.leveldb}, nil }

// Get copies once more than a caller of goleveldb would: its value is a fresh
// slice each time.
func (r reader) Get(key, dst []byte) ([]byte, bool, error) {
	value, err := r.leveldb.Get(key, nil)
	if err != nil {
		if errors.Is(err, leveldb.ErrNotFound) {
			return dst[:0], false, nil
		}
		return dst[:0], false, err
	}
	return append(dst[:0], value...), true, nil
}

func (reader) Close() error { return nil }

type writer struct {
	db    *db
	batch leveldb.Batch
	bytes int64 // keys and values in the batch
}

func (d *db) Writer() (engine.Writer, error) {
	if d.readOnly {
		return nil, errReadOnly
	}
	return &writer{db: d}, nil
}

func (w *writer) Put(key, value []byte) error {
	w.bytes += int64(len(key) + len(value))
	w.batch.Put(key, value)
	return nil
}

func (w *writer) Delete(key []byte) error {
	w.bytes += int64(len(key))
	w.batch.Delete(key)
	return nil
}

func (w *writer) Commit() error {
	if err := w.db.leveldb.Write(&w.batch, nil); err != nil {
		return fmt.Errorf("goleveldb: commit a batch of %d entries: %w", w.batch.Len(), err)
	}
	w.db.written.Add(w.bytes)
	w.bytes = 0
	w.batch.Reset()
	return nil
}

func (*writer) Close() error { return nil }

// rest: compactions follow each other within microseconds.
var rest = adapter.IdleDetector{
	Poll:    10 * time.Millisecond,
	Rest:    50 * time.Millisecond,
	Overdue: 2 * time.Second,
}

// Settle flushes and waits for the compactions that follow by themselves. It
// compacts no range: that would leave a shape no node has.
func (d *db) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if d.readOnly {
		return nil // nothing goes on
	}

	err := d.flush()
	if err == nil {
		err = d.awaitQuiet(ctx, progress)
	}

	if err == nil {
		err = d.BackgroundError()
	}

	if err == nil {
		err = d.follower.Refresh(ctx, nil)
	}

	if err != nil {
		return fmt.Errorf("goleveldb: settle %s: %w", d.dir, err)
	}

	d.settledAt.Store(d.storage.compactions.Load())
	return nil
}

// flush writes the buffer to a table: what goleveldb does before a transaction,
// and nowhere else on request without compacting as well.
func (d *db) flush() error {
	transaction, err := d.leveldb.OpenTransaction()
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	transaction.Discard()
	return nil
}

// activity grows with everything that goes on.
type activity struct {
	read, written uint64
	finished      uint32
}

func (d *db) awaitQuiet(ctx context.Context, progress func(engine.Settling)) error {
	var last activity
	return rest.Await(ctx, &d.unsettled,
		func(quiet time.Duration) (b adapter.Background, err error) {
			b.Failed = d.BackgroundError() != nil // Settle tells
			var s leveldb.DBStats
			if err := d.leveldb.Stats(&s); err != nil {
				return b, err
			}

			b.Due, b.PendingBytes = d.due(&s)
			now := activity{
				read:     s.IORead,
				written:  s.IOWrite,
				finished: s.MemComp + s.Level0Comp + s.NonLevel0Comp + s.SeekComp,
			}

			b.Active = now != last
			if last = now; b.Active || quiet < rest.Rest {
				b.Running = 1 // goleveldb has one compaction at a time and does not tell of it
			}

			return b, nil
		}, progress)
}

// due reports whether a level asks for a compaction, by goleveldb's rule, and the
// bytes beyond what levels may hold.
func (d *db) due(s *leveldb.DBStats) (due bool, pendingBytes int64) {
	for level, bytes := range s.LevelSizes {
		if level == 0 {
			if s.LevelTablesCounts[0] >= d.settings.CompactionL0Trigger {
				due, pendingBytes = true, pendingBytes+bytes
			}
			continue
		}

		maximum := int64(float64(d.settings.CompactionTotalSize) * math.Pow(levelGrowth,
			float64(level)))
		if bytes >= maximum {
			due, pendingBytes = true, pendingBytes+bytes-maximum
		}
	}

	return due, pendingBytes
}

// levelGrowth is how much larger a level may be than the one above.
const levelGrowth = 10
