package pebble2_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/remote"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/blockreads"
	"github.com/statelab/statelab/blockreads/pebble2"
	"github.com/statelab/statelab/internal/observe/blockio"
)

const keys = 30_000

func key(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15) }

// options have small blocks, so that few keys make tables with two levels of index.
func options(fs vfs.FS) *pebble.Options {
	o := &pebble.Options{FS: fs, Logger: quiet{}}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 512
		o.Levels[i].IndexBlockSize = 512
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// load makes a database whose tables are on the last level.
func load(t testing.TB, dir string, o *pebble.Options) {
	t.Helper()
	db := open(t, dir, o)
	write(t, db, 0, keys)
	must(t, db.Flush())
	must(t, db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	must(t, db.Close())
}

func open(t testing.TB, dir string, o *pebble.Options) *pebble.DB {
	t.Helper()
	db, err := pebble.Open(dir, o)
	must(t, err)
	return db
}

func write(t testing.TB, db *pebble.DB, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must(t, db.Set(key(i), []byte(strings.Repeat(string(rune('a'+i%26)), 60)), pebble.NoSync))
	}
}

// get makes Gets of keys in an order that seed decides.
func get(t testing.TB, db *pebble.DB, n int, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		_, closer, err := db.Get(key(rng.IntN(keys)))
		must(t, err)
		must(t, closer.Close())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadsAreCacheMisses: Pebble counts the misses of its block cache by itself.
func TestReadsAreCacheMisses(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"disk": vfs.Default, "memory": vfs.NewMem()} {
		for _, threads := range []int{1, 4} {
			t.Run(fmt.Sprint(name, "/", threads), func(t *testing.T) {
				dir := t.TempDir()
				if name == "memory" {
					must(t, fs.MkdirAll(dir, 0o755))
				}

				load(t, dir, options(fs))
				o := options(fs)
				o.ReadOnly = true // Pebble loads no statistics of tables then
				o.Cache = pebble.NewCache(1 << 20)
				defer o.Cache.Unref()
				counter := pebble2.Attach(o)
				db := open(t, dir, o)
				defer func() { must(t, db.Close()) }()
				stop, err := counter.Follow(db)
				must(t, err)
				defer stop()
				get(t, db, 5000, 1)

				before, metrics := counter.Snapshot(), db.Metrics()
				var workers sync.WaitGroup
				for i := range threads {
					workers.Go(func() { get(t, db, 5000, uint64(i)) })
				}

				workers.Wait()
				reads, misses := counter.Snapshot().Sub(before), db.Metrics().BlockCache.Misses-
					metrics.BlockCache.Misses
				if reads.TableOpens != 0 {
					t.Fatalf("%d tables opened after the warm-up", reads.TableOpens)
				}

				// Of readers that miss the same block at once, one reads it.
				got := reads.Total().Count
				if got == 0 || got > misses || threads == 1 && got != misses {
					t.Errorf("%d block reads, %d misses of the cache", got, misses)
				}

				last := reads.Reads.Level(6)
				if last != reads.Total() {
					t.Errorf("%v reads of level 6, %v of all", last, reads.Total())
				}

				if err := counter.Err(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestTypes: with a cache that admits no block, a Get reads all that it needs.
func TestTypes(t *testing.T) {
	dir := t.TempDir()
	load(t, dir, options(vfs.Default))
	o := options(vfs.Default)
	o.ReadOnly = true
	o.Cache = pebble.NewCache(1)
	defer o.Cache.Unref()
	counter := pebble2.Attach(o)
	db := open(t, dir, o)
	defer func() { must(t, db.Close()) }()
	get(t, db, 5000, 1)
	before := counter.Snapshot()
	const gets = 1000
	get(t, db, gets, 2)
	d := counter.Snapshot().Sub(before)
	for _, kind := range []blockreads.BlockType{blockreads.TopIndex, blockreads.Index,
		blockreads.Data} {
		if got := d.Reads.Type(kind).Count; got != gets {
			t.Errorf("%d reads of %v blocks, want one for each of %d Gets", got, kind, gets)
		}
	}

	if d.Total().Count != 3*gets {
		t.Errorf("others are read, too:\n%v", d)
	}
}

// TestLevelsFollow: reads count under the level on which their table is now.
func TestLevelsFollow(t *testing.T) {
	dir, o := t.TempDir(), options(vfs.Default)
	o.DisableAutomaticCompactions = true
	counter := pebble2.Attach(o)
	db := open(t, dir, o)
	defer func() { must(t, db.Close()) }()
	write(t, db, 0, keys)
	must(t, db.Flush())
	get(t, db, 100, 1)
	unknown := counter.Snapshot()
	if got := unknown.Reads.Level(blockreads.LevelUnknown); got != unknown.Total() ||
		got.Count == 0 {
		t.Errorf("%v reads of unknown level, want all %v", got, unknown.Total())
	}

	stop, err := counter.Follow(db)
	must(t, err)
	defer stop()
	if _, err := counter.Follow(db); err == nil {
		t.Error("followed twice")
	}

	get(t, db, 2000, 2)
	first := counter.Snapshot().Sub(unknown)
	if got := first.Reads.Level(0); got != first.Total() || got.Count == 0 {
		t.Errorf("%v reads of level 0, want all %v", got, first.Total())
	}

	must(t, db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	for seed := uint64(3); ; seed++ { // until the follower has seen the compaction
		before := counter.Snapshot()
		get(t, db, 500, seed)
		if d := counter.Snapshot().Sub(before); d.Reads.Level(6) == d.Total() {
			break
		}
	}
}

// TestOtherOrder: tables of a program's own comparer and merger have known layouts.
func TestOtherOrder(t *testing.T) {
	own := func() *pebble.Options {
		o := options(vfs.Default)
		comparer, merger := *pebble.DefaultComparer, *pebble.DefaultMerger
		comparer.Name, merger.Name = "own order", "own merger"
		o.Comparer, o.Merger = &comparer, &merger
		return o
	}

	dir := t.TempDir()
	load(t, dir, own())
	o := own()
	counter := pebble2.Attach(o)
	db := open(t, dir, o)
	defer func() { must(t, db.Close()) }()
	get(t, db, 100, 1)
	s := counter.Snapshot()
	if err := counter.Err(); err != nil || s.Untyped != (blockreads.Snapshot{}.Untyped) ||
		s.Reads.Type(blockreads.Data).Count == 0 {
		t.Errorf("%v, %v", err, s)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	dir, o := t.TempDir(), options(vfs.Default)
	load(t, dir, options(vfs.Default))
	counter := pebble2.Attach(o)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	must(t, err)
	file, err := o.FS.Open(tables[0], vfs.RandomReadsOption)
	must(t, err)
	defer file.Close()
	block := make([]byte, 4096)
	read := func() {
		if _, err := file.ReadAt(block, 0); err != nil {
			t.Fatal(err)
		}
	}

	const reads = 100
	read() // learns the layout
	if n := testing.AllocsPerRun(reads, read); n != 0 {
		t.Errorf("%v allocations a read", n)
	}

	// AllocsPerRun calls once more before it counts.
	s := counter.Snapshot()
	if got := s.Reads.Type(blockreads.Data).Count; got != reads+2 {
		t.Errorf("%d reads counted, want %d", got, reads+2)
	}
}

func TestDirect(t *testing.T) {
	dir := t.TempDir()
	load(t, dir, options(vfs.Default))
	if err := blockio.CheckDirect(dir); err != nil {
		t.Skip(err)
	}

	o := options(vfs.Default)
	o.ReadOnly = true
	counter := pebble2.AttachDirect(o)
	db := open(t, dir, o)
	defer func() { must(t, db.Close()) }()
	_, closer, err := db.Get(key(1))
	must(t, err)
	must(t, closer.Close())
	s := counter.Snapshot()
	if s.DirectBytes < s.Total().Bytes || s.DirectBytes%512 != 0 {
		t.Errorf("%d bytes of the device for %d", s.DirectBytes, s.Total().Bytes)
	}
}

// TestRemoteTables: their reads do not come by a file system, and the snapshot says how many there
// are.
func TestRemoteTables(t *testing.T) {
	dir, o := t.TempDir(), options(vfs.Default)
	o.Experimental.RemoteStorage = remote.MakeSimpleFactory(map[remote.Locator]remote.Storage{
		"": remote.NewInMem(),
	})
	o.Experimental.CreateOnShared = remote.CreateOnSharedAll
	o.FormatMajorVersion = pebble.FormatNewest
	counter := pebble2.Attach(o)
	db := open(t, dir, o)
	defer func() { must(t, db.Close()) }()
	must(t, db.SetCreatorID(1))
	write(t, db, 0, keys)
	must(t, db.Flush())
	stop, err := counter.Follow(db)
	must(t, err)
	defer stop()
	get(t, db, 100, 1)
	if s := counter.Snapshot(); s.RemoteTables == 0 || s.Total().Count != 0 ||
		!strings.Contains(s.String(), "remote tables, not counted") {
		t.Errorf("%d remote tables, %d reads:\n%v", s.RemoteTables, s.Total().Count, s)
	}
}

// TestVirtualTables: two tables share a file after an excision; their blocks have the file's
// layout.
func TestVirtualTables(t *testing.T) {
	dir, o := t.TempDir(), options(vfs.Default)
	o.FormatMajorVersion = pebble.FormatNewest
	o.DisableAutomaticCompactions = true
	o.Cache = pebble.NewCache(1)
	defer o.Cache.Unref()
	counter := pebble2.Attach(o)
	db := open(t, dir, o)
	defer func() { must(t, db.Close()) }()
	write(t, db, 0, keys)
	must(t, db.Flush())
	must(t, db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	must(t, db.Excise(t.Context(), pebble.KeyRange{Start: []byte{0x70}, End: []byte{0x71}}))

	tables, err := db.SSTables()
	must(t, err)
	virtual := 0
	for _, table := range tables[6] {
		if table.Virtual {
			virtual++
		}
	}

	if virtual < 2 {
		t.Fatalf("%d virtual tables", virtual)
	}

	stop, err := counter.Follow(db)
	must(t, err)
	defer stop()
	before := counter.Snapshot()
	for i := range 2000 {
		if _, closer, err := db.Get(key(i)); err == nil {
			must(t, closer.Close())
		}
	}

	s := counter.Snapshot().Sub(before)
	if s.Reads[6][blockreads.Data].Count == 0 || s.Reads.Level(6) != s.Total() {
		t.Errorf("not all reads are of known type and level:\n%v", s)
	}
}

// TestOtherOptions: a counter that nothing reads through is refused, not followed by zeros.
func TestOtherOptions(t *testing.T) {
	attached := options(vfs.NewMem())
	counter := pebble2.Attach(attached)
	db, other := open(t, "db", attached), open(t, "db", options(vfs.NewMem()))
	defer func() {
		must(t, db.Close())
		must(t, other.Close())
	}()
	if _, err := counter.Follow(other); err == nil ||
		!strings.Contains(err.Error(), "Attach(options)") {
		t.Errorf("a database opened with other options: %v", err)
	}

	stop, err := counter.Follow(db) // a database without a table
	must(t, err)
	stop()
}

// TestAttachedTwice: the first counter would count what the second reads of layouts.
func TestAttachedTwice(t *testing.T) {
	o := options(vfs.NewMem())
	pebble2.Attach(o)
	defer func() {
		if recover() == nil {
			t.Error("attached twice")
		}
	}()
	pebble2.Attach(o.Clone())
}

// TestMemtablesTakeTheCache: Pebble charges memtables, of 4 MiB by default, to the block cache.
func TestMemtablesTakeTheCache(t *testing.T) {
	for memTable, want := range map[uint64]bool{0: true, 64 << 10: false} {
		o := options(vfs.NewMem())
		o.MemTableSize = memTable
		o.Cache = pebble.NewCache(256 << 10)
		counter := pebble2.Attach(o)
		db := open(t, "db", o)
		write(t, db, 0, keys)
		must(t, db.Flush())
		get(t, db, 500, 1)
		counter.Snapshot()
		err := counter.Err()
		if got := err != nil && strings.Contains(err.Error(), "options.MemTableSize"); got != want {
			t.Errorf("memtables of %d bytes: %v", memTable, err)
		}

		must(t, db.Close())
		counter.Snapshot() // when the cache is empty
		if again := counter.Err(); (again != nil) != want {
			t.Errorf("after Close: %v", again)
		}
		o.Cache.Unref()
	}
}
