package goleveldb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	leveldbtable "github.com/syndtr/goleveldb/leveldb/table"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/blockio"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }

// fullStorage makes no files.
type fullStorage struct{ storage.Storage }

func (fullStorage) Create(storage.FileDesc) (storage.Writer, error) { return nil, syscall.ENOSPC }

// A database whose memtable cannot be flushed closes: goleveldb's own Close would wait for ever.
func TestClosesAfterAFailedFlush(t *testing.T) {
	d := opened(t, engine.Options{Dir: filepath.Join(t.TempDir(), "db"), Create: true})
	w, err := d.Writer()
	must(t, err)
	must(t, w.Put([]byte("key"), []byte("value")))
	must(t, w.Commit())
	d.storage.Storage = fullStorage{d.storage.Storage}
	if err := d.flush(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("flush: %v", err)
	}

	must(t, d.Close())
}

const n = 100_000

func key(i uint64) []byte {
	k := make([]byte, 32)
	binary.BigEndian.PutUint64(k, i*0x9e3779b97f4a7c15)
	return k
}

// levelBytes times 2 to the power of its number is what a level of TestLevelsBeyondTheSeventh may
// hold.
const levelBytes = 1 << 10

// TestLevelsBeyondTheSeventh: LevelDB adds levels as it grows. What the library counts by level,
// Stats has; what Gets read of each, its own reader of tables says.
func TestLevelsBeyondTheSeventh(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	small := &opt.Options{
		WriteBuffer:                   16 << 10,
		CompactionTableSize:           4 << 10,
		CompactionTotalSize:           levelBytes,
		CompactionTotalSizeMultiplier: 2,
		BlockSize:                     1 << 10,
		Compression:                   opt.NoCompression,
		NoSync:                        true,
	}

	writer, err := leveldb.OpenFile(dir, small)
	must(t, err)
	const keys = 5000
	for i := range uint64(keys) {
		must(t, writer.Put(key(i), make([]byte, 100), nil))
	}

	awaitLevels(t, writer, small)
	must(t, writer.Close())

	// A quarter of the keys is written again, and stays on level 0.
	small.CompactionL0Trigger, small.WriteL0SlowdownTrigger, small.WriteL0PauseTrigger = 1000,
		1000, 1000
	writer, err = leveldb.OpenFile(dir, small)
	must(t, err)
	for i := range uint64(keys / 4) {
		must(t, writer.Put(key(4*i), make([]byte, 100), nil))
	}

	must(t, writer.Close())
	writer, err = leveldb.OpenFile(dir, small) // makes a table of the journal
	must(t, err)
	must(t, writer.Close())

	d := opened(t, engine.Options{Dir: dir, Foreign: true, TraceAccesses: true})
	var told leveldb.DBStats
	must(t, d.leveldb.Stats(&told))
	shape, err := d.Shape()
	must(t, err)
	deepest, bytes := 0, int64(0)
	for _, l := range shape.Levels {
		if l.Files != told.LevelTablesCounts[l.Level] || l.Bytes != told.LevelSizes[l.Level] {
			t.Errorf("L%d: %d files of %d bytes, the library has %d of %d", l.Level, l.Files,
				l.Bytes, told.LevelTablesCounts[l.Level], told.LevelSizes[l.Level])
		}
		deepest, bytes = max(deepest, l.Level), bytes+l.Bytes
	}

	if deepest < 8 || shape.Bytes != bytes {
		t.Fatalf("levels down to L%d, %d bytes of %d", deepest, bytes, shape.Bytes)
	}

	tables := libraryTables(t, d)
	var want [engine.MaxLevels]int64
	r, err := d.Reader()
	must(t, err)
	before := d.Counters()
	for i := range uint64(keys) {
		get(t, r, i)
		ask(t, tables, key(i), &want)
	}

	c := d.Counters().Sub(before)
	var beyond int64
	for level, want := range want {
		if level > 7 {
			beyond += want
		}

		if data := c.Reads[level][engine.Data].Count; data != want {
			t.Errorf("%d data blocks of L%d were read, the library's reader of tables reads %d",
				data, level, want)
		}
	}

	if want[0] == 0 || beyond == 0 {
		t.Errorf("data blocks read by level, none of L0 or none beyond L7: %v", want)
	}

	if unknown := c.Reads.Level(engine.LevelUnknown).Count; unknown != 0 {
		t.Errorf("%d reads of no known level", unknown)
	}

	must(t, d.Close())
}

// awaitLevels waits until goleveldb has no compaction left to do, which is when no level holds more
// than it may. Then a database that is larger than the upper levels together has deeper ones.
func awaitLevels(t *testing.T, database *leveldb.DB, o *opt.Options) {
	t.Helper()
	beyond := bytes.Repeat([]byte{255}, 64) // all keys
	for due := true; due; time.Sleep(time.Millisecond) {
		// A flush that ends while goleveldb is about to sleep does not wake it. A range without
		// keys does, and compacts nothing.
		must(t, database.CompactRange(util.Range{Start: beyond}))
		var told leveldb.DBStats
		must(t, database.Stats(&told))
		due = told.LevelTablesCounts[0] >= o.GetCompactionL0Trigger()
		for level, bytes := range told.LevelSizes {
			due = due || level > 0 && bytes >= o.GetCompactionTotalSize(level)
		}
	}
}

// libraryTable is a table that goleveldb's own reader reads, which holds the index in memory.
type libraryTable struct {
	*leveldbtable.Reader
	level    int
	from, to []byte
	reads    *countedReads
}

type countedReads struct {
	io.ReaderAt
	count int64
}

func (c *countedReads) ReadAt(p []byte, offset int64) (int, error) {
	c.count++
	return c.ReaderAt.ReadAt(p, offset)
}

// internalOrder is that of the keys in tables: the newest of a key first.
type internalOrder struct{ comparer.Comparer }

func (internalOrder) Compare(a, b []byte) int {
	x, y := len(a)-internalBytes, len(b)-internalBytes
	return cmp.Or(bytes.Compare(a[:x], b[:y]),
		cmp.Compare(binary.LittleEndian.Uint64(b[y:]), binary.LittleEndian.Uint64(a[x:])))
}

// libraryTables opens all tables of a database, the upper levels first.
func libraryTables(t *testing.T, d *db) []libraryTable {
	t.Helper()
	listed, err := d.tables()
	must(t, err)
	slices.SortStableFunc(listed, func(a, b blockio.LiveTable) int {
		return cmp.Compare(a.Level, b.Level)
	})
	var tables []libraryTable
	for _, l := range listed {
		content, err := os.ReadFile(d.storage.tablePath(l.Number))
		must(t, err)
		reads := &countedReads{ReaderAt: bytes.NewReader(content)}
		options := &opt.Options{Comparer: internalOrder{comparer.DefaultComparer}}
		reader, err := leveldbtable.NewReader(reads, int64(len(content)), storage.FileDesc{}, nil,
			nil, options)
		must(t, err)
		opened := libraryTable{Reader: reader, level: l.Level, reads: reads}
		all := reader.NewIterator(nil, nil)
		if !all.First() {
			t.Fatalf("table %d: %v", l.Number, all.Error())
		}

		opened.from = bytes.Clone(all.Key()[:len(all.Key())-internalBytes])
		all.Last()
		opened.to = bytes.Clone(all.Key()[:len(all.Key())-internalBytes])
		all.Release()
		tables = append(tables, opened)
	}

	return tables
}

// ask reads a key as LevelDB's format demands, and counts data blocks by level: every table of
// level 0 that may hold it, then the one of each level, until a level has it.
func ask(t *testing.T, tables []libraryTable, key []byte, reads *[engine.MaxLevels]int64) {
	t.Helper()
	newest := append(bytes.Clone(key), 1, 255, 255, 255, 255, 255, 255, 255)
	found := engine.MaxLevels
	for _, l := range tables {
		if l.level > found || bytes.Compare(key, l.from) < 0 || bytes.Compare(key, l.to) > 0 {
			continue
		}

		before := l.reads.count
		next, _, err := l.Find(newest, false, nil)
		must(t, err)
		reads[l.level] += l.reads.count - before
		if bytes.Equal(next[:len(next)-internalBytes], key) {
			found = l.level
		}
	}

	if found == engine.MaxLevels {
		t.Fatalf("key %x is in no table", key)
	}
}

// load makes a settled database of several levels and closes it.
func load(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	d := opened(t, engine.Options{Dir: dir, Create: true, Overrides: map[string]string{
		"WriteBuffer": "1MiB", "CompactionTableSize": "512KiB", "CompactionTotalSize": "1MiB",
	}})
	w, err := d.Writer()
	must(t, err)
	rng, value := rand.NewChaCha8([32]byte{}), make([]byte, 110)
	for i := range uint64(n) {
		rng.Read(value)
		must(t, w.Put(key(i), value))
		if i%1000 == 999 {
			must(t, w.Commit())
		}
	}

	must(t, d.Settle(t.Context(), nil))
	must(t, d.Close())
	return dir
}

func opened(t testing.TB, o engine.Options) *db {
	t.Helper()
	d, err := Engine{}.Open(t.Context(), o)
	must(t, err)
	return d.(*db)
}

func get(t testing.TB, r engine.Reader, i uint64) {
	t.Helper()
	if _, found, err := r.Get(key(i), nil); err != nil || !found {
		t.Fatalf("key %d: %v, %v", i, found, err)
	}
}

// TestCountsBesideTheEngine holds counts and sizes of the adapter against what
// goleveldb counts itself.
func TestCountsBesideTheEngine(t *testing.T) {
	d := opened(t, engine.Options{Dir: load(t), CacheBytes: 256 << 20})
	defer func() { must(t, d.Close()) }()
	r, err := d.Reader()
	must(t, err)
	for i := range uint64(n) {
		get(t, r, i)
	}

	var s leveldb.DBStats
	must(t, d.leveldb.Stats(&s))
	c := d.Counters()
	if got := c.Reads.Total().Bytes; uint64(got) < s.IORead*99/100 || uint64(got) > s.IORead {
		// What is missing are manifest and journal, read at open.
		t.Errorf("%d bytes of block reads, goleveldb read %d", got, s.IORead)
	}

	if meta := c.Reads.Type(engine.Meta).Count; meta != 2*(*c.TableOpens) {
		t.Errorf("%d meta reads of %d tables opened, want two each", meta, *c.TableOpens)
	}

	if cached := c.Reads.Total().Count - *c.UncachedReads; *c.TableOpens == 0 ||
		cached != *c.CacheMisses {
		t.Errorf("%d reads by way of the cache while %d tables were opened, goleveldb counts %d "+
			"misses", cached, *c.TableOpens, *c.CacheMisses)
	}

	shape, err := d.Shape()
	must(t, err)
	if len(shape.Levels) < 2 {
		t.Errorf("%d levels, want several", len(shape.Levels))
	}

	var held int64
	for i, l := range shape.Levels {
		held += l.DataCacheBytes + l.IndexCacheBytes + l.FilterCacheBytes
		if int64(s.LevelSizes[l.Level]) != l.Bytes || s.LevelTablesCounts[l.Level] != l.Files {
			t.Errorf("level %d: %d bytes in %d files, goleveldb says %d in %d", l.Level, l.Bytes,
				l.Files,
				s.LevelSizes[l.Level], s.LevelTablesCounts[l.Level])
		}

		if !l.KeysEstimated || !l.FilterConsulted {
			t.Errorf("level %d of %d: %+v", i, len(shape.Levels), l)
		}
	}

	// Every block has been read, and none had to go.
	if used := *c.CacheUsedBytes; held < used*98/100 || held > used*102/100 {
		t.Errorf("%d bytes are said to be needed in the cache, which holds %d", held, used)
	}
}

func TestWarnsOfCompactions(t *testing.T) {
	d := opened(t, engine.Options{Dir: load(t)})
	defer func() { must(t, d.Close()) }()
	if w := d.Warnings(); len(w) > 0 {
		t.Errorf("warnings of a settled database: %+v", w)
	}

	d.storage.Log("table@compaction L0·4 -> L1·3 S·1MiB Q·7")
	if w := d.Warnings(); len(w) != 1 || w[0].Code != "compaction_reads" {
		t.Errorf("warnings after a compaction: %+v", w)
	}

	must(t, d.Settle(t.Context(), nil))
	if w := d.Warnings(); len(w) > 0 {
		t.Errorf("warnings after Settle: %+v", w)
	}
}

func TestParseTables(t *testing.T) {
	got, err := parseTables("--- level 0 ---\n12:345[\"a[:]\" .. \"b\\n\"]\n9:7[\"c\" .. " +
		"\"d\"]\n--- level 1 ---\n--- level 2 ---\n10:20[\"e\" .. \"f\"]\n")
	must(t, err)
	want := []blockio.LiveTable{
		{Number: 9, Level: 0, Bytes: 7},
		{Number: 10, Level: 2, Bytes: 20},
		{Number: 12, Level: 0, Bytes: 345},
	}

	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	for _, damaged := range []string{"1:2[", "--- level x ---\n", "--- level 0 ---\n1[",
		"--- level 0 ---\n1:x["} {
		if got, err := parseTables(damaged); err == nil {
			t.Errorf("%q: %v", damaged, got)
		}
	}
}

// FuzzTable wants an error, never a panic, for whatever a table may hold.
func FuzzTable(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "db")
	d := opened(f, engine.Options{Dir: dir, Create: true})
	w, err := d.Writer()
	must(f, err)
	for i := range uint64(200) {
		must(f, w.Put(key(i), bytes.Repeat([]byte{byte(i)}, 50)))
	}

	must(f, w.Commit())
	must(f, d.Settle(f.Context(), nil))
	must(f, d.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	must(f, err)
	for _, path := range tables {
		content, err := os.ReadFile(path)
		must(f, err)
		f.Add(content)
		f.Add(content[len(content)/2:])
	}

	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "000001.ldb")
		must(t, os.WriteFile(path, content, 0o600))
		table, err := blockbased.OpenTable(path)
		if err != nil {
			return
		}

		defer table.Close()
		_, sampleErr := sampleOf(table)
		_, _, boundsErr := boundsOf(table)
		if sampleErr == nil && boundsErr == nil && table.DataBlocks() == 0 {
			t.Error("bounds of a table without data")
		}
	})
}

// internalBytes are behind every user key in a table: sequence number and kind.
const internalBytes = 8

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noTables makes journals and manifests, and no table: as the files are while a flush is under way.
type noTables struct{ storage.Storage }

func (s noTables) Create(fd storage.FileDesc) (storage.Writer, error) {
	if fd.Type == storage.TypeTable {
		return nil, syscall.ENOSPC
	}
	return s.Storage.Create(fd)
}

// TestReadsEveryJournal: a program that stops during a flush leaves two journals, which a database
// that is only read holds in memory; goleveldb alone fails at the second.
func TestReadsEveryJournal(t *testing.T) {
	dir := t.TempDir()
	files, err := storage.OpenFile(dir, false)
	must(t, err)
	owner, err := leveldb.Open(noTables{files}, &opt.Options{WriteBuffer: 64 << 10})
	must(t, err)
	const keys = 100
	for i := range keys { // 1.5 times the buffer
		must(t, owner.Put(key(uint64(i)), make([]byte, 1<<10), nil))
	}

	must(t, owner.Put(key(0), []byte("newest"), nil))
	copied := enginetest.CopyOpen(t, dir) // the owner's Close would wait for its flush
	if journals, err := filepath.Glob(filepath.Join(copied, "*.log")); err != nil ||
		len(journals) != 2 {
		t.Fatalf("journals %v, %v; want two", journals, err)
	}

	d := opened(t, engine.Options{Dir: copied, Foreign: true})
	r, err := d.Reader()
	must(t, err)
	for i := range keys {
		want := make([]byte, 1<<10)
		if i == 0 {
			want = []byte("newest")
		}

		if value, found, err := r.Get(key(uint64(i)), nil); err != nil || !found ||
			!bytes.Equal(value, want) {
			t.Fatalf("key %d: %d bytes, found %v, %v", i, len(value), found, err)
		}
	}

	// There is no table to sample.
	sampled := map[string]bool{}
	must(t, d.SampleKeys(t.Context(), 1000, 1, func(key []byte) error {
		sampled[string(key)] = true
		return nil
	}))

	if len(sampled) < keys*9/10 {
		t.Errorf("%d of %d keys in 1,000 draws", len(sampled), keys)
	}

	must(t, errors.Join(r.Close(), d.Close()))
}

// ownersOrder has a name of its own.
type ownersOrder struct{ comparer.Comparer }

func (ownersOrder) Name() string { return "owner.Order" }

func TestOwnersOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	owner, err := leveldb.OpenFile(dir,
		&opt.Options{Comparer: ownersOrder{comparer.DefaultComparer}})
	must(t, err)
	must(t, owner.Close())
	_, err = Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if f, is := errors.AsType[*engine.Failure](err); !is || f.Code != engine.CodeUnsupported ||
		f.Remedy == "" || !strings.Contains(err.Error(), "owner.Order") {
		t.Errorf("%v: want a failure that names the order, with a way out", err)
	}

	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	must(t, err)
	// as a full disk leaves it; goleveldb says that its comparer is missing
	must(t, os.Truncate(manifests[0], 0))
	_, err = (Engine{}).Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if engine.CodeOf(err) != engine.CodeNotDatabase {
		t.Errorf("a manifest that was cut: %v, want the code %s", err, engine.CodeNotDatabase)
	}
}

// ownersFilter has a name of its own, as that of LevelDB itself does.
type ownersFilter struct{ filter.Filter }

func (ownersFilter) Name() string { return "leveldb.BuiltinBloomFilter2" }

func TestOwnersFilter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	owner, err := leveldb.OpenFile(dir,
		&opt.Options{Filter: ownersFilter{filter.NewBloomFilter(10)}})
	must(t, err)
	for i := range uint64(1000) {
		must(t, owner.Put(key(i), []byte("value"), nil))
	}

	must(t, errors.Join(owner.CompactRange(util.Range{}), owner.Close()))
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %v, %v", tables, err)
	}

	for _, path := range tables {
		anatomy, err := learner(4 << 10)(path)
		must(t, err)
		if filters := anatomy.Blocks[engine.Filter]; filters.Count != 1 || filters.Bytes < 1000 {
			t.Errorf("%s: filters %+v, want one", path, filters)
		}
	}
}

// TestTablesThatAreNotThere: a copy of which a table was lost is refused, not shown as empty.
func TestTablesThatAreNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	// No table is compacted: one that was could still be there when it is listed no more.
	owner, err := leveldb.OpenFile(dir,
		&opt.Options{
			WriteBuffer:            32 << 10,
			CompactionL0Trigger:    100,
			WriteL0SlowdownTrigger: 100,
			WriteL0PauseTrigger:    100,
		})

	must(t, err)
	for i := range 2000 {
		must(t, owner.Put(binary.BigEndian.AppendUint64(nil, uint64(i)), make([]byte, 100), nil))
	}

	must(t, owner.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
	must(t, err)
	must(t, os.Remove(tables[0]))
	_, err = Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if f, is := errors.AsType[*engine.Failure](err); !is || f.Remedy == "" ||
		!strings.Contains(err.Error(), filepath.Base(tables[0])) {
		t.Errorf("%v: want a failure that names %s, with a way out", err, tables[0])
	}
}

// TestLogAnswersGets: what is in no table when a database is read is told, and a database without
// is not suspected.
func TestLogAnswersGets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	const keys = 3000
	write := func(from, to uint64, buffer int) {
		owner, err := leveldb.OpenFile(dir,
			&opt.Options{WriteBuffer: buffer, Compression: opt.NoCompression})
		must(t, err)
		for i := from; i < to; i++ {
			must(t, owner.Put(key(i), make([]byte, 100), nil))
		}

		must(t, owner.Close())
	}

	told := func() (logged bool, bytes int64) {
		d := opened(t, engine.Options{Dir: dir, Foreign: true})
		for _, w := range d.Warnings() {
			logged = logged || w.Code == "unflushed_log"
		}

		for _, m := range d.Memory() {
			if m.Use == "replayed log" {
				bytes = m.Bytes
			}
		}

		r, err := d.Reader()
		must(t, err)
		get(t, r, 0)
		must(t, d.Close())
		return logged, bytes
	}

	write(0, keys, 8<<20)
	write(0, 0, 8<<20) // opening writes what the journal holds to a table
	if logged, bytes := told(); logged || bytes != 0 {
		t.Errorf("of an empty journal: %v, %d bytes", logged, bytes)
	}

	write(keys, 2*keys, 8<<20)
	if logged, bytes := told(); !logged || bytes < keys*132 {
		t.Errorf("of a journal with %d keys: %v, %d bytes", keys, logged, bytes)
	}
}

// TestSampleIsUniform compares draws of keys with the list of all.
func TestSampleIsUniform(t *testing.T) {
	h := enginetest.NewHistory()
	dir := enginetest.BuildHistory(t, Engine{}, h, map[string]string{
		"WriteBuffer":            "64MiB",
		"CompactionTableSize":    "256KiB",
		"CompactionL0Trigger":    "100",
		"DisableSeeksCompaction": "true",
	}, func(dir string) {
		db, err := leveldb.OpenFile(dir, nil)
		must(t, err)
		must(t, db.CompactRange(util.Range{}))
		must(t, db.Close())
	})
	opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
	must(t, err)
	enginetest.CheckUniform(t, opened, h.Live)
	must(t, opened.Close())
}
