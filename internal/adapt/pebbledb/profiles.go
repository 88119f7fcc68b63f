package pebbledb

import (
	"runtime"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

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
