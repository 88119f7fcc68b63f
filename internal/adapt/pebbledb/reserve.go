package pebbledb

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

const (
	firstMemTableBytes   = 256 << 10 // Pebble starts with a small memtable and doubles it
	libraryMemTableBytes = 4 << 20   // where a profile says nothing
)

// OpenReserveBytes is what memtables take of the block cache of a database that
// is open and has not been written to since: v1 keeps one small memtable, v2
// that and the next one, already doubled. Read-only, v1 has none and v2 one.
// Measured as the engines' own metrics tell it; a test holds it against them.
func OpenReserveBytes(adapter, profile string, cacheBytes int64, readOnly bool) (int64, error) {
	switch {
	case adapter != "pebble1" && adapter != "pebble2":
		return 0, nil // its memtables are outside of the cache
	case adapter == "pebble1" && readOnly:
		return 0, nil
	case adapter == "pebble1" || readOnly:
		return firstMemTableBytes, nil
	}

	s, errs := Resolve(Profiles(), engine.Options{Profile: profile, CacheBytes: cacheBytes})
	if len(errs) > 0 {
		return 0, errs[0]
	}

	return firstMemTableBytes + min(2*firstMemTableBytes,
		cmp.Or(int64(s.MemTableSize), libraryMemTableBytes)), nil
}

// Cache is what both versions' block caches have in common.
type Cache interface {
	// Reserve makes the cache smaller by bytes, or larger if they are negative.
	Reserve(bytes int) (release func())
}

// replayAllowance is more, for each shard of a cache, than any log's memtables.
const replayAllowance = 1 << 40

// ReplayBesideCache lets Pebble replay the write-ahead log of a database that is
// opened for reading without taking the block cache for it. Pebble charges
// memtables to the cache; a log of half a gigabyte, which a killed node leaves, would
// take all of it, where a node that runs writes the memtables to tables and has the
// cache back. Call it before the database is opened, and replayed afterwards with
// what its memtables take. It returns how many bytes are taken beside the cache.
//
// The cache is made larger before and smaller after, never too small in between: CLOCK-Pro's target
// for cold blocks would not recover. A database that is opened for writing flushes what it replays:
// nothing is done then.
func ReplayBesideCache(
	cache Cache, adapter string, cacheBytes int64, readOnly bool,
) (replayed func(Metrics) (besideBytes int64)) {
	if !readOnly {
		return func(Metrics) int64 { return 0 }
	}

	n := cachesim.ShardCount(cacheBytes, runtime.GOMAXPROCS(0))
	cache.Reserve(-n*replayAllowance - (n - 1)) // Pebble rounds up what a shard reserves
	rest := int64(0)
	if adapter == "pebble2" {
		rest = firstMemTableBytes
	}

	return func(m Metrics) int64 {
		beside := max(0, m.reservedBytes()-rest)
		cache.Reserve(n*replayAllowance - int(beside))
		return beside
	}
}

// FirstFormatOfV2 is the oldest format Pebble v2 opens.
const FirstFormatOfV2 = dbformat.FirstOfPebble2

// CheckDir refuses a directory that does not hold what o expects of it, before
// Pebble would create something there. name is pebble1 or pebble2.
func CheckDir(o engine.Options, name string) error {
	switch {
	case o.Create && o.ReadOnly:
		return fmt.Errorf("create %s: the options also say read-only", o.Dir)
	case o.Create:
		return adapter.CheckEmpty(o.Dir)
	}

	found, err := dbformat.Recognise(o.Dir)
	if err != nil {
		return err
	}

	format := found.PebbleFormat
	if format == 0 {
		return &engine.NotADatabaseError{Dir: o.Dir, Why: "it is a database of " + found.Engine}
	}

	if newest := uint64(pebble.FormatNewest); format > newest {
		return engine.Fail(engine.CodeUnsupported, "%s has the format %d of Pebble, and this "+
			"program reads formats up to %d: a newer Pebble wrote it",
			o.Dir, format, newest).WithRemedy("use a newer statelab, or measure a database that " +
			"an older Pebble wrote")
	}

	if name == "pebble1" && format > dbformat.LastOfPebble1 {
		return &engine.NotADatabaseError{
			Dir: o.Dir,
			Why: fmt.Sprintf("format %d is beyond Pebble v1: use pebble2", format),
		}
	}

	if name == "pebble2" && format < FirstFormatOfV2 {
		return &engine.NotADatabaseError{
			Dir: o.Dir,
			Why: fmt.Sprintf("format %d is older than Pebble v2 reads: use pebble1", format),
		}
	}

	return nil
}
