package subject

import (
	"cmp"

	"github.com/statelab/statelab/internal/model/cachesim"
)

// Engine is a key-value engine.
type Engine struct {
	Name    string
	Program Program // of its own
	WithCgo Program // that holds it built with cgo, where statelab links it without
	Cost    EngineCost
	// Family is the name that its versions have in common; "": there is one version.
	Family string
	// Cache is the version of Pebble whose cache it has; 0: another, or none. What Gets read of its
	// levels is then simulated (SimulatesLevels).
	Cache cachesim.PebbleVersion
	// MemTablesInCache: memtables are charged to its block cache.
	MemTablesInCache bool
	// LeastOpenTables: it makes room for advice.LeastOpenTables tables whatever its limit of open
	// files.
	LeastOpenTables bool
	// SkipsLastFilters: its Gets ask no filter of the last level unless an option says so.
	SkipsLastFilters bool
	// TablesOneByOne: its tables can be inspected without opening the database, also some of them.
	TablesOneByOne bool
	// Recognised: a folder whose files are not recognised is no database of it, as no other program
	// opens one.
	Recognised bool
	// BlockTables: its tables are block-based, and package blockbased resolves its Gets.
	BlockTables bool
	// LevelTables: its tables are LevelDB's, which that package resolves, too.
	LevelTables bool
	// CachePolicy is that of its block cache, unless it is Pebble's; "": none is known.
	CachePolicy cachesim.Policy

	KeepsNothing bool // it measures the harness, and is not ranked
	Tables       bool // a database has several by name
	ReadsOptions bool // advise reads what it was opened with from its OPTIONS file
}

// EngineCost is of `statelab load --engine E --keys 1M` (key 32 B, value 110 B, random
// values), bytes by du every 0.15 s, where no other command is named. Rates are of a
// shared machine with two cores.
type EngineCost struct {
	Space float64 // bytes of the database / bytes of keys and values
	Peak  float64 // at most while loading, in the same unit
	// Logs are write-ahead logs that stay for reuse, and at the most: times the cache,
	// which gives the memtables their size.
	Logs, PeakLogs float64
	KeysPerSecond  float64
	// GetNanos is the CPU of a Get. `read --page-cache warm --memory 512MiB --threads 1` of 300k
	// keys: goleveldb 4.3 us, badger 4.0, rocksdb 3.6, pebble1 3.3, bbolt 1.6, lmdb 1.0, mdbx 1.0;
	// of millions two to three times as much.
	GetNanos float64
	Memory   float64 // of a load, times its cache
	Mapped   bool    // its cache is the page cache
	InMemory bool    // it keeps every pair in memory
	Sorted   *SortedCost
}

// SortedCost is of an engine that builds its tables from sorted keys, and preallocates each
// write-ahead log by the size of its memtables.
type SortedCost struct {
	KeysPerSecond, Logs, PeakLogs, Memory, Amplification float64
	// of loading by Puts, times the cache
	Log float64
	// bytes; they double up to their size
	FirstMemTable float64
}

// pebble: 1M, 4M, 5M keys: 449 MB, 1.21 GB, 1.36 GB, at most 1.43, 1.42, 1.45 GB; a database of
// 154, 615, 769 MB. Rate: 200M keys, docs/speed.md; CPU: ten caches of 5M keys.
//
// Sorted: `load --keys 200M --workload fillsorted` took 60 s; 20M keys made 1.5 M keys/s, 4M keys
// 1.4 M on a busy machine. 4M keys took 910 MB for a database of 615 MB, and 1.34 GB at most.
//
// A log has 1.1 memtables (a quarter of the cache), and each memtable starts one; memtables
// double from 256 KiB, so a small database has few. 20k, 100k, 500k keys: 592, 900, 1,255 MB at
// most, 298, 311, 372 MB at the end.
var pebble = EngineCost{
	Space:         1.09,
	Peak:          1.4,
	KeysPerSecond: 250e3,
	GetNanos:      10.9e3,
	Memory:        1.2,
	Logs:          0.85,
	PeakLogs:      2,
	Sorted: &SortedCost{
		KeysPerSecond: 2.5e6,
		Logs:          0.55,
		PeakLogs:      1.4,
		Memory:        128 << 20,
		Amplification: 1.1,
		Log:           0.275,
		FirstMemTable: 256 << 10,
	},
}

// nothing is the cost of an engine without files.
var nothing = EngineCost{KeysPerSecond: 350e3, GetNanos: 500}

// Engines are all engines, in the order in which they are listed.
func Engines() []Engine {
	withCgo := Program{Runner: "statelab-run-pebble", Fix: makeWithCgo}
	inMemory := nothing
	inMemory.InMemory = true
	return []Engine{
		pebbleEngine("pebble1", cachesim.PebbleV1, withCgo),
		pebbleEngine("pebble2", cachesim.PebbleV2, withCgo),
		// 154 MB, at most 299 MB; 5M keys 771 MB, at most 978 MB; 323 k keys/s.
		{Name: "goleveldb", LevelTables: true, CachePolicy: cachesim.LRUPolicy,
			Cost: EngineCost{
				Space:         1.09,
				Peak:          1.5,
				PeakLogs:      0.1,
				KeysPerSecond: 250e3,
				GetNanos:      9e3,
				Memory:        1.2,
			}},
		// 246 MB
		{
			Name: "bbolt",
			Cost: EngineCost{
				Mapped:        true,
				Space:         1.78,
				Peak:          1.78,
				KeysPerSecond: 41e3,
				GetNanos:      3e3,
			},
		},
		// 164 MB, at most 322 MB; 907 MiB resident.
		{
			Name:    "badger",
			Program: Program{"statelab-run-badger", "Badger", "Apache-2.0", goBuild("badger")},
			Cost: EngineCost{
				Space:         1.16,
				Peak:          2.3,
				KeysPerSecond: 110e3,
				GetNanos:      9e3,
				Memory:        2,
			},
		},
		{Name: "mem", Cost: inMemory},
		{Name: "null", Cost: nothing, KeepsNothing: true},
		// 154 MB, at most 263 MB; 259 k keys/s.
		{
			Name:         "rocksdb",
			Program:      Program{"statelab-run-rocksdb", "RocksDB", "Apache-2.0", makeRunners},
			Tables:       true,
			ReadsOptions: true,
			BlockTables:  true,
			CachePolicy:  cachesim.PooledLRUPolicy,
			Cost: EngineCost{
				Space:         1.09,
				Peak:          1.9,
				KeysPerSecond: 250e3,
				GetNanos:      8.9e3,
				Memory:        0.5,
			},
		},
		{
			Name: "mdbx",
			Program: Program{"statelab-run-mdbx", "libmdbx, the engine of Erigon and reth",
				"Apache-2.0", makeRunners},
			Tables: true,
			// 249 MB
			Cost: EngineCost{
				Mapped:        true,
				Space:         1.76,
				Peak:          1.76,
				KeysPerSecond: 23e3,
				GetNanos:      1.7e3,
			},
		},
		{
			Name:    "lmdb",
			Program: Program{"statelab-run-lmdb", "LMDB", "OLDAP-2.8", makeRunners},
			Tables:  true,
			// 248 MB
			Cost: EngineCost{
				Mapped:        true,
				Space:         1.75,
				Peak:          1.75,
				KeysPerSecond: 200e3,
				GetNanos:      1.7e3,
			},
		},
		{
			Name: "fjall",
			Program: Program{"statelab-run-native", "fjall, an LSM tree in Rust",
				"MIT OR Apache-2.0", makeRunners},
		},
		{
			Name: "parity-db",
			Program: Program{"statelab-run-native", "ParityDB, a hash table of Substrate's nodes",
				"MIT OR Apache-2.0", makeRunners},
			// 174 MB and, at most, five logs of 64 MiB.
			Cost: EngineCost{
				Mapped:        true,
				Space:         1.23,
				Peak:          3.6,
				KeysPerSecond: 35e3,
				GetNanos:      3e3,
			},
		},
		{
			Name: "native",
			Program: Program{"statelab-run-native", "any shared library that implements " +
				"native/statelab_engine.h", "the library's", makeRunners},
		},
	}
}

// pebbleEngine is what all versions of Pebble have in common.
func pebbleEngine(name string, version cachesim.PebbleVersion, withCgo Program) Engine {
	return Engine{
		Name:             name,
		Family:           "pebble",
		Cache:            version,
		WithCgo:          withCgo,
		Cost:             pebble,
		MemTablesInCache: true,
		LeastOpenTables:  true,
		SkipsLastFilters: true,
		TablesOneByOne:   true,
		Recognised:       true,
	}
}

// SimulatesLevels reports whether block reads of levels of an engine's tables are simulated with
// its cache, from their sizes alone.
func (e Engine) SimulatesLevels() bool { return e.Cache > 0 }

// DefaultEngine is the engine of a new database.
func DefaultEngine() string { return Engines()[0].Name }

// Pebbles names the versions of Pebble, the oldest first: models of shapes and caches are of them.
func Pebbles() []string { return enginesThat(func(e Engine) bool { return e.Cache > 0 }) }

// Predicted names the engines whose databases are predicted from their options alone.
func Predicted() []string {
	return enginesThat(func(e Engine) bool { return e.Cache > 0 || e.BlockTables })
}

// PebbleVersion is the version of an engine that is Pebble; of another, such as that of a level
// table that names none, the first.
func PebbleVersion(name string) cachesim.PebbleVersion {
	e, _ := EngineOf(name)
	return cmp.Or(e.Cache, cachesim.PebbleV1)
}

// Policy is the policy of an engine's block cache; that of Pebble v1 where none is known.
func Policy(name string) cachesim.Policy {
	e, _ := EngineOf(name)
	return cmp.Or(e.CachePolicy, PebbleVersion(name).Policy())
}

// OfBlockTables is the engine of block-based tables, whose traces others write.
func OfBlockTables() string { return enginesThat(func(e Engine) bool { return e.BlockTables })[0] }

// Traced names the engines whose Gets can be resolved from filters and indexes.
func Traced() []string {
	return enginesThat(func(e Engine) bool { return e.Cache > 0 || e.BlockTables || e.LevelTables })
}

// Descriptor is the engine of a name; one that is not known has a name alone.
func Descriptor(name string) Engine {
	e, known := find(Engines(), func(e Engine) bool { return e.Name == name })
	if !known {
		e.Name = name
	}
	return e
}

// KeepsNothing reports whether an engine keeps nothing.
func KeepsNothing(name string) bool {
	e, _ := EngineOf(name)
	return e.KeepsNothing
}

// WithTables names the engines whose databases have several tables by name.
func WithTables() []string { return enginesThat(func(e Engine) bool { return e.Tables }) }

func enginesThat(are func(Engine) bool) (names []string) {
	for _, e := range Engines() {
		if are(e) {
			names = append(names, e.Name)
		}
	}
	return names
}

// EngineOf is the engine of a name. One without measurements has the costs of an LSM tree; taken
// then says so.
func EngineOf(name string) (e Engine, taken string) {
	e, _ = find(Engines(), func(e Engine) bool { return e.Name == name })
	if e.Cost == (EngineCost{}) {
		e.Cost = EngineCost{
			Space:         1.09,
			Peak:          1.4,
			KeysPerSecond: 250e3,
			GetNanos:      9e3,
			Memory:        1.2,
		}

		taken = "taken for an LSM tree: no measurement of " + name
	}

	return e, taken
}
