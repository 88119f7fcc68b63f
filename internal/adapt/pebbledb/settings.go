// Package pebbledb is the adapter of Pebble v1 and v2, but for what names a type of
// either module: profiles as plain data, overrides by Pebble's own option names, the
// recognition of a database directory, counters, writers and sorted builds.
//
// The adapters (engines/pebble1, engines/pebble2) supply a Library, which translates
// Settings into the options of their version and opens a Version. Their Get is their
// own, so that it calls Pebble without an interface between.
package pebbledb

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Levels is the number of levels of a Pebble tree.
const Levels = 7

// maxMemTableBytes is the largest memtable both versions accept (their limit
// itself is refused).
const maxMemTableBytes = 1<<32 - 2

// minMemTableBytes is what Pebble starts its first memtable with; a cache of a
// few KiB must not make a memtable too small to hold one batch.
const minMemTableBytes = 256 << 10

// Settings are Pebble options as plain data. Zero is the library's default.
type Settings struct {
	CacheBytes   int64
	MaxOpenFiles int
	// MemTablesPerHalfCache sizes a memtable: the cache, halved, divided by it.
	// 0: MemTableSize stands.
	MemTablesPerHalfCache       int64
	MemTableSize                uint64
	MemTableStopWritesThreshold int
	L0CompactionThreshold       int
	L0CompactionFileThreshold   int
	L0StopWritesThreshold       int
	L0CompactionConcurrency     int
	CompactionDebtConcurrency   uint64
	LBaseMaxBytes               int64
	FlushSplitBytes             int64
	MaxConcurrentCompactions    int
	FormatMajorVersion          uint64
	DisableWAL                  bool
	DisableAutomaticCompactions bool
	BytesPerSync                int
	WALBytesPerSync             int
	ReadSamplingMultiplier      int64
	Levels                      [Levels]LevelSettings
	Table                       adapter.Sections      // whose keys are sampled; no option of Pebble's
	Kept                        dbformat.KeptByPebble // of another program's database
}

// LevelSettings are the options of one level.
type LevelSettings struct {
	BlockSize        int
	IndexBlockSize   int
	TargetFileSize   int64
	Compression      string // none, snappy, zstd; v2 also minlz
	FilterBitsPerKey int    // 0: what the library does when told nothing
	NoFilter         bool   // none, said explicitly
}

// AsksFilters reports whether a database that is open with s asks the filters of its
// tables: a policy on any level makes Pebble ask them on all but the last.
func (s *Settings) AsksFilters() bool {
	return slices.ContainsFunc(s.Levels[:], func(l LevelSettings) bool { return l.FilterBitsPerKey > 0 })
}

// passOverFilters makes Gets ask no filters, whatever tables have.
func (s *Settings) passOverFilters() {
	for i := range s.Levels {
		s.Levels[i].FilterBitsPerKey, s.Levels[i].NoFilter = 0, true
	}
}

// minBudgetBytes holds a memtable as it is first made, and some blocks.
const minBudgetBytes = 2 << 20

// Resolve returns the settings of o: its profile, then cache and handles, then
// the overrides. legal limits the overrides to those an engine version has.
func Resolve(profiles []Profile, o engine.Options) (Settings, []error) {
	s, err := adapter.Find(profiles, o.Profile)
	if err != nil {
		return Settings{}, []error{err}
	}
	if o.CacheBytes > 0 {
		s.CacheBytes = o.CacheBytes
	}
	if o.MemoryBytes > 0 {
		s.CacheBytes = o.MemoryBytes // memtables are charged to the cache
	}
	if o.Handles > 0 {
		s.MaxOpenFiles = o.Handles
	}
	if s.MemTablesPerHalfCache > 0 {
		bytes := s.CacheBytes / 2 / s.MemTablesPerHalfCache
		s.MemTableSize = uint64(min(max(bytes, minMemTableBytes), maxMemTableBytes))
	}
	errs := apply(&s, o.Overrides)
	if err := s.Table.Check(o); err != nil {
		errs = append(errs, err)
	}
	if o.CacheBytes < 0 {
		errs = append(errs, illegal("cache", o.CacheBytes, "64MiB"))
	}
	switch {
	case o.MemoryBytes > 0 && o.CacheBytes > 0:
		errs = append(errs, errors.New("a memory budget includes the cache: give only one of --memory and --cache"))
	case o.MemoryBytes < 0 || o.MemoryBytes > 0 && o.MemoryBytes < minBudgetBytes:
		errs = append(errs, fmt.Errorf("a memory budget of %s is too small for Pebble: it needs at least %s", unit.Bytes(o.MemoryBytes), unit.Bytes(minBudgetBytes)))
	}
	if o.Handles < 0 {
		errs = append(errs, illegal("handles", o.Handles, "1000"))
	}
	return s, errs
}

// Profile is a named set of settings.
type Profile = adapter.Profile[Settings]

const (
	kib = 1 << 10
	mib = 1 << 20

	filterBits = 10
)

// BenchKVDB are the options of bench_kvdb, the tool of the published study. One
// difference: the tool raises a cache below 16 MiB to 16 MiB; here the cache
// asked for is the cache there is, or the low end of a curve could not be seen.
func BenchKVDB() Profile {
	s := Settings{
		CacheBytes:                  512 * mib,
		MaxOpenFiles:                100_000,
		MemTablesPerHalfCache:       2,
		MemTableStopWritesThreshold: 2,
		MaxConcurrentCompactions:    runtime.NumCPU(),
		WALBytesPerSync:             5 * 100 * kib,
		ReadSamplingMultiplier:      -1,
	}
	for i := range s.Levels {
		s.Levels[i] = LevelSettings{TargetFileSize: 2 * mib << i, FilterBitsPerKey: filterBits}
	}
	return adapter.Named("bench-kvdb", "options of bench_kvdb, the published study's tool", s)
}

// geth are the options go-ethereum 1.17.10 gives both versions of Pebble, with
// its default database cache of 2048 MiB. The number of handles it derives from
// the process limit; its usual outcome stands here.
func geth() Settings {
	s := Settings{
		CacheBytes:                  2048 * mib,
		MaxOpenFiles:                262_144,
		MemTablesPerHalfCache:       4,
		MemTableStopWritesThreshold: 8,
		MaxConcurrentCompactions:    runtime.NumCPU(),
		WALBytesPerSync:             5 * 100 * kib,
		L0CompactionThreshold:       2,
		L0CompactionConcurrency:     1,
		CompactionDebtConcurrency:   256 * mib,
		ReadSamplingMultiplier:      -1,
	}
	for i, size := range []int64{16, 4, 8, 16, 32, 64, 128} {
		s.Levels[i] = LevelSettings{TargetFileSize: size * mib, FilterBitsPerKey: filterBits}
	}
	// The last level is left empty, which v1 reads as no filter and v2 as that
	// of the level above.
	s.Levels[Levels-1].FilterBitsPerKey = 0
	return s
}

// GethV1 is what geth 1.17 does with a database of the old format.
func GethV1() Profile {
	return adapter.Named("geth-1.17-v1", "go-ethereum 1.17 on a database made before its move to Pebble v2", geth())
}

// GethV2 is what geth 1.17 does with a new database.
func GethV2() Profile {
	s := geth()
	s.FormatMajorVersion = 13
	return adapter.Named("geth-1.17-v2", "go-ethereum 1.17 on a new database", s)
}

// Columnar is bench-kvdb with the newest table format of v2.
func Columnar(newestFormat uint64) Profile {
	p := BenchKVDB()
	p.Profile = engine.Profile{Name: "columnar", About: "bench-kvdb in the newest table format (columnar blocks)"}
	p.Settings.FormatMajorVersion = newestFormat
	return p
}

// Default are the library's defaults, nothing said.
func Default() Profile {
	s := Settings{CacheBytes: 8 * mib, MaxOpenFiles: 1000}
	return adapter.Named("default", "the library's own defaults", s)
}
