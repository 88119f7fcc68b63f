package resolve

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	pebble1 "github.com/cockroachdb/pebble"
	bloom1 "github.com/cockroachdb/pebble/bloom"
	pebble2 "github.com/cockroachdb/pebble/v2"
	bloom2 "github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// flavour is a way to write a database.
type flavour struct {
	name          string
	version       cachesim.PebbleVersion
	format        uint64
	zstd          bool
	noIndexLevels bool // whole indexes only
	small         bool // many small tables
	inLog         bool // what is written reaches the log, and no table before a flush
}

// hasRangeKeys: the format knows them.
func (f flavour) hasRangeKeys() bool {
	return f.version == 2 || f.format >= uint64(pebble1.FormatRangeKeys)
}

func (f flavour) tableBytes(level int) int64 {
	if f.small {
		return 64 << 10
	}
	return 1 << 20 << level
}

func (f flavour) indexBlockBytes() int {
	switch {
	case f.small:
		return 128 // few entries to a partition
	case f.noIndexLevels:
		return 1 << 30
	}
	return 4096
}

func flavours() []flavour {
	return []flavour{
		{name: "pebble1 oldest", version: 1, format: uint64(pebble1.FormatMostCompatible)},
		{name: "pebble1 newest", version: 1, format: uint64(pebble1.FormatNewest)},
		{name: "pebble2 format 13", version: 2, format: 13},
		{name: "pebble2 newest", version: 2, format: uint64(pebble2.FormatNewest)},
	}
}

// store is the little of both versions that builds databases.
type store struct {
	batch      func() writeBatch
	flush      func() error
	compactAll func() error
	snapshot   func() func() error // returns how to close it
	idle       func() bool
	broken     *atomic.Pointer[error] // a compaction that fails, which Pebble tries again for ever
	memTables  func() int64           // what they hold of the cache
	close      func() error
}

type writeBatch struct {
	set          func(key, value []byte) error
	delete       func(key []byte) error
	singleDelete func(key []byte) error
	deleteSized  func(key []byte) error // where the format has it
	merge        func(key, operand []byte) error
	deleteRange  func(start, end []byte) error
	rangeKey     func(start, end []byte) error
	commit       func() error
}

// openStore opens a database that grows many levels from little data.
func openStore(t testing.TB, f flavour, dir string, compactions bool) store {
	t.Helper()
	if f.version == 1 {
		return openStore1(t, f, dir, compactions)
	}
	return openStore2(t, f, dir, compactions)
}

const (
	memTableBytes = 4 << 20
	baseBytes     = 8 << 20
	l0Threshold   = 4
)

func openStore1(t testing.TB, f flavour, dir string, compactions bool) store {
	var broken atomic.Pointer[error]
	o := &pebble1.Options{
		EventListener: &pebble1.EventListener{BackgroundError: func(err error) {
			broken.Store(&err)
		}},
		FormatMajorVersion:          pebble1.FormatMajorVersion(f.format),
		MemTableSize:                memTableBytes,
		LBaseMaxBytes:               baseBytes,
		L0CompactionThreshold:       l0Threshold,
		DisableAutomaticCompactions: !compactions,
		DisableWAL:                  !f.inLog,
		Logger:                      silent{},
		L0StopWritesThreshold:       1000,
	}

	o.Experimental.EnableValueBlocks = func() bool { return true }
	comparer := *pebble1.DefaultComparer
	// what v2's has: without it there are no range keys
	comparer.Split = func(key []byte) int { return len(key) }
	o.Comparer = &comparer
	o.Levels = make([]pebble1.LevelOptions, 7)
	for i := range o.Levels {
		l := &o.Levels[i]
		l.FilterPolicy, l.TargetFileSize = bloom1.FilterPolicy(10), f.tableBytes(i)
		if f.zstd {
			l.Compression = pebble1.ZstdCompression
		}

		l.IndexBlockSize = f.indexBlockBytes()
	}

	db, err := pebble1.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}

	return store{
		flush: db.Flush, close: db.Close,
		compactAll: func() error { return db.Compact([]byte{0}, []byte{255, 255}, true) },
		snapshot:   func() func() error { return db.NewSnapshot().Close },
		broken:     &broken,
		memTables: func() int64 {
			m := db.Metrics()
			return int64(m.MemTable.Size + m.MemTable.ZombieSize)
		},
		idle: func() bool {
			m := db.Metrics()
			return m.Compact.NumInProgress+m.Flush.NumInProgress == 0
		},
		batch: func() writeBatch {
			b := db.NewBatch()
			return writeBatch{
				set:          func(k, v []byte) error { return b.Set(k, v, nil) },
				delete:       func(k []byte) error { return b.Delete(k, nil) },
				singleDelete: func(k []byte) error { return b.SingleDelete(k, nil) },
				deleteSized: func(k []byte) error {
					if db.FormatMajorVersion() < pebble1.FormatDeleteSizedAndObsolete {
						return b.Delete(k, nil)
					}
					return b.DeleteSized(k, 110, nil)
				},
				merge:       func(k, v []byte) error { return b.Merge(k, v, nil) },
				deleteRange: func(s, e []byte) error { return b.DeleteRange(s, e, nil) },
				rangeKey: func(s, e []byte) error {
					return b.RangeKeySet(s, e, nil, []byte("v"), nil)
				},
				commit: func() error { return b.Commit(&pebble1.WriteOptions{Sync: f.inLog}) },
			}
		},
	}
}

func openStore2(t testing.TB, f flavour, dir string, compactions bool) store {
	var broken atomic.Pointer[error]
	o := &pebble2.Options{
		EventListener: &pebble2.EventListener{BackgroundError: func(err error) {
			broken.Store(&err)
		}},
		FormatMajorVersion:          pebble2.FormatMajorVersion(f.format),
		MemTableSize:                memTableBytes,
		LBaseMaxBytes:               baseBytes,
		L0CompactionThreshold:       l0Threshold,
		DisableAutomaticCompactions: !compactions,
		DisableWAL:                  !f.inLog,
		Logger:                      silent{},
		L0StopWritesThreshold:       1000,
	}

	o.Experimental.EnableValueBlocks = func() bool { return true }
	for i := range o.Levels {
		o.Levels[i].FilterPolicy, o.TargetFileSizes[i] = bloom2.FilterPolicy(10), f.tableBytes(i)
		if f.zstd {
			o.Levels[i].Compression = func() *block.CompressionProfile {
				return block.ZstdCompression
			}
		}

		o.Levels[i].IndexBlockSize = f.indexBlockBytes()
	}

	db, err := pebble2.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}

	return store{
		flush: db.Flush, close: db.Close,
		compactAll: func() error {
			return db.Compact(t.Context(), []byte{0}, []byte{255, 255}, true)
		},
		snapshot: func() func() error { return db.NewSnapshot().Close },
		broken:   &broken,
		memTables: func() int64 {
			m := db.Metrics()
			return int64(m.MemTable.Size + m.MemTable.ZombieSize)
		},
		idle: func() bool {
			m := db.Metrics()
			return m.Compact.NumInProgress+m.Flush.NumInProgress == 0
		},
		batch: func() writeBatch {
			b := db.NewBatch()
			return writeBatch{
				set:          func(k, v []byte) error { return b.Set(k, v, nil) },
				delete:       func(k []byte) error { return b.Delete(k, nil) },
				singleDelete: func(k []byte) error { return b.SingleDelete(k, nil) },
				deleteSized: func(k []byte) error {
					if db.FormatMajorVersion() < pebble2.FormatDeleteSizedAndObsolete {
						return b.Delete(k, nil)
					}
					return b.DeleteSized(k, 110, nil)
				},
				merge:       func(k, v []byte) error { return b.Merge(k, v, nil) },
				deleteRange: func(s, e []byte) error { return b.DeleteRange(s, e, nil) },
				rangeKey: func(s, e []byte) error {
					return b.RangeKeySet(s, e, nil, []byte("v"), nil)
				},
				commit: func() error { return b.Commit(&pebble2.WriteOptions{Sync: f.inLog}) },
			}
		},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testKeys(n uint64) keyspace.Keys {
	return keyspace.Keys{Count: n, Bytes: 32, Order: keyspace.Hashed, Hash: keyspace.Mix, Seed: 11}
}

// load writes keys from <= index < to in random order with values that do not
// compress.
func (s store) load(t testing.TB, keys keyspace.Keys, from, to uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(from, to))
	maker, key, value := keys.Maker(), make([]byte, keys.Bytes), make([]byte, 110)
	for i := from; i < to; {
		b := s.batch()
		for ; i < to && i%1000 != 999; i++ {
			maker.Key(key, i)
			randomize(random, value)
			must(t, b.set(key, value))
		}

		if i < to {
			maker.Key(key, i)
			must(t, b.set(key, value))
			i++
		}

		must(t, b.commit())
	}
}

func randomize(random *rand.Rand, value []byte) {
	for i := range value {
		value[i] = byte(random.Uint32())
	}
}

// settle waits until the levels have their shape.
func (s store) settle() {
	for quiet := 0; quiet < 10 && s.broken.Load() == nil; quiet++ {
		time.Sleep(10 * time.Millisecond)
		if !s.idle() {
			quiet = 0
		}
	}
}

// buildPlain loads n keys, each once, the last percent into three sublevels of
// L0.
func buildPlain(t testing.TB, f flavour, dir string, n uint64) {
	t.Helper()
	const parts = 3
	s := openStore(t, f, dir, true)
	keys := testKeys(n)
	part := n / 100 / parts
	s.load(t, keys, 0, n-parts*part)
	must(t, s.flush())
	s.settle()
	must(t, s.close())
	s = openStore(t, f, dir, false)
	for i := uint64(parts); i > 0; i-- {
		s.load(t, keys, n-i*part, n-(i-1)*part)
		must(t, s.flush())
	}

	must(t, s.close())
}
