//go:build linux

package badger

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"expvar"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

type db struct {
	badger   *badger.DB
	settings settings
	dir      string
	log      *logger
	before   globals // what earlier databases of the process had counted

	// of the logs of memtables, which a database that is only read keeps in memory
	replayedBytes int64

	commits   atomic.Int64 // made, by which readers know that they are out of date
	written   atomic.Int64 // keys and values committed, bytes
	unsettled atomic.Bool
}

// globals are counters that Badger keeps for the whole process.
type globals struct{ flushed, compacted, filterAsked, filterNo, gets int64 }

func readGlobals() (g globals) {
	g.gets = number(expvar.Get(y.BADGER_METRIC_PREFIX + "get_num_user"))
	g.flushed = number(expvar.Get(y.BADGER_METRIC_PREFIX + "write_bytes_l0"))
	if levels, is := expvar.Get(y.BADGER_METRIC_PREFIX +
		"write_bytes_compaction").(*expvar.Map); is {
		levels.Do(func(level expvar.KeyValue) { g.compacted += number(level.Value) })
	}

	if filters, is := expvar.Get(y.BADGER_METRIC_PREFIX +
		"hit_num_lsm_bloom_filter").(*expvar.Map); is {
		g.filterAsked, g.filterNo = number(filters.Get("DoesNotHave_ALL")),
			number(filters.Get("DoesNotHave_HIT"))
	}

	return g
}

func number(v expvar.Var) int64 {
	if n, is := v.(*expvar.Int); is {
		return n.Value()
	}
	return 0
}

// Sync makes the logs survive a power cut; a kill they survive anyway.
func (d *db) Sync(context.Context) error {
	if err := d.BackgroundError(); err != nil {
		return err
	}
	if err := d.badger.Sync(); err != nil {
		return fmt.Errorf("badger: sync %s: %w", d.dir, err)
	}
	return nil
}

// Counters are totals since Open.
func (d *db) Counters() engine.Counters {
	now := readGlobals()
	c := engine.Counters{
		Gets:           new(now.gets - d.before.gets),
		UserWriteBytes: new(d.written.Load()),
		FlushBytes:     new(now.flushed - d.before.flushed),
		CompactBytes:   new(now.compacted - d.before.compacted),
		FilterNegative: new(now.filterNo - d.before.filterNo),
		FilterPositive: new(now.filterAsked - d.before.filterAsked -
			(now.filterNo - d.before.filterNo)),
	}

	if m := d.badger.BlockCacheMetrics(); m != nil {
		c.CacheHits, c.CacheMisses = new(int64(m.Hits())), new(int64(m.Misses()))
		c.CacheUsedBytes = new(int64(m.CostAdded()) - int64(m.CostEvicted()))
	}

	return c
}

// Shape is what the tables tell. Blocks of data are not counted there, and what
// filters and indexes take in memory is what they take on disk: they are mapped.
func (d *db) Shape() (engine.Shape, error) {
	levels := make([]engine.Level, engine.MaxLevels)
	var shape engine.Shape
	for _, t := range d.badger.Tables() {
		l := &levels[min(t.Level, engine.MaxLevels-1)]
		index, filter := int64(t.IndexSz), int64(t.BloomFilterSize)
		l.Files++
		l.Bytes += int64(t.OnDiskSize)
		l.Keys += int64(t.KeyCount)
		l.SingleIndexes++
		l.DataBytes += int64(t.OnDiskSize) - index
		l.FilterBytes += filter // a part of the index
		l.IndexBytes += index - filter
		l.SingleIndexBytes += index - filter
		l.DataCacheBytes += int64(t.UncompressedSize)
		shape.Bytes += int64(t.OnDiskSize)
		shape.Files++
	}

	for i, l := range levels {
		if l.Files == 0 {
			continue
		}

		l.Level, l.Sublevels, l.FilterConsulted = i, 1, true
		l.FilterCacheBytes, l.IndexCacheBytes, l.SingleIndexCacheBytes = l.FilterBytes,
			l.IndexBytes, l.SingleIndexBytes
		l.InCacheKnown = true
		if i == 0 {
			l.Sublevels = l.Files // every table of level 0 is asked
		}

		shape.Levels = append(shape.Levels, l)
	}

	log, files, err := bytesOf(filepath.Join(d.dir, "*.vlog"))
	if err != nil {
		return engine.Shape{}, fmt.Errorf("badger: value log: %w", err)
	}

	if log > int64(files)*emptyLogBytes {
		shape.Values = &engine.Values{Files: files, Bytes: log}
		shape.Files, shape.Bytes = shape.Files+files, shape.Bytes+log
	}

	return shape, nil
}

// emptyLogBytes are those that a file of the value log takes before it holds a value.
const emptyLogBytes = 4096

// bytesOf are those that files take on the disk: Badger makes its logs larger than what they hold.
// It may delete some meanwhile.
func bytesOf(pattern string) (bytes int64, files int, err error) {
	paths, err := filepath.Glob(pattern)
	for _, path := range paths {
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return 0, 0, err
		}

		bytes, files = bytes+min(stat.Size, stat.Blocks*512), files+1
	}

	return bytes, files, err
}

func (d *db) tableBytes() (bytes int64) {
	for _, t := range d.badger.Tables() {
		bytes += int64(t.OnDiskSize)
	}
	return bytes
}

// Warnings are about this database or its options.
func (d *db) Warnings() (warnings []engine.Warning) {
	if d.unsettled.Load() {
		warnings = append(warnings, adapter.Unsettled("load again"))
	}
	if w, much := adapter.Unflushed(d.replayedBytes, d.tableBytes()); much {
		warnings = append(warnings, w)
	}
	return warnings
}

// BackgroundError tells what could not be flushed.
func (d *db) BackgroundError() error {
	if err := d.log.failed.Load(); err != nil {
		return fmt.Errorf("badger: %s: %w", d.dir, *err)
	}
	return nil
}

// Close does not wait for a flush that failed: Badger tries it again for ever.
func (d *db) Close() error {
	closed := make(chan error, 1)
	go func() { closed <- d.badger.Close() }()
	look := time.NewTicker(closePoll)
	defer look.Stop()
	for {
		select {
		case err := <-closed:
			if err != nil {
				return fmt.Errorf("badger: close %s: %w", d.dir, err)
			}
			return nil
		case <-look.C:
			if err := d.BackgroundError(); err != nil {
				return err
			}
		}
	}
}

const closePoll = 100 * time.Millisecond

// rest: compactors look for work every 50 ms, and start up to a second late.
var rest = adapter.IdleDetector{
	Poll:    20 * time.Millisecond,
	Rest:    250 * time.Millisecond,
	Overdue: 5 * time.Second,
}

// flushMarker is a key no state has. Dropping it is the one way to have Badger
// flush short of closing it.
const flushMarker = "\x00statelab: a key that is dropped at once, so that the memtables are " +
	"flushed\x00"

// Settle flushes and waits for the compactions that follow. The flush also empties
// level 0, as Badger does where it may before it closes. Nobody may write meanwhile.
func (d *db) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if d.badger.Opts().ReadOnly {
		return nil // nothing goes on
	}

	err := d.flush()
	if err == nil {
		err = d.awaitQuiet(ctx, progress)
	}

	if err == nil {
		err = d.BackgroundError()
	}

	if err == nil && !d.settings.Readahead {
		err = withoutReadahead(d.dir) // of tables that compactions made
	}

	if err != nil {
		return fmt.Errorf("badger: settle %s: %w", d.dir, err)
	}

	return nil
}

func (d *db) flush() error {
	if err := d.badger.Update(func(t *badger.Txn) error {
		return t.Set([]byte(flushMarker), nil)
	}); err != nil {
		return fmt.Errorf("flush: %w", err)
	}

	if err := d.badger.DropPrefix([]byte(flushMarker)); err != nil {
		return fmt.Errorf("flush: %w", err)
	}

	d.commits.Add(1)
	return nil
}

func (d *db) awaitQuiet(ctx context.Context, progress func(engine.Settling)) error {
	var last globals
	return rest.Await(ctx, &d.unsettled, func(time.Duration) (b adapter.Background, err error) {
		b.Failed = d.log.failed.Load() != nil // Settle tells
		b.Due, b.PendingBytes = d.due()
		b.Running = int(number(expvar.Get(y.BADGER_METRIC_PREFIX + "compaction_current_num_lsm")))
		now := readGlobals()
		now.filterAsked, now.filterNo = 0, 0
		b.Active = now != last || b.Running > 0
		last = now
		return b, nil
	}, progress)
}

// due reports whether a compactor would find work, and the bytes beyond the targets.
func (d *db) due() (due bool, pendingBytes int64) {
	for _, l := range d.badger.Levels() {
		if l.Adjusted >= 1 {
			due = true
			pendingBytes += max(0, l.Size-l.TargetSize)
		}
	}
	return due, pendingBytes
}

// reader keeps its transaction until something is committed.
type reader struct {
	db          *db
	transaction *badger.Txn // nil before the first Get
	commits     int64       // what it sees
}

func (d *db) Reader() (engine.Reader, error) { return &reader{db: d}, nil }

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	// Loaded before the transaction begins: it sees these commits, or more.
	if commits := r.db.commits.Load(); r.transaction == nil || commits != r.commits {
		r.renew(commits)
	}

	item, err := r.transaction.Get(key)
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			return dst[:0], false, nil
		}
		return dst[:0], false, err
	}

	value, err := item.ValueCopy(dst)
	return value, true, err
}

func (r *reader) renew(commits int64) {
	if r.transaction != nil {
		r.transaction.Discard()
	}
	r.transaction, r.commits = r.db.badger.NewTransaction(false), commits
}

func (r *reader) Close() error {
	if r.transaction != nil {
		r.transaction.Discard()
		r.transaction = nil
	}
	return nil
}

var errReadOnly = errors.New("badger: the database is open for reading only")

// writer keeps a batch apart until Commit, since a transaction of Badger holds on
// to the slices it is given.
type writer struct {
	adapter.Batch
	db *db
}

func (d *db) Writer() (engine.Writer, error) {
	if d.badger.Opts().ReadOnly {
		return nil, errReadOnly
	}
	return &writer{db: d}, nil
}

// Commit fails for a batch beyond 15 % of a memtable: Badger would split it.
func (w *writer) Commit() error {
	if w.Len() == 0 {
		return nil
	}

	if err := w.commit(); err != nil {
		return fmt.Errorf("badger: commit a batch of %d entries, %d bytes: %w", w.Len(), w.Bytes(),
			err)
	}

	w.db.commits.Add(1)
	w.db.written.Add(w.Bytes())
	w.Reset()
	return nil
}

func (w *writer) commit() error {
	transaction := w.db.badger.NewTransaction(true)
	defer transaction.Discard()
	if err := w.Each(transaction.Set, transaction.Delete, nil); err != nil {
		return err
	}
	return transaction.Commit()
}

func (*writer) Close() error { return nil }

// withoutReadahead tells the kernel that the tables mapped now are read at random.
// Badger maps them without advice, so that a fault reads as much as the device's
// readahead allows: megabytes for a Get, where the page cache is short. It has no
// option for that; the mappings are this process's own, and /proc names them.
func withoutReadahead(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}

	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}

	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("find the mapped tables: %w", err)
	}

	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || filepath.Dir(fields[5]) != dir || filepath.Ext(fields[5]) != ".sst" {
			continue
		}

		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
			return fmt.Errorf("find the mapped tables: %w", err)
		}

		// By number: the memory is Badger's, and no Go pointer to it is ours to make.
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_RANDOM)
		if errno != 0 && !errors.Is(errno, unix.ENOMEM) { // ENOMEM: unmapped meanwhile
			return fmt.Errorf("advise random reads of %s: %w", fields[5], errno)
		}
	}

	return lines.Err()
}

// SampleKeys calls yield with n keys (fewer where nearly all are deleted), each key that is there
// with the same chance, whatever the sizes and however often it was written: a draw chooses a table
// by its number of keys, one of its blocks, and an entry of it (adapter.SampledTable). One that is
// not what a Get returns, since it is deleted, has expired or is an older version, is drawn again,
// from any table. Keys whose newest version is in a memtable alone are not drawn. The same key may
// come twice.
//
// Tables are mapped once more to read their blocks, but the keys are looked up in
// the database itself: its cache sees them.
func (d *db) SampleKeys(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) error {
	stored, err := d.compressions()
	if err != nil {
		return fmt.Errorf("badger: sample keys of %s: %w", d.dir, err)
	}

	tables := d.badger.Tables()
	sample := adapter.TableSample{Weights: make([]uint64, len(tables))}
	for i, t := range tables {
		sample.Weights[i] = uint64(t.KeyCount)
	}

	sample.Draw = func(draws []int, round uint64) (met []adapter.Drawn, err error) {
		for i, draws := range draws {
			id := tables[i].ID
			further, err := d.sampleTable(ctx, id, stored[id].Compression, draws,
				rand.New(rand.NewPCG(seed+round, id)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
				return nil, fmt.Errorf("badger: sample table %d of %s: %w", id, d.dir, err)
			}

			met = append(met, further...)
		}

		return met, nil
	}

	_, err = sample.Keys(ctx, n, seed, yield)
	return err
}

// compressions asks the manifest how each table is stored: not always as the
// options say now.
func (d *db) compressions() (tables map[uint64]badger.TableManifest, err error) {
	file, err := os.Open(filepath.Join(d.dir, badger.ManifestFilename))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	manifest, _, err := badger.ReplayManifestFile(file, 0, d.badger.Opts())
	return manifest.Tables, err
}

func (d *db) sampleTable(
	ctx context.Context, id uint64, stored options.CompressionType, draws int, rng *rand.Rand,
) (met []adapter.Drawn, err error) {
	if draws == 0 {
		return nil, nil
	}

	file, err := z.OpenMmapFile(table.NewFilename(id, d.dir), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}

	opened, err := table.OpenTable(file, table.Options{
		ReadOnly:    true,
		Compression: stored,
		BlockSize:   d.settings.BlockSize,
	})
	if err != nil {
		return nil, errors.Join(err, file.Close(-1))
	}

	// Close, not DecrRef, which deletes the file.
	defer func() { err = errors.Join(err, file.Close(-1)) }()
	blocks := opened.KeySplits(math.MaxInt, nil)
	if len(blocks) == 0 {
		return nil, errors.New("a table without blocks")
	}

	sampled := adapter.SampledTable{
		Rng:    rng,
		Counts: d.returns,
		Blocks: len(blocks),
		Block: func(i int) ([]adapter.SampledEntry, error) {
			return readBlock(opened, blocks, i)
		},
	}
	return sampled.Sample(ctx, draws)
}

// returns reports whether a Get of its key returns e.
func (d *db) returns(e adapter.SampledEntry) (is bool, err error) {
	err = d.badger.View(func(transaction *badger.Txn) error {
		item, err := transaction.Get(e.Key)
		is = err == nil && item.Version() == e.Version
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return is, err
}

// readBlock returns the entries of a block; blocks are the first keys of all, with versions.
func readBlock(
	t *table.Table, blocks []string, chosen int,
) (entries []adapter.SampledEntry, err error) {
	iterator := t.NewIterator(table.NOCACHE)
	defer func() { err = errors.Join(err, iterator.Close()) }()
	for iterator.Seek([]byte(blocks[chosen])); iterator.Valid(); iterator.Next() {
		key := iterator.Key()
		if chosen+1 < len(blocks) && y.CompareKeys(key, []byte(blocks[chosen+1])) >= 0 {
			break
		}
		entries = append(entries, adapter.SampledEntry{
			Key:     bytes.Clone(y.ParseKey(key)),
			Version: y.ParseTs(key),
		})
	}

	if len(entries) == 0 {
		return nil, fmt.Errorf("block %d is empty", chosen)
	}

	return entries, nil
}
