package watch

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	pebble1 "github.com/cockroachdb/pebble"
	bloom1 "github.com/cockroachdb/pebble/bloom"
	pebble2 "github.com/cockroachdb/pebble/v2"
	bloom2 "github.com/cockroachdb/pebble/v2/bloom"
	vfs2 "github.com/cockroachdb/pebble/v2/vfs"
	vfs1 "github.com/cockroachdb/pebble/vfs"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

const (
	opensKeys       = 12_000
	opensGets       = 6_000
	opensTableBytes = 16 << 10
	opensCacheBytes = 512 << 10
)

// readFunc is told of each read of a file.
type readFunc func(path string, offset int64, bytes int)

// reader is a database that is open for Gets.
type reader struct {
	get   func(key []byte) error
	opens func() int64 // tables that the library opened so far, as it counts them; nil: it does not
	close func() error
}

// library is one whose Gets open tables.
type library struct {
	fill func(t *testing.T, dir string, each func(put func(key, value []byte) error) error)
	open func(t *testing.T, dir string, limit int, log readFunc) reader
	// shards of the table cache that divide a limit of open files
	shards int
	// memTable is what memtables take of the cache, as Cache says it: one that is opened for
	// reading has none in the first version of Pebble, and an empty one in the second.
	memTable func(cacheBytes int64) int64
}

func libraries() map[string]library {
	return map[string]library{
		"pebble1":   {fillPebble1, openPebble1, runtime.GOMAXPROCS(0), noMemTable},
		"pebble2":   {fillPebble2, openPebble2, runtime.GOMAXPROCS(0), nil},
		"goleveldb": {fillLevel, openLevel, 1, noMemTable},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func options1(limit int) *pebble1.Options {
	o := &pebble1.Options{
		MaxOpenFiles: limit, MemTableSize: 128 << 10, LBaseMaxBytes: 256 << 10,
		Levels: make([]pebble1.LevelOptions, 7), Logger: silent{},
	}
	for i := range o.Levels {
		o.Levels[i] = pebble1.LevelOptions{
			TargetFileSize: opensTableBytes, FilterPolicy: bloom1.FilterPolicy(10),
		}
	}
	return o
}

// silent logs nothing.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(format)
}

func fillPebble1(t *testing.T, dir string, each func(put func(key, value []byte) error) error) {
	db, err := pebble1.Open(dir, options1(1000))
	must(t, err)
	must(t, each(func(key, value []byte) error { return db.Set(key, value, pebble1.NoSync) }))
	must(t, db.Flush())
	must(t, db.Close())
}

// loggedFS1 logs the reads of files.
type loggedFS1 struct {
	vfs1.FS
	log readFunc
}

func (f loggedFS1) Open(name string, options ...vfs1.OpenOption) (vfs1.File, error) {
	file, err := f.FS.Open(name, options...)
	if err != nil {
		return nil, err
	}
	return loggedFile1{file, name, f.log}, nil
}

type loggedFile1 struct {
	vfs1.File
	name string
	log  readFunc
}

func (f loggedFile1) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	f.log(f.name, offset, n)
	return n, err
}

func openPebble1(t *testing.T, dir string, limit int, log readFunc) reader {
	o := options1(limit)
	cache := pebble1.NewCache(opensCacheBytes)
	defer cache.Unref()
	o.Cache, o.ReadOnly, o.FS = cache, true, loggedFS1{vfs1.Default, log}
	db, err := pebble1.Open(dir, o)
	must(t, err)
	return reader{
		get: func(key []byte) error {
			_, closer, err := db.Get(key)
			if err != nil {
				return err
			}
			return closer.Close()
		},
		opens: func() int64 { return db.Metrics().TableCache.Misses },
		close: db.Close,
	}
}

func options2(limit int) *pebble2.Options {
	o := &pebble2.Options{
		MaxOpenFiles: limit, MemTableSize: 256 << 10, LBaseMaxBytes: 256 << 10, Logger: silent{},
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom2.FilterPolicy(10)
	}
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = opensTableBytes
	}
	return o
}

func fillPebble2(t *testing.T, dir string, each func(put func(key, value []byte) error) error) {
	db, err := pebble2.Open(dir, options2(1000))
	must(t, err)
	must(t, each(func(key, value []byte) error { return db.Set(key, value, pebble2.NoSync) }))
	must(t, db.Flush())
	must(t, db.Close())
}

// loggedFS2 logs the reads of files.
type loggedFS2 struct {
	vfs2.FS
	log readFunc
}

func (f loggedFS2) Open(name string, options ...vfs2.OpenOption) (vfs2.File, error) {
	file, err := f.FS.Open(name, options...)
	if err != nil {
		return nil, err
	}
	return loggedFile2{file, name, f.log}, nil
}

type loggedFile2 struct {
	vfs2.File
	name string
	log  readFunc
}

func (f loggedFile2) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	f.log(f.name, offset, n)
	return n, err
}

func openPebble2(t *testing.T, dir string, limit int, log readFunc) reader {
	o := options2(limit)
	cache := pebble2.NewCache(opensCacheBytes)
	defer cache.Unref()
	o.Cache, o.ReadOnly, o.FS = cache, true, loggedFS2{vfs2.Default, log}
	db, err := pebble2.Open(dir, o)
	must(t, err)
	return reader{
		get: func(key []byte) error {
			_, closer, err := db.Get(key)
			if err != nil {
				return err
			}
			return closer.Close()
		},
		opens: func() int64 { return db.Metrics().FileCache.Misses },
		close: db.Close,
	}
}

func levelOptions(limit int) *opt.Options {
	return &opt.Options{
		OpenFilesCacheCapacity: limit,
		BlockCacheCapacity:     opensCacheBytes,
		CompactionTableSize:    opensTableBytes,
		CompactionTotalSize:    256 << 10,
		WriteBuffer:            128 << 10,
		Filter:                 filter.NewBloomFilter(10),
	}
}

func fillLevel(t *testing.T, dir string, each func(put func(key, value []byte) error) error) {
	db, err := leveldb.OpenFile(dir, levelOptions(500))
	must(t, err)
	must(t, each(func(key, value []byte) error { return db.Put(key, value, nil) }))
	must(t, db.Close())
	// Opened for reading, it cannot read two journals, of which this opening makes one.
	db, err = leveldb.OpenFile(dir, levelOptions(500))
	must(t, err)
	must(t, db.Close())
}

// loggedStorage logs the reads of tables.
type loggedStorage struct {
	storage.Storage
	dir string
	log readFunc
}

func (s loggedStorage) Open(fd storage.FileDesc) (storage.Reader, error) {
	file, err := s.Storage.Open(fd)
	if err != nil {
		return nil, err
	}
	return loggedReader{file, filepath.Join(s.dir, fd.String()), s.log}, nil
}

type loggedReader struct {
	storage.Reader
	name string
	log  readFunc
}

func (r loggedReader) ReadAt(p []byte, offset int64) (int, error) {
	n, err := r.Reader.ReadAt(p, offset)
	r.log(r.name, offset, n)
	return n, err
}

func openLevel(t *testing.T, dir string, limit int, log readFunc) reader {
	files, err := storage.OpenFile(dir, true)
	must(t, err)
	o := levelOptions(limit)
	o.ReadOnly = true
	db, err := leveldb.Open(loggedStorage{files, dir, log}, o)
	must(t, err)
	return reader{
		get: func(key []byte) error {
			_, err := db.Get(key, nil)
			return err
		},
		close: func() error {
			if err := db.Close(); err != nil {
				return err
			}
			return files.Close()
		},
	}
}

func opensKey(i uint64) []byte {
	key := sha256.Sum256(binary.BigEndian.AppendUint64(nil, i))
	return key[:]
}

// seenGets makes Gets in the library with a limit of open files, and is what was seen of them: the
// reads of each. own are the tables that the second half opened, as the library counts them.
func seenGets(t *testing.T, name, dir string, l library, limit int) (a *analysis, own int64) {
	t.Helper()
	layout := LayoutOf(name, dir)
	c := &collector{
		dir: dir, layout: layout, histogram: measure.NewHistogram(), others: map[string]sum{},
		follow: followDatabase(layout),
	}
	tables, reads := map[string]*table{}, []read(nil)
	r := l.open(t, dir, limit, func(path string, offset int64, bytes int) {
		ext := filepath.Ext(path)
		if ext != ".sst" && ext != ".ldb" {
			return
		}

		known := tables[path]
		if known == nil {
			number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ext), 10, 64)
			if err != nil {
				t.Error(err)
			}
			known = &table{number: number, level: engine.LevelUnknown}
			if known.anatomy, err = layout.Learn(path); err != nil {
				t.Error(err)
			}
			tables[path] = known
		}
		reads = append(reads, read{table: known, offset: offset, bytes: int32(bytes)})
	})

	rng, before := rand.New(rand.NewPCG(2, 2)), int64(0)
	for i := range opensGets {
		if reads = nil; i == opensGets/2 && r.opens != nil {
			before = r.opens()
		}

		key, start := opensKey(rng.Uint64N(opensKeys)), probe.Now()
		must(t, r.get(key))
		c.keys = append(c.keys, key...)
		c.gets = append(c.gets, get{start: start, end: probe.Now(), keyEnd: uint64(len(c.keys)),
			reads: reads})
		c.errorOf = append(c.errorOf, 0)
	}

	if r.opens != nil {
		own = r.opens() - before
	}

	must(t, r.close())
	must(t, c.follow.end())
	must(t, c.follow.err)
	t.Cleanup(func() { must(t, c.follow.Close()) })
	c.watched = time.Second
	a = &analysis{collector: c, order: c.inOrder(), options: Options{Tell: func(result.Event) {}},
		cache: Cache{
			MemTable:     l.memTable,
			WatchedCache: result.WatchedCache{Bytes: opensCacheBytes},
			OpenFiles:    OpenFiles{Option: "limit", Limit: limit, Shards: l.shards}}}
	a.w = result.Watch{Why: map[string]string{}, Seconds: 1,
		Process: result.WatchedProcess{Engine: name, Cores: runtime.GOMAXPROCS(0),
			Memory: &result.WatchedMemory{MachineBytes: 1 << 30}}}
	return a, own
}

// TestOpenedTables: of Gets that open tables again, opens are seen as the library counts them; the
// model of its table cache has as many, the simulated block cache reads as much as was read, and
// what would be read with all tables open is what was read when they were.
func TestOpenedTables(t *testing.T) {
	testring.Outer(t, "it loads databases of a hundred tables")
	for name, l := range libraries() {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			rng := rand.New(rand.NewPCG(1, 1))
			l.fill(t, dir, func(put func(key, value []byte) error) error {
				value := make([]byte, 100)
				for i := range uint64(opensKeys) {
					for j := range value {
						value[j] = byte(rng.Uint32())
					}
					if err := put(opensKey(i), value); err != nil {
						return err
					}
				}
				return nil
			})

			files, err := filepath.Glob(filepath.Join(dir, "*.[sl][sd][tb]"))
			must(t, err)
			tables := len(files)
			shown := seenWith(t, name, dir, l, 10*tables).w
			for _, limit := range []int{tables / 10, tables / 2, tables * 9 / 10, tables + 1} {
				a := compareOpens(t, name, dir, l, tables, limit)
				o := a.w.OpenFiles
				if o == nil {
					continue
				}

				if enough := seenWith(t, name, dir, l, o.Enough); enough.reopens(opensGets / 2) {
					t.Errorf("with a limit of %d, Gets still open tables", o.Enough)
				}

				if got, want := o.AllOpen.BlockReadsPerGet, shown.Simulated.Seen; !within(got, want,
					0.02) {
					t.Errorf("limit %d: %.4f reads with all tables open, and then %.4f", limit, got,
						want)
				}
			}
		})
	}
}

// seenWith is what a watch tells of Gets with a limit of open files.
func seenWith(t *testing.T, name, dir string, l library, limit int) *analysis {
	t.Helper()
	a, _ := seenGets(t, name, dir, l, limit)
	a.count()
	must(t, a.resolve(t.Context()))
	return a
}

// reopens reports whether a Get from one on opened a table that an earlier one had read.
func (a *analysis) reopens(from int) bool {
	known := map[uint64]bool{}
	for i := range a.gets {
		for _, file := range a.gets[i].opened() {
			if i >= from && known[file] {
				return true
			}
			known[file] = true
		}
	}
	return false
}

func compareOpens(t *testing.T, name, dir string, l library, tables, limit int) *analysis {
	t.Helper()
	a, own := seenGets(t, name, dir, l, limit)
	if name == "goleveldb" {
		a.cache.OpenFiles.Limit = 0 // nothing tells
	}

	a.count()
	must(t, a.resolve(t.Context()))
	w, o, s := &a.w, a.w.OpenFiles, a.w.Simulated
	if s == nil || !within(s.BlockReadsPerGet, s.Seen, 0.02) || w.UnexplainedReads > 0 {
		t.Fatalf("%d tables, limit %d: simulated %+v, %d reads unexplained (%v)", tables, limit, s,
			w.UnexplainedReads, w.Why)
	}

	if o == nil {
		t.Logf("%d tables, limit %d: all stay open, %.4f reads", tables, limit, s.Seen)
		return a
	}

	const gets = opensGets / 2
	t.Logf("%d tables, limit %d (%d): %.4f opens seen, %.4f by the library, %.4f simulated, %.4f "+
		"reads to open; %.4f reads seen, %.4f simulated, %.4f with all open; %d is enough", tables,
		limit, o.Limit, o.OpensSeen, float64(own)/gets, o.OpensSimulated.OrZero(),
		w.OrZero(figure.TableOpenReadsPerGet), s.Seen, s.BlockReadsPerGet,
		o.AllOpen.BlockReadsPerGet, o.Enough)
	if own > 0 && o.OpensSeen != float64(own)/gets {
		t.Errorf("limit %d: %v opens seen, the library counted %d", limit, o.OpensSeen*gets, own)
	}

	if limit != o.Limit {
		t.Errorf("a limit of %d, and not %d", o.Limit, limit)
	}

	if n, known := o.OpensSimulated.Number(); !known || !within(n, o.OpensSeen, 0.02) {
		t.Errorf("limit %d: %v opens simulated, %v seen", limit, n, o.OpensSeen)
	}

	return a
}

// within reports whether two figures differ by at most this share, or by next to nothing.
func within(a, b, share float64) bool { return max(a-b, b-a) <= max(0.005, share*b) }

// TestPolicyOfLoggedCache: caches are simulated with the pools that the LOG tells of, or the answer
// says in the field's words why they are not.
func TestPolicyOfLoggedCache(t *testing.T) {
	of := func(kind string, high, low float64) optionsfile.BlockCache {
		return optionsfile.BlockCache{Kind: kind, Bytes: 8 << 20, HighShare: high, LowShare: low}
	}

	for _, c := range []struct {
		cache  optionsfile.BlockCache
		policy cachesim.Policy
		high   float64 // negative: of no matter
		absent string
	}{
		{of("LRUCache", 0.5, 0), cachesim.PooledLRUPolicy, 0.5, ""},
		{of("LRUCache", 0, 0), cachesim.PooledLRUPolicy, 0, ""},
		{of("LRUCache", 0.5, 0.3), "", -1, "low_pri_pool_ratio=0.3"},
		{of("AutoHyperClockCache", 0, 0), cachesim.HyperClockPolicy, -1, ""},
		{of("TieredCache", 0, 0), "", -1, "its block cache is a TieredCache"},
	} {
		policy, high, absent := policyOf(c.cache)
		if policy != c.policy || (high != nil) != (c.high >= 0) || high != nil && *high != c.high ||
			!strings.Contains(absent, c.absent) || (absent == "") != (c.absent == "") {
			t.Errorf("%+v: %q %v %q", c.cache, policy, high, absent)
		}
	}
}

// TestOptionWarnings: a watch tells of options that it does not know, as other verbs do.
func TestOptionWarnings(t *testing.T) {
	dir := t.TempDir()
	const text = "[Version]\n  rocksdb_version=12.0.0\n[DBOptions]\n  newest_option=7\n" +
		"[CFOptions \"a\"]\n  strange=1\n[CFOptions \"b\"]\n  stranger=1\n"
	must(t, os.WriteFile(filepath.Join(dir, "OPTIONS-000007"), []byte(text), 0o644))
	warnings := Layout{Dir: dir}.optionWarnings([]string{"a"})
	if len(warnings) != 1 || !strings.Contains(warnings[0].Text, "newest_option=7") ||
		!strings.Contains(warnings[0].Text, "strange=1") ||
		strings.Contains(warnings[0].Text, "stranger") {
		t.Errorf("%+v", warnings)
	}
}

// TestOpenFilesOfPebble: the limit is that of the OPTIONS file, with the shards of the table cache.
func TestOpenFilesOfPebble(t *testing.T) {
	sections, err := optionsfile.Parse(strings.NewReader("[Options]\n  cache_size=1\n" +
		"  mem_table_size=1\n  max_open_files=80\n  table_cache_shards=4\n"))
	must(t, err)
	if s, err := advice.SettingsOf(sections); err != nil || s.Handles != 80 || s.TableShards != 4 {
		t.Errorf("%+v, %v", s, err)
	}
}
