// Package goleveldb adapts goleveldb, the LevelDB in Go that go-ethereum kept its
// database in before Pebble, and that Cosmos nodes still use by default.
//
// Block reads are counted at the storage layer by internal/observe/blockio: the footer and
// index of a table say what lies where, the engine's list of tables says on which
// level. A LevelDB table has one index block, whole, and one filter block, which go
// through the block cache like data; so opening a table costs two meta reads
// (footer, metaindex) and keeps next to nothing outside the cache. The cache charges
// the buffer a block is in, and a block slightly above BlockSize, which is nearly
// every one, is in a buffer of twice that: half the cache is air.
//
// Compactions read through the same descriptors as Gets and cannot be told from
// them: Warnings says where some ran after the last Settle.
//
// A memory budget is split as go-ethereum did it: two write buffers of a quarter
// each (or of what the profile fixes, if that is less), the rest for the block
// cache, less 1 KiB for each table that may be open. Not charged: buffers between
// a read and its return to the pool, a few blocks per reader.
package goleveldb

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/comparer"
	ldberrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/journal"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// Engine is goleveldb.
type Engine struct{}

const name = "goleveldb"

// version is the one go-ethereum pins.
const version = "v1.0.1-0.20220721030215-126854af5e6d"

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:    name,
		Version: adapter.Version("github.com/syndtr/goleveldb", version),
		Route:   "go module",
		Licence: "BSD-2-Clause",
		Durability: "kill: every commit survives (it is in the journal); power cut: what was " +
			"synced or flushed before it",
		Capabilities: []engine.Capability{
			engine.CanReadBlocks, engine.CanDirect, engine.CanReadForeign, engine.CanTraceAccesses,
			engine.CanBudget, engine.AllocatesPerGet,
		},
		Profiles: adapter.Infos(profiles()),
		Options:  adapter.OptionsOf(profiles(), overridable),
		StoredOptions: []string{"BlockSize", "CompactionTableSize", "CompactionTotalSize",
			"BloomBitsPerKey", "Compression"},
	}
}

// Check names what is wrong with o.
func (e Engine) Check(o engine.Options) []error {
	_, errs := resolve(e.Info(), o)
	return errs
}

// Open opens or creates the database in o.Dir.
func (e Engine) Open(ctx context.Context, o engine.Options) (engine.DB, error) {
	s, errs := resolve(e.Info(), o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	o.ReadOnly = o.ReadsOnly()
	check := checkIsDatabase
	if o.Create {
		check = adapter.MakeEmpty
	}

	if err := check(o.Dir); err != nil {
		return nil, err
	}

	opened, err := adapter.RetryOpen(ctx, o.Dir, o.IgnoreLock, func() (*db, error) {
		return open(ctx, o, s)
	})
	if err != nil {
		return nil, fmt.Errorf("goleveldb: open %s: %w", o.Dir, err)
	}

	return opened, nil
}

// checkIsDatabase refuses what LevelDB's heirs left: they, too, have a file
// CURRENT, but name their options.
func checkIsDatabase(dir string) error {
	if err := adapter.CheckHolds(dir, "CURRENT"); err != nil {
		return err
	}

	others, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	if err == nil && len(others) > 0 {
		return &engine.NotADatabaseError{
			Dir: dir,
			Why: "it is of Pebble or RocksDB: use pebble1, pebble2 or rocksdb",
		}
	}

	return err
}

func open(ctx context.Context, o engine.Options, s settings) (_ *db, err error) {
	if o.Direct {
		if err := checkDirect(o); err != nil {
			return nil, err
		}
	}

	base, err := openBase(o)
	if err != nil {
		return nil, err
	}

	recorder := blockio.NewRecorder(learner(s.BlockSize), o.Direct)
	recorder.Accessed = o.Accessed
	counting, err := newCounting(base, o.Dir, recorder, o.Log)
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}

	var opened *leveldb.DB
	err = blockio.DetectWALRemoval([]string{o.Dir}, o.IgnoreLock, func() (err error) {
		opened, err = leveldb.Open(counting, s.translate(o))
		return err
	})

	if opened == nil {
		if order := orderOf(o.Dir); order != "" && order != comparer.DefaultComparer.Name() {
			foreign := engine.Fail(engine.CodeUnsupported,
				"its keys are not in LevelDB's own order but in %s, of the program that owns it",
				order)
			return nil, errors.Join(foreign.WithRemedy("let that program copy the keys to a "+
				"database in LevelDB's own order"), base.Close())
		}

		if ldberrors.IsCorrupted(err) && !errors.Is(err, fs.ErrNotExist) {
			err = &engine.NotADatabaseError{Dir: o.Dir, Why: err.Error()}
		}

		return nil, errors.Join(err, base.Close())
	}

	if err != nil {
		return nil, errors.Join(err, opened.Close(), base.Close())
	}

	d := newDB(o, s, opened, counting, recorder)
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}

	return d, nil
}

// orderOf is the name of the comparer that the manifest of a database begins with; "" if it cannot
// be read.
func orderOf(dir string) string {
	current, err := os.ReadFile(filepath.Join(dir, "CURRENT"))
	if err != nil {
		return ""
	}

	manifest, err := os.Open(filepath.Join(dir, strings.TrimSpace(string(current))))
	if err != nil {
		return ""
	}

	defer manifest.Close() // it is only read
	record, err := journal.NewReader(manifest, nil, true, true).Next()
	if err != nil {
		return ""
	}

	const comparerTag, longest = 1, 200
	in := bufio.NewReader(record)
	tag, err := binary.ReadUvarint(in)
	if err != nil || tag != comparerTag {
		return ""
	}

	length, err := binary.ReadUvarint(in)
	if err != nil || length > longest {
		return ""
	}

	name := make([]byte, length)
	if _, err := io.ReadFull(in, name); err != nil {
		return ""
	}

	return string(name)
}

// checkDirect tries O_DIRECT on a file of the database, or on one of its own
// where there is none yet.
func checkDirect(o engine.Options) error {
	if !o.Create {
		return blockio.CheckDirect(o.Dir)
	}
	trial, err := os.CreateTemp(o.Dir, "direct")
	if err != nil {
		return err
	}
	return errors.Join(trial.Close(), blockio.CheckDirect(o.Dir), os.Remove(trial.Name()))
}

// openBase opens the files: for writing as goleveldb does, else in a way that
// changes none.
func openBase(o engine.Options) (storage.Storage, error) {
	if o.ReadOnly {
		return openReadOnly(o.Dir, o.IgnoreLock)
	}
	base, err := storage.OpenFile(o.Dir, false)
	if err != nil {
		return nil, blockio.AsLocked(err, filepath.Join(o.Dir, lockName))
	}
	return base, nil
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// settings are the options that shape a measurement, by goleveldb's names where it
// has one.
type settings struct {
	BlockCacheCapacity     int64 `effective:"cache_bytes"`
	OpenFilesCacheCapacity int   `effective:"handles"`
	// there are two; 0: half the block cache each
	WriteBuffer            int `effective:"memtable_size"`
	BlockSize              int
	CompactionTableSize    int
	CompactionTotalSize    int
	CompactionL0Trigger    int
	BloomBitsPerKey        int // 0: no filter
	Compression            string
	DisableSeeksCompaction bool
	table                  adapter.Sections // whose keys are sampled
}

// defaults are the library's own.
func defaults() settings {
	return settings{
		BlockCacheCapacity:     8 * mib,
		OpenFilesCacheCapacity: opt.DefaultOpenFilesCacheCapacity,
		WriteBuffer:            4 * mib,
		BlockSize:              4 * kib,
		CompactionTableSize:    2 * mib,
		CompactionTotalSize:    10 * mib,
		CompactionL0Trigger:    4,
		Compression:            "snappy",
	}
}

const bloomBitsPerKey = 10 // of go-ethereum and of Cosmos

func profiles() []adapter.Profile[settings] {
	// With its default of 512 MiB for the database: half for blocks, a quarter for
	// each of two write buffers.
	geth := defaults()
	geth.BlockCacheCapacity, geth.WriteBuffer = 256*mib, 0
	geth.OpenFilesCacheCapacity = 262_144
	geth.BloomBitsPerKey, geth.DisableSeeksCompaction = bloomBitsPerKey, true

	cosmos := defaults()
	cosmos.BloomBitsPerKey = bloomBitsPerKey
	return []adapter.Profile[settings]{
		adapter.Named("geth-legacy", "go-ethereum on LevelDB: bloom filters of 10 bits, write "+
			"buffers with the cache, no compactions by seeks", geth).
			OfClient(clients.Geth),
		adapter.Named("cosmos", "cosmos-db's defaults: the library's own and bloom filters of 10 "+
			"bits; Gets can start compactions", cosmos),
		adapter.Named("default", "the library's own defaults: no filters", defaults()),
	}
}

// overridable are the options that can be overridden.
func overridable(s *settings) []adapter.Option {
	return []adapter.Option{
		adapter.Size("WriteBuffer", "4MiB", &s.WriteBuffer, 4*kib).
			Means("size of a memtable"),
		adapter.Size("BlockSize", "4KiB", &s.BlockSize, 256).
			Means("size of a data block before compression"),
		adapter.Size("CompactionTableSize", "2MiB", &s.CompactionTableSize, 4*kib).
			Means("size of a table that a compaction writes"),
		adapter.Size("CompactionTotalSize", "10MiB", &s.CompactionTotalSize, 4*kib).
			Means("size of level 1; each further level may be ten times as large"),
		adapter.Count("CompactionL0Trigger", "4", &s.CompactionL0Trigger, 1).
			Means("tables in level 0 that start a compaction"),
		adapter.Count("BloomBitsPerKey", "10", &s.BloomBitsPerKey, 0).
			Means("bits per key of Bloom filters; 0: no filters"),
		adapter.Choice("Compression", &s.Compression, "snappy", "none").
			Means("compression of blocks"),
		adapter.Switch("DisableSeeksCompaction", &s.DisableSeeksCompaction).
			Means("Gets start no compactions"),
		s.table.Option(),
	}
}

func resolve(info engine.Info, o engine.Options) (settings, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, overridable)

	s.BlockCacheCapacity = cmp.Or(max(0, o.CacheBytes), s.BlockCacheCapacity)
	s.OpenFilesCacheCapacity = cmp.Or(max(0, o.Handles), s.OpenFilesCacheCapacity)
	if err := s.table.Check(o); err != nil {
		errs = append(errs, err)
	}

	if o.ReadsOnly() {
		s.WriteBuffer = readOnlyBuffer
	}

	if o.Foreign && o.Overrides["BlockSize"] == "" {
		s.BlockSize = writtenBlockSize(o.Dir, s.BlockSize)
	}

	if o.MemoryBytes > 0 {
		if err := s.split(o.MemoryBytes, o.Handles > 0); err != nil {
			errs = append(errs, err)
		}
	}

	if s.WriteBuffer == 0 {
		s.WriteBuffer = int(max(s.BlockCacheCapacity/2, minWriteBuffer))
	}

	return s, errs
}

const (
	// minWriteBuffer holds a batch of the loader: a larger batch than the buffer
	// goes past the journal, into tables of its own.
	minWriteBuffer = 1 * mib
	// readOnlyBuffer is what the journal is read into when nothing is written: it
	// grows as need be, and goleveldb allocates the whole of it at once.
	readOnlyBuffer = 64 * kib
	// tableBytes is what an open table takes: reader, descriptor, cache node.
	tableBytes = 1 * kib
	minBytes   = 4 * mib
)

// split deals a budget out; see the package comment. handlesFixed keeps the number
// of open tables.
func (s *settings) split(budget int64, handlesFixed bool) error {
	if budget < minBytes {
		return fmt.Errorf("a budget of %d bytes is too small: give goleveldb 4MiB or more", budget)
	}

	quarter := int(budget / 4)
	if s.WriteBuffer == 0 || s.WriteBuffer > quarter {
		s.WriteBuffer = quarter
	}

	if !handlesFixed {
		s.OpenFilesCacheCapacity = min(s.OpenFilesCacheCapacity, int(budget/32/tableBytes))
	}

	s.BlockCacheCapacity = budget - 2*int64(s.WriteBuffer) - s.openTablesBytes()
	if s.BlockCacheCapacity < budget/8 {
		return fmt.Errorf("%d handles leave too little of a budget of %d bytes for blocks: write "+
			"--max-open-files %d",
			s.OpenFilesCacheCapacity, budget, budget/32/tableBytes)
	}

	return nil
}

func (s *settings) openTablesBytes() int64 { return int64(s.OpenFilesCacheCapacity) * tableBytes }

func (s *settings) translate(o engine.Options) *opt.Options {
	options := &opt.Options{
		BlockCacheCapacity:     int(s.BlockCacheCapacity),
		OpenFilesCacheCapacity: s.OpenFilesCacheCapacity,
		WriteBuffer:            s.WriteBuffer,
		BlockSize:              s.BlockSize,
		CompactionTableSize:    s.CompactionTableSize,
		CompactionTotalSize:    s.CompactionTotalSize,
		CompactionL0Trigger:    s.CompactionL0Trigger,
		Compression:            opt.SnappyCompression,
		DisableSeeksCompaction: s.DisableSeeksCompaction,
		ReadOnly:               o.ReadOnly,
		ErrorIfExist:           o.Create,
		ErrorIfMissing:         !o.Create,
	}

	if s.Compression == "none" {
		options.Compression = opt.NoCompression
	}

	if s.BloomBitsPerKey > 0 {
		options.Filter = filter.NewBloomFilter(s.BloomBitsPerKey)
	}

	if o.TraceAccesses {
		options.BlockCacheCapacity = -1 // holds what is in use, no more
	}

	return options
}

// CacheBytes is the size of the block cache.
func (d *db) CacheBytes() int64 { return d.settings.BlockCacheCapacity }

// Effective are the options in force.
func (d *db) Effective() map[string]string {
	options := adapter.Effective(d.settings)
	if text := d.settings.table.Text; text != "" {
		options["table"] = text
	}
	return options
}

// ReadsTables tells how Gets with these options would read tables: whether they ask filters, and
// the block size by which buffers are given out.
func (e Engine) ReadsTables(o engine.Options) (filters bool, blockBytes int, errs []error) {
	s, errs := resolve(e.Info(), o)
	return s.BloomBitsPerKey > 0, s.BlockSize, errs
}

// OpenTables is how many tables stay open with these options.
func (e Engine) OpenTables(o engine.Options) int {
	const libraryLimit = 500
	s, _ := resolve(e.Info(), o)
	return cmp.Or(s.OpenFilesCacheCapacity, libraryLimit)
}
