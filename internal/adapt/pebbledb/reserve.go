package pebbledb

import (
	"cmp"

	"github.com/statelab/statelab/engine"
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
	if adapter == "pebble1" {
		if readOnly {
			return 0, nil
		}
		return firstMemTableBytes, nil
	}
	if readOnly {
		return firstMemTableBytes, nil
	}
	all := []Profile{BenchKVDB(), GethV1(), GethV2(), Columnar(FirstFormatOfV2), Default()}
	s, errs := Resolve(all, engine.Options{Profile: profile, CacheBytes: cacheBytes})
	if len(errs) > 0 {
		return 0, errs[0]
	}
	return firstMemTableBytes + min(2*firstMemTableBytes, cmp.Or(int64(s.MemTableSize), libraryMemTableBytes)), nil
}
