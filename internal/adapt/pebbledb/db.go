package pebbledb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Version is an open database as one version of Pebble sees it.
type Version interface {
	// Reader looks keys up with Get, or with iterators that ask the filters of the last level, too.
	Reader(lastFilters bool) engine.Reader
	// Writer returns a NewWriter to d.
	Writer(d *DB) engine.Writer
	// Empty reports whether the database holds no key.
	Empty() (bool, error)
	// Tables lists the tables of the current version, those of level 0 from the
	// oldest to the newest.
	Tables() ([]blockio.LiveTable, error)
	// OpenTables opens all tables: they stay readable when the process that holds
	// the database deletes them.
	OpenTables() error
	Metrics() Metrics
	// Values are the files of separated values that the current version refers to: their number,
	// their bytes, and those of their values decompressed.
	Values() (files int, bytes, decoded int64)
	// AsyncFlush begins to flush the memtable; the channel is closed at the end.
	AsyncFlush() (<-chan struct{}, error)
	// SyncWAL returns when the write-ahead log is on the disk.
	SyncWAL() error
	// OpenReadOnly opens the files of dir a second time.
	OpenReadOnly(dir string, kept dbformat.KeptByPebble) (ReadOnlyDB, error)
	// SortedBuild knows the options of new tables, and how to open a database for
	// their ingestion.
	SortedBuild(s Settings, o engine.Options) (SortedBuild, error)
	// Ingest takes finished tables in.
	Ingest(ctx context.Context, paths []string) error
	Close() error
}

// live is an opening of a database. It keeps the recorder informed of levels and
// layouts while the database changes.
type live struct {
	recorder *blockio.Recorder
	follower blockio.Follower

	config    Config
	effective map[string]string
	version   Version
	events    *Events

	unsettled atomic.Bool
}

// Config says how a version opened a database.
type Config struct {
	Options    string // as Pebble prints them
	CacheBytes int64
	Handles    int // how many tables Pebble may keep open

	MemTableBytes      uint64
	FormatMajorVersion uint64 // of the database, which may differ from the one asked for
	// BlockChargeBytes is what the cache charges for a block beyond its content.
	BlockChargeBytes int64
	// BesideCacheBytes are those of memtables replayed from the log of a database that
	// is open for reading, which are not charged to the cache: see ReplayBesideCache.
	BesideCacheBytes int64

	askedHandles         int // more than Handles where the process may not open that many
	adapter, dir         string
	asksFilters          bool
	lastFilters          bool   // Settings.UseL6Filters
	filterBits           string // by level; "": not known
	readOnly, disableWAL bool
	part                 engine.Part
	table                adapter.Sections
	kept                 dbformat.KeptByPebble
	log                  func(string) // may be nil
}

// start takes charge of an open database: it learns the tables there are,
// begins to follow changes and waits for the statistics that Pebble loads of
// every table, so that afterwards only Gets read. It closes version if it fails.
func start(
	ctx context.Context, c Config, version Version, recorder *blockio.Recorder, events *Events,
) (*live, error) {
	d := &live{
		recorder:  recorder,
		config:    c,
		version:   version,
		events:    events,
		effective: effective(c),
	}

	d.follower.Recorder, d.follower.Tables, d.follower.Path = recorder, d.tables, d.tablePath
	d.follower.Follow(events.changed)
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}

	return d, nil
}

func (d *live) start(ctx context.Context) error {
	if err := d.follower.Refresh(ctx, d.logLearning); err != nil {
		return err
	}
	if d.config.readOnly {
		return nil // Pebble loads no statistics then
	}
	return d.await(ctx, d.events.statsLoaded)
}

func (d *live) logLearning(done, total int) {
	if d.config.log != nil && (done%1000 == 0 || done == total) {
		d.config.log(fmt.Sprintf("layouts learnt: %d of %d tables", done, total))
	}
}

// await waits for done, but not beyond a failure of background work, after
// which it might never come.
func (d *live) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-d.events.failed:
		return d.BackgroundError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// guarded waits for do, but not beyond a failure of background work: a commit that waits
// for a flush which Pebble tries again and again holds the locks that do needs.
func (d *live) guarded(do func() error) error {
	ended := make(chan struct{})
	var err error
	go func() {
		err = do()
		close(ended)
	}()

	if failed := d.await(context.Background(), ended); failed != nil {
		return failed
	}

	return err
}

// tables are those that this opening is about.
func (d *live) tables() ([]blockio.LiveTable, error) {
	tables, err := d.version.Tables()
	if err != nil {
		return nil, d.failed("list the tables", err)
	}
	return d.inPart(tables), nil
}

// inPart are the tables that this opening is about.
func (d *live) inPart(tables []blockio.LiveTable) []blockio.LiveTable {
	if d.config.part.Of == 0 {
		return tables
	}
	return slices.DeleteFunc(slices.Clone(tables), func(t blockio.LiveTable) bool {
		return !d.config.part.Has(uint64(t.Number))
	})
}

func (d *live) tablePath(number blockio.FileNumber) string {
	return TablePath(d.config.dir, number)
}

// TablePath names the file of a table.
func TablePath(dir string, number blockio.FileNumber) string {
	return filepath.Join(dir, fmt.Sprintf("%06d.sst", number))
}

// Sync makes what is committed survive a kill.
func (d *live) Sync(ctx context.Context) error {
	if d.config.readOnly {
		return nil
	}

	if err := d.BackgroundError(); err != nil {
		return err
	}

	if d.config.disableWAL {
		return d.flush(ctx)
	}

	if err := d.guarded(d.version.SyncWAL); err != nil {
		return d.failed("sync", err)
	}

	return nil
}

// Settle flushes and waits for the end of all background work.
func (d *live) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if d.config.readOnly {
		return nil // nothing goes on
	}

	if err := d.flush(ctx); err != nil {
		return err
	}

	if err := d.awaitQuiet(ctx, progress); err != nil {
		return d.failed("settle", err)
	}

	if err := d.BackgroundError(); err != nil {
		return err
	}

	return d.follower.Refresh(ctx, nil)
}

func (d *live) flush(ctx context.Context) error {
	var done <-chan struct{}
	err := d.guarded(func() (err error) {
		done, err = d.version.AsyncFlush()
		return err
	})
	if err == nil {
		err = d.await(ctx, done)
	}

	if err != nil {
		return d.failed("flush", err)
	}

	return nil
}

func (d *live) activity() Activity {
	a := d.version.Metrics().Activity
	a.Finished = d.events.jobs.Load()
	a.TableReads = d.recorder.Reads().Total().Count
	return a
}

// Shape is the state of the files now.
func (d *live) Shape() (engine.Shape, error) {
	if err := d.follower.Refresh(context.Background(), nil); err != nil {
		return engine.Shape{}, err
	}

	tables, err := d.version.Tables()
	if err != nil {
		return engine.Shape{}, d.failed("list the tables", err)
	}

	shape := d.recorder.Shape(d.inPart(tables), tables, d.config.BlockChargeBytes)
	if shape.Values, err = d.values(); err != nil {
		return engine.Shape{}, d.failed("read the files of values", err)
	}

	if v := shape.Values; v != nil {
		shape.Bytes, shape.Files = shape.Bytes+v.Bytes, shape.Files+v.Files
	}

	for i := range shape.Levels {
		l := &shape.Levels[i]
		// With options that name no filter, Pebble passes over those that tables have.
		l.FilterConsulted = d.config.asksFilters && (l.FilterConsulted || d.config.lastFilters)
	}

	return shape, nil
}

// values are those in files of their own, of this opening's part. Pebble tells how many files there
// are and not which: where dir has others as well, theirs are taken to be like them.
func (d *live) values() (*engine.Values, error) {
	files, bytes, decoded := d.version.Values()
	if files == 0 {
		return nil, nil
	}

	paths, err := filepath.Glob(filepath.Join(d.config.dir, "*"+blockio.ValuesExt))
	if err != nil {
		return nil, err
	}

	var all, mine int64
	v := &engine.Values{}
	for _, path := range paths {
		a, err := d.recorder.LearnValues(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its owner deleted it meanwhile
		}

		if err != nil {
			return nil, err
		}

		all += a.TableBytes
		number, err := strconv.ParseUint(
			strings.TrimSuffix(filepath.Base(path), blockio.ValuesExt),
			10,
			64,
		)

		if err != nil || d.config.part.Of > 0 && !d.config.part.Has(number) {
			continue
		}

		v.Files++
		mine += a.TableBytes
		v.IndexBytes += a.Blocks[engine.SingleIndex].Bytes
		v.IndexCacheBytes += a.DecodedBytes[engine.SingleIndex] + d.config.BlockChargeBytes
	}

	if all == 0 {
		return nil, errors.New("none of them is there")
	}

	of := func(n, share, whole int64) int64 {
		return int64(float64(n) * float64(share) / float64(whole))
	}
	v.Bytes, v.CacheBytes = of(bytes, mine, all), of(decoded, mine, all)
	v.IndexBytes, v.IndexCacheBytes = of(v.IndexBytes, bytes, all),
		of(v.IndexCacheBytes, bytes, all)
	v.Files = int(of(int64(v.Files), bytes, all))
	return v, nil
}

// CacheBytes is the size of the block cache.
func (d *live) CacheBytes() int64 { return d.config.CacheBytes }

// Effective are the options in force.
func (d *live) Effective() map[string]string { return d.effective }

// Warnings are about this database or its options.
func (d *live) Warnings() []engine.Warning {
	warnings := slices.Clone(d.config.kept.Warnings)
	if d.unsettled.Load() {
		warnings = append(warnings,
			adapter.Unsettled("leave DisableAutomaticCompactions off, or load again"))
	}

	warnings = append(warnings, d.follower.Warnings()...)
	if w, much := d.muchInLog(); much {
		warnings = append(warnings, w)
	}

	if w, few := d.fewDescriptors(); few {
		warnings = append(warnings, w)
	}

	return warnings
}

// muchInLog warns of a log that answers Gets as no table does.
func (d *live) muchInLog() (engine.Warning, bool) {
	tables, err := d.version.Tables()
	if err != nil {
		return engine.Warning{}, false
	}

	var bytes int64
	for _, t := range tables {
		bytes += t.Bytes
	}

	return adapter.Unflushed(d.replayedBytes(), bytes)
}

// fewDescriptors warns where tables cannot all be open at once although the
// profile or the command allows it.
func (d *live) fewDescriptors() (engine.Warning, bool) {
	limit, known := mayOpen()
	if !known {
		return engine.Warning{}, false
	}

	tables := d.recorder.Tables()
	need := min(max(d.config.Handles, d.config.askedHandles), tables)
	if d.recorder.Direct() {
		need *= 2 // a table is opened a second time
	}

	text := fmt.Sprintf("%s open files are needed, the process may have %s",
		unit.Count(int64(need)), unit.Count(int64(limit)))
	if d.config.Handles < d.config.askedHandles {
		text += fmt.Sprintf(": Pebble keeps %s of %s tables open, so that some Gets open a table "+
			"first",
			unit.Count(int64(d.config.Handles)), unit.Count(int64(tables)))
	}

	return engine.Warning{
		Code:   "few_descriptors",
		Text:   text,
		Remedy: "raise the limit (ulimit -n) or lower --max-open-files",
	}, uint64(need) > limit
}

// BackgroundError tells what background work could not do.
func (d *live) BackgroundError() error {
	if err := d.events.Err(); err != nil {
		return d.failed("background work", err)
	}
	return nil
}

// Close ends the following and closes the database.
func (d *live) Close() error {
	d.follower.Stop()
	if err := d.version.Close(); err != nil {
		return d.failed("close", err)
	}
	return nil
}

// failed says what was being done with which database.
func (d *live) failed(doing string, err error) error {
	return fmt.Errorf("%s: %s %s: %w", d.config.adapter, doing, d.config.dir, err)
}
