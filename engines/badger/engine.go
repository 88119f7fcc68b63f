//go:build linux

// Package badger adapts Badger v4, the LSM tree of Dgraph with memory-mapped tables
// and large values kept apart.
//
// Indexes and filters are read where they are mapped, so the page cache holds them;
// blocks are, too, unless they are compressed: then a block cache keeps them
// decompressed. There are no read calls to count. Values up to ValueThreshold are
// in the tables: with the profiles, all that a state database has.
//
// A memory budget is split so: a quarter for the write buffers (one filling, others
// waiting to be flushed, each a third larger than its name says), half for the
// block cache where there is one, the rest is left to the page cache, which the
// harness holds to it.
//
// Readers take a new transaction only after a commit: beginning one adds about a
// third to a warm lookup (BenchmarkGet).
package badger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/failure"
)

// Engine is Badger.
type Engine struct{}

const version = "v4.9.6"

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:    "badger",
		Version: adapter.Version("github.com/dgraph-io/badger/v4", version),
		Route:   "go module",
		Licence: "Apache-2.0",
		Durability: "kill: every commit survives (its log is memory-mapped); power cut: what " +
			"was synced or flushed before it",
		Capabilities: []engine.Capability{engine.UsesPageCache, engine.FaultsInGo,
			engine.CanBudget, engine.HasNoHandles, engine.AllocatesPerGet},
		Profiles: adapter.Infos(profiles()),
		Options:  adapter.OptionsOf(profiles(), overridable),
		StoredOptions: []string{"ValueThreshold", "BaseTableSize", "BaseLevelSize", "BlockSize",
			"Compression"},
	}
}

// Check names what is wrong with o.
func (e Engine) Check(o engine.Options) []error {
	_, errs := resolve(e.Info(), o)
	return errs
}

// Open opens or creates the database in o.Dir.
func (e Engine) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	s, errs := resolve(e.Info(), o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	o.ReadOnly = o.ReadsOnly()
	if err := adapter.CheckDir(o, badger.ManifestFilename); err != nil {
		return nil, err
	}

	if err := checkUnlocked(o.Dir, o.ReadOnly); err != nil {
		return nil, fmt.Errorf("badger: open %s: %w", o.Dir, err)
	}

	log := &logger{tell: o.Log}
	opened, err := badger.Open(s.translate(o, log))
	if err != nil && failure.Badger(err.Error()) == engine.CodeUnsupported {
		return nil, engine.Fail(engine.CodeUnsupported, "badger: open %s: its logs hold writes "+
			"that are in no table yet, and end in space that was never written, as after a kill: "+
			"Badger replays such logs only when it may write", o.Dir).WithRemedy("start and stop " +
			"the program that owns the database once, or do so with a copy of it, and measure that")
	}

	if err != nil {
		return nil, fmt.Errorf("badger: open %s: %w", o.Dir, err)
	}

	if !s.Readahead {
		if err := withoutReadahead(o.Dir); err != nil {
			return nil, errors.Join(fmt.Errorf("badger: open %s: %w", o.Dir, err), opened.Close())
		}
	}

	d := &db{badger: opened, settings: s, dir: o.Dir, log: log, before: readGlobals()}
	if o.ReadOnly {
		if d.replayedBytes, _, err = bytesOf(filepath.Join(o.Dir, "*.mem")); err != nil {
			return nil, errors.Join(fmt.Errorf("badger: open %s: %w", o.Dir, err), opened.Close())
		}
	}

	return d, nil
}

// checkUnlocked fails if another process holds the directory: Badger's own error
// does not tell it from others.
func checkUnlocked(dir string, readOnly bool) error {
	file, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}

	kind := unix.LOCK_EX
	if readOnly {
		kind = unix.LOCK_SH
	}

	err = unix.Flock(int(file.Fd()), kind|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &engine.LockedError{
			Dir:  dir,
			Hint: "stop that process: Badger cannot read while another process writes",
		}
	}

	return errors.Join(err, file.Close())
}

// logger passes Badger's messages on and notes what it can do no more: it tells so
// nowhere else.
type logger struct {
	tell   func(string) // may be nil
	failed atomic.Pointer[error]
}

// Errorf notes a failing flush, which Badger tries again for ever.
func (l *logger) Errorf(format string, args ...any) {
	if failure.Badger(format) == engine.CodeIO {
		err := errors.New(message(format, args))
		l.failed.CompareAndSwap(nil, &err)
	}
	l.say(format, args)
}

func (l *logger) Warningf(format string, args ...any) { l.say(format, args) }

func (l *logger) Infof(format string, args ...any) { l.say(format, args) }

// Debugf is dropped: it tells of every batch.
func (*logger) Debugf(string, ...any) {}

func (l *logger) say(format string, args []any) {
	if l.tell != nil {
		l.tell(message(format, args))
	}
}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}

// settings are the options that shape a measurement, by Badger's names.
type settings struct {
	BlockCacheSize     int64 `effective:"cache_bytes"`
	MemTableSize       int64 `effective:"memtable_size"`
	NumMemtables       int
	ValueThreshold     int64 // 0: as much as Badger allows
	BaseTableSize      int64
	BaseLevelSize      int64
	BlockSize          int
	NumCompactors      int
	NumLevelZeroTables int
	Compression        string
	SyncWrites         bool
	Readahead          bool // ours: see withoutReadahead

	pageCacheBytes int64 // of a budget; 0: no budget
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// defaults are the library's own.
func defaults() settings {
	o := badger.DefaultOptions("")
	return settings{
		BlockCacheSize:     o.BlockCacheSize,
		MemTableSize:       o.MemTableSize,
		NumMemtables:       o.NumMemtables,
		BaseTableSize:      o.BaseTableSize,
		BaseLevelSize:      o.BaseLevelSize,
		BlockSize:          o.BlockSize,
		NumCompactors:      o.NumCompactors,
		NumLevelZeroTables: o.NumLevelZeroTables,
		Compression:        "snappy",
		SyncWrites:         o.SyncWrites,
		Readahead:          true,
	}
}

func profiles() []adapter.Profile[settings] {
	random := defaults()
	random.Readahead = false
	mapped := defaults()
	mapped.Compression, mapped.BlockCacheSize = "none", 0
	return []adapter.Profile[settings]{
		adapter.Named("noreadahead", "default, with mapped tables advised for random reads: a "+
			"fault reads one page", random),
		adapter.Named("default", "the library's own defaults without conflict detection: snappy, "+
			"a block cache of 256 MiB", defaults()),
		adapter.Named("mapped", "no compression and no block cache: everything is read where it "+
			"is mapped", mapped),
	}
}

// overridable are the options that can be overridden.
func overridable(s *settings) []adapter.Option {
	return []adapter.Option{
		adapter.Size("MemTableSize", "64MiB", &s.MemTableSize, 1*mib).
			Means("size of a memtable"),
		adapter.Count("NumMemtables", "5", &s.NumMemtables, 1).
			Means("memtables that may wait for a flush before writes stop"),
		adapter.Size("ValueThreshold", "1MiB", &s.ValueThreshold, 1).
			Means("size from which on a value is stored in the value log"),
		adapter.Size("BaseTableSize", "2MiB", &s.BaseTableSize, 64*kib).
			Means("size of a table of level 1"),
		adapter.Size("BaseLevelSize", "10MiB", &s.BaseLevelSize, 64*kib).
			Means("size of the first level below level 0"),
		adapter.Size("BlockSize", "4KiB", &s.BlockSize, 256).
			Means("size of a data block before compression"),
		adapter.Count("NumCompactors", "4", &s.NumCompactors, 2).
			Means("compactions at the same time"),
		adapter.Count("NumLevelZeroTables", "5", &s.NumLevelZeroTables, 1).
			Means("tables in level 0 that start a compaction"),
		adapter.Choice("Compression", &s.Compression, "snappy", "none", "zstd").
			Means("compression of blocks"),
		adapter.Switch("SyncWrites", &s.SyncWrites).
			Means("every commit waits for the disk"),
		adapter.Switch("Readahead", &s.Readahead).
			Means("the kernel reads ahead in mapped tables"),
	}
}

func resolve(info engine.Info, o engine.Options) (settings, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, overridable)

	s.BlockCacheSize = cmp.Or(max(0, o.CacheBytes), s.BlockCacheSize)
	if o.MemoryBytes > 0 {
		if err := s.split(o.MemoryBytes); err != nil {
			errs = append(errs, err)
		}
	}

	maximum := min(batchBytes(s.MemTableSize), mib)
	if s.ValueThreshold > maximum {
		errs = append(errs,
			fmt.Errorf("option ValueThreshold=%d: Badger takes at most %d with this "+
				"MemTableSize: write ValueThreshold=%d",
				s.ValueThreshold, maximum, maximum))
	}

	s.ValueThreshold = cmp.Or(s.ValueThreshold, maximum)
	if s.Compression != "none" && s.BlockCacheSize == 0 {
		errs = append(errs,
			fmt.Errorf("option Compression=%s: Badger wants a block cache with it: write --cache "+
				"64MiB or Compression=none", s.Compression))
	}

	return s, errs
}

// batchBytes is the most a transaction may hold. (Source: Badger's options.go.)
func batchBytes(memTableSize int64) int64 { return 15 * memTableSize / 100 }

const (
	// budgetMemtables may wait to be flushed under a budget, besides the one filling.
	budgetMemtables = 2
	// minMemTable holds transactions of half a MiB.
	minMemTable = 4 * mib
	minBytes    = 64 * mib
)

// writeBufferBytes is what memtables take, arenas with their room for a last batch.
// (Source: arenaSize in Badger's db.go.)
func (s *settings) writeBufferBytes() int64 {
	return int64(s.NumMemtables+1) * (s.MemTableSize + 2*batchBytes(s.MemTableSize))
}

// split deals a budget out; see the package comment.
func (s *settings) split(budget int64) error {
	if budget < minBytes {
		return fmt.Errorf("a budget of %d bytes is too small: give Badger 64MiB or more", budget)
	}

	s.NumMemtables = budgetMemtables
	s.MemTableSize = min(s.MemTableSize, max(minMemTable, budget/4*100/130/(budgetMemtables+1)))
	s.BlockCacheSize = 0
	if s.Compression != "none" {
		s.BlockCacheSize = budget / 2
	}

	s.pageCacheBytes = budget - s.writeBufferBytes() - s.BlockCacheSize
	return nil
}

func (s *settings) translate(o engine.Options, log *logger) badger.Options {
	b := badger.DefaultOptions(o.Dir)
	b.ReadOnly = o.ReadOnly
	b.Logger = log
	b.DetectConflicts = false // no transaction reads what it writes
	b.BlockCacheSize, b.MemTableSize, b.NumMemtables = s.BlockCacheSize, s.MemTableSize,
		s.NumMemtables
	b.ValueThreshold, b.BaseTableSize, b.BaseLevelSize = s.ValueThreshold, s.BaseTableSize,
		s.BaseLevelSize
	b.BlockSize, b.NumCompactors, b.NumLevelZeroTables = s.BlockSize, s.NumCompactors,
		s.NumLevelZeroTables
	b.NumLevelZeroTablesStall = max(b.NumLevelZeroTablesStall, 2*s.NumLevelZeroTables)
	b.Compression, b.SyncWrites = compression(s.Compression), s.SyncWrites
	return b
}

func compression(name string) options.CompressionType {
	switch name {
	case "none":
		return options.None
	case "zstd":
		return options.ZSTD
	}
	return options.Snappy
}

// CacheBytes is the size of the block cache.
func (d *db) CacheBytes() int64 { return d.settings.BlockCacheSize }

// Effective are the options in force.
func (d *db) Effective() map[string]string {
	options := adapter.Effective(d.settings)
	options["handles"], options["DetectConflicts"] = "0", "false"
	return options
}

// Memory is what the options allow; without a budget the page cache may hold all
// tables.
func (d *db) Memory() []engine.MemoryShare {
	shares := []engine.MemoryShare{{
		Use:   "write buffers",
		Bytes: d.settings.writeBufferBytes(),
		Basis: "limit",
	}}

	if d.settings.BlockCacheSize > 0 {
		shares = append(shares, engine.MemoryShare{
			Use:   "block cache",
			Bytes: d.settings.BlockCacheSize,
			Basis: "limit",
		})
	}

	pages := engine.MemoryShare{
		Use:   engine.PageCacheUse,
		Bytes: d.settings.pageCacheBytes,
		Basis: "limit",
	}

	if pages.Bytes == 0 {
		for _, t := range d.badger.Tables() {
			pages.Bytes += int64(t.OnDiskSize)
		}
		pages.Basis = "estimate"
	}

	shares = append(shares, pages)
	slices.SortStableFunc(shares, func(a, b engine.MemoryShare) int {
		return cmp.Compare(b.Bytes, a.Bytes)
	})
	return shares
}
