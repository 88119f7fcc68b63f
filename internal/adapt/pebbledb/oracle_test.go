package pebbledb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// TestOracles1 and TestOracles2 hold the counters of both versions' adapters against what Pebble
// and the kernel count themselves. What every engine has to show is in engine/enginetest.
func TestOracles1(t *testing.T) {
	testring.Outer(t, "it compares counts with Pebble for a minute")
	testOracles(t, pebble1.Engine{})
}
func TestOracles2(t *testing.T) {
	testring.Outer(t, "it compares counts with Pebble for a minute")
	testOracles(t, pebble2.Engine{})
}

func testOracles(t *testing.T, e engine.Engine) {
	if testing.Short() {
		gets = 8000
	}

	l := lab{engine: e}
	l.dir = l.load(t)
	t.Run("OpensAndMisses", l.testOpensAndMisses)
	t.Run("ManyReaders", l.testManyReaders)
	t.Run("KernelReadChars", l.testKernelReadChars)
	t.Run("KernelReadBytes", l.testKernelReadBytes)
	t.Run("FiltersOfTheLastLevel", l.testFiltersOfTheLastLevel)
	t.Run("InCacheSizes", l.testInCacheSizes)
	t.Run("TinyCache", l.testTinyCache)
	t.Run("CacheReserved", l.testCacheReserved)
	t.Run("LogTakesNoCache", l.testLogTakesNoCache)
	t.Run("TruncatedTable", l.testTruncatedTable)
	t.Run("BesideALiveWriter", l.testBesideALiveWriter)
	t.Run("SampleMixedSizes", l.testSampleMixedSizes)
	t.Run("DisableWAL", l.testDisableWAL)
	t.Run("NoAutomaticCompactions", l.testNoAutomaticCompactions)
}

type lab struct {
	engine engine.Engine
	dir    string // a settled database of several levels with keys 0..n-1
}

const n = 200_000

var gets = 20_000

// small makes a tree of several levels of a few MiB.
func small() map[string]string {
	return map[string]string{
		"MemTableSize":   "512KiB",
		"LBaseMaxBytes":  "1MiB",
		"TargetFileSize": "512KiB,512KiB,1MiB,1MiB,2MiB,4MiB,8MiB",
	}
}

func (l lab) load(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	db := l.open(t, engine.Options{Dir: dir, Create: true, Overrides: small()})
	put(t, db, 0, n)
	must(t, db.Settle(t.Context(), nil))
	c := db.Counters()
	if c.BackgroundReads.Count == 0 || *c.CompactBytes == 0 || *c.FlushBytes == 0 {
		t.Errorf("compactions of a load read nothing: %+v", c.BackgroundReads)
	}

	must(t, db.Close())
	return dir
}

func (l lab) open(t *testing.T, o engine.Options) engine.DB {
	t.Helper()
	if o.Dir == "" {
		o.Dir = l.dir
	}

	if o.CacheBytes == 0 {
		o.CacheBytes = 1 << 20
	}

	db, err := l.engine.Open(t.Context(), o)
	must(t, err)
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func key(i uint64) []byte { return fmt.Appendf(nil, "%016x%016x", i*0x9e3779b97f4a7c15, i) }

func value(i uint64) []byte {
	rng := rand.New(rand.NewPCG(i, 1))
	var v []byte
	for range 14 {
		v = fmt.Appendf(v, "%08x", rng.Uint32())
	}
	return v
}

func put(t *testing.T, db engine.DB, from, to uint64) {
	t.Helper()
	must(t, write(db, from, to))
}

func write(db engine.DB, from, to uint64) error {
	w, err := db.Writer()
	if err != nil {
		return err
	}

	for i := from; i < to; i++ {
		if err := w.Put(key(i), value(i)); err != nil {
			return err
		}

		if i%500 == 499 || i == to-1 {
			if err := w.Commit(); err != nil {
				return err
			}
		}
	}

	return w.Close()
}

// get gets random keys, of which those from n up are absent.
func get(db engine.DB, seed, keys uint64, gets int) error {
	r, err := db.Reader()
	if err != nil {
		return err
	}

	rng := rand.New(rand.NewPCG(seed, 9))
	var got []byte
	for range gets {
		i := rng.Uint64N(keys)
		var found bool
		if got, found, err = r.Get(key(i), got); err != nil {
			return err
		}

		if found != (i < n) || found && !bytes.Equal(got, value(i)) {
			return fmt.Errorf("key %d: found %v, %d bytes", i, found, len(got))
		}
	}

	return r.Close()
}

// measured returns what gets moved.
func measured(t *testing.T, db engine.DB, gets func() error) engine.Counters {
	t.Helper()
	before := db.Counters()
	must(t, gets())
	return db.Counters().Sub(before)
}

// testOpensAndMisses: opening a table costs three reads (footer, metaindex,
// properties), of which the footer does not go through the cache.
func (l lab) testOpensAndMisses(t *testing.T) {
	db := l.open(t, engine.Options{ReadOnly: true})
	defer func() { must(t, db.Close()) }()
	c := measured(t, db, func() error { return get(db, 1, n, gets) })
	opens := *c.TableOpens
	if opens < 10 {
		t.Fatalf("only %d tables opened", opens)
	}

	if meta := c.Reads.Type(engine.Meta).Count; meta != 3*opens {
		t.Errorf("%d meta reads for %d opens, want three each", meta, opens)
	}

	if reads := c.Reads.Total().Count; reads-opens != *c.CacheMisses {
		t.Errorf("%d reads less %d footers are not the %d cache misses", reads, opens,
			*c.CacheMisses)
	}

	if *c.TableCacheMisses != opens {
		t.Errorf("%d opens, but %d misses of the table cache", opens, *c.TableCacheMisses)
	}

	single, two := c.Reads.Type(engine.SingleIndex).Count, c.Reads.Type(engine.TopIndex).Count
	if single == 0 || two == 0 {
		t.Errorf("%d single-level and %d top-level index reads: want tables of both kinds", single,
			two)
	}

	if c.BackgroundReads.Count != 0 {
		t.Errorf("%d background reads by Gets", c.BackgroundReads.Count)
	}
}

// sharedReads bounds the misses of v2 that waited for the read of another Get.
const sharedReads = 0.05

func (l lab) testManyReaders(t *testing.T) {
	const readers = 8
	db := l.open(t, engine.Options{ReadOnly: true})
	defer func() { must(t, db.Close()) }()
	must(t, get(db, 1, n, gets)) // opens the tables
	c := measured(t, db, func() error {
		var running sync.WaitGroup
		errs := make(chan error, readers)
		for i := range uint64(readers) {
			running.Go(func() { errs <- get(db, i, n, gets) })
		}

		running.Wait()
		close(errs)
		var all error
		for err := range errs {
			all = errors.Join(all, err)
		}

		return all
	})

	reads, misses := c.Reads.Total().Count-*c.TableOpens, *c.CacheMisses
	limit := 0.0
	if l.engine.Info().Has(engine.SharesReads) {
		limit = sharedReads
	}

	if misses < reads || float64(misses-reads) > limit*float64(reads) {
		t.Errorf("%d reads, %d misses: want equal, but for shared reads of at most %v", reads,
			misses, limit)
	}

	t.Logf("%d reads, %d misses", reads, misses)
}

// kernel is the kernel's account of this process.
func kernel(t *testing.T) result.ProcessIO {
	t.Helper()
	io, err := host.ProcessNow()
	if err != nil {
		t.Skip(err)
	}
	return io
}

// procIOBytes is about what reading /proc/self/io itself adds.
const procIOBytes = 4 << 10

func (l lab) testKernelReadChars(t *testing.T) {
	db := l.open(t, engine.Options{ReadOnly: true, CacheBytes: 100 << 10})
	defer func() { must(t, db.Close()) }()
	before := kernel(t)
	c := measured(t, db, func() error { return get(db, 1, n, gets) })
	chars := kernel(t).ReadChars - before.ReadChars
	if d := chars - c.Reads.Total().Bytes; d < 0 || d > procIOBytes {
		t.Errorf("the kernel counts %d bytes read, we %d", chars, c.Reads.Total().Bytes)
	}

	t.Logf("kernel %d, ours %d", chars, c.Reads.Total().Bytes)
}

// otherDeviceBytes is what the file system may read for itself.
const otherDeviceBytes = 256 << 10

func (l lab) testKernelReadBytes(t *testing.T) {
	db, err := l.engine.Open(t.Context(), engine.Options{
		Dir:        l.dir,
		ReadOnly:   true,
		Direct:     true,
		CacheBytes: 1 << 20,
	})

	if engine.CodeOf(err) == engine.CodeNoDirect {
		t.Skip(err)
	}

	must(t, err)
	defer func() { must(t, db.Close()) }()
	before := kernel(t)
	c := measured(t, db, func() error { return get(db, 1, n, gets) })
	device := kernel(t).ReadBytes - before.ReadBytes
	if device == 0 {
		t.Skip("the file system is on no device")
	}

	if d := device - *c.DirectBytes; d < 0 || d > otherDeviceBytes {
		t.Errorf("the kernel counts %d bytes from the device, we %d", device, *c.DirectBytes)
	}

	t.Logf("kernel %d, ours %d, asked by the engine %d", device, *c.DirectBytes,
		c.Reads.Total().Bytes)
}

// testFiltersOfTheLastLevel: filters are asked on every level but number 6, and
// each question is one access.
func (l lab) testFiltersOfTheLastLevel(t *testing.T) {
	without := l.open(t, engine.Options{ReadOnly: true, TraceAccesses: true, Profile: "default"})
	defer func() { must(t, without.Close()) }()
	c := measured(t, without, func() error { return get(without, 1, 2*n, gets) })
	shape, err := without.Shape()
	must(t, err)
	if asked := c.Reads.Type(engine.Filter).Count; asked != 0 ||
		slices.ContainsFunc(shape.Levels, func(l engine.Level) bool { return l.FilterConsulted }) {
		t.Errorf("with options that name no filter: %d filter accesses, levels %+v", asked,
			shape.Levels)
	}

	l.asksWhatShapeSays(t, nil)
	l.asksWhatShapeSays(t, map[string]string{"UseL6Filters": "true"})
}

func (l lab) asksWhatShapeSays(t *testing.T, options map[string]string) {
	db := l.open(t, engine.Options{ReadOnly: true, TraceAccesses: true, Overrides: options})
	defer func() { must(t, db.Close()) }()
	c := measured(t, db, func() error { return get(db, 1, 2*n, gets) })
	if asked, told := c.Reads.Type(engine.Filter).Count, *c.FilterNegative+
		*c.FilterPositive; asked == 0 || asked != told {
		t.Errorf("%d filter accesses, Pebble counts %d", asked, told)
	}

	shape, err := db.Shape()
	must(t, err)
	if len(shape.Levels) < 3 {
		t.Fatalf("%d levels, too few to tell anything", len(shape.Levels))
	}

	for _, level := range shape.Levels {
		asked := c.Reads[level.Level][engine.Filter].Count > 0
		if level.FilterBytes == 0 || asked != level.FilterConsulted ||
			asked != (level.Level < 6 || options != nil) {
			t.Errorf("level %d: %d bytes of filters, asked: %v, consulted by Shape: %v",
				level.Level, level.FilterBytes, asked, level.FilterConsulted)
		}
	}
}

// testInCacheSizes fills a cache that is large enough with all blocks, and
// compares what Pebble charges with what Shape says.
func (l lab) testInCacheSizes(t *testing.T) {
	db := l.open(t, engine.Options{ReadOnly: true, CacheBytes: 256 << 20})
	defer func() { must(t, db.Close()) }()
	r, err := db.Reader()
	must(t, err)
	for i := range uint64(n) {
		_, found, err := r.Get(key(i), nil)
		if err != nil || !found {
			t.Fatal(i, found, err)
		}
	}

	must(t, r.Close())
	shape, err := db.Shape()
	must(t, err)
	var want int64
	for _, level := range shape.Levels {
		if !level.InCacheKnown {
			t.Errorf("level %d: unknown", level.Level)
		}

		want += level.IndexCacheBytes + level.TopIndexCacheBytes + level.DataCacheBytes
		if level.FilterConsulted {
			want += level.FilterCacheBytes
		}
	}

	used := *db.Counters().CacheUsedBytes
	if off := math.Abs(float64(used-want)) / float64(want); off > 0.02 {
		t.Errorf("the full cache charges %d bytes, Shape says %d: off by %.1f %%", used, want,
			100*off)
	}

	t.Logf("charged %d, by Shape %d", used, want)
}

func (l lab) testTinyCache(t *testing.T) {
	for _, o := range []engine.Options{{ReadOnly: true}, {}} {
		o.CacheBytes = 100
		db := l.open(t, o)
		must(t, get(db, 1, n, 500))
		must(t, db.Close())
	}
}

// testCacheReserved: memtables take their room from the cache, from 256 KiB on
// and growing with what is written.
func (l lab) testCacheReserved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := l.open(t, engine.Options{Dir: dir, Create: true, CacheBytes: 64 << 20})
	defer func() { must(t, db.Close()) }()
	if got := *db.Counters().CacheReservedBytes; got != 256<<10 {
		t.Errorf("%d bytes reserved by an empty database, want %d", got, 256<<10)
	}

	put(t, db, 0, 20_000)
	if got := *db.Counters().CacheReservedBytes; got < 1<<20 {
		t.Errorf("%d bytes reserved after 3 MB were written", got)
	}
}

// testLogTakesNoCache: a database that was killed with a log larger than the cache
// reads as many blocks as it does without the log, Get for Get.
func (l lab) testLogTakesNoCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	must(t, os.CopyFS(dir, os.DirFS(l.dir)))
	db := l.open(t, engine.Options{
		Dir:        dir,
		CacheBytes: 64 << 20,
		Overrides: map[string]string{
			"MemTableSize":                "64MiB",
			"DisableAutomaticCompactions": "true",
		},
	})

	w, err := db.Writer()
	must(t, err)
	// makes a memtable that has room for the rest
	must(t, w.Put([]byte("large"), make([]byte, 20<<20)))
	for i := uint64(n); i < n+20_000; i++ {
		if i%50 == 0 { // larger batches get no memtable where the cache is small
			must(t, w.Commit())
		}
		must(t, w.Put(key(i), value(i)))
	}

	must(t, w.Commit())
	must(t, w.Close())
	must(t, db.Sync(t.Context()))
	killed := enginetest.CopyOpen(t, dir)
	must(t, db.Close())
	reads := func(dir string) engine.BlockReads {
		db := l.open(t, engine.Options{Dir: dir, ReadOnly: true})
		must(t, get(db, 1, n, gets))
		c := db.Counters()
		if rest := int64(256 << 10); *c.CacheReservedBytes > rest {
			t.Errorf("%d bytes of the cache reserved, at most %d are by an open database",
				*c.CacheReservedBytes, rest)
		}

		if log := *c.MemtableBytes; (dir == killed) != (log > 1<<20) {
			t.Errorf("memtables of %d bytes", log)
		}

		told := false
		for _, w := range db.Warnings() {
			told = told || w.Code == "unflushed_log"
		}

		if told != (dir == killed) {
			t.Errorf("warned of a log: %v", told)
		}

		must(t, db.Close())
		return *c.Reads
	}

	if without, with := reads(l.dir), reads(killed); without != with {
		t.Errorf("%v reads with a log, %v without", with.Total(), without.Total())
	}
}

func (l lab) testTruncatedTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	must(t, os.CopyFS(dir, os.DirFS(l.dir)))
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	must(t, err)
	must(t, os.Truncate(tables[0], 1000))
	for _, readOnly := range []bool{true, false} {
		db, err := l.engine.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: readOnly})
		if err == nil {
			must(t, db.Close())
			t.Fatal("a truncated table was not noticed")
		}

		name := strings.TrimSuffix(filepath.Base(tables[0]), ".sst")
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name table %s: %v", name, err)
		}
	}
}

// testBesideALiveWriter opens a database again and again while it is written,
// compacted and its tables deleted.
func (l lab) testBesideALiveWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	writer := l.open(t, engine.Options{Dir: dir, Create: true, Overrides: small()})
	put(t, writer, 0, 20_000)
	must(t, writer.Sync(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- writeOn(ctx, writer) }()
	t.Cleanup(func() {
		stop()
		must(t, <-done)
		must(t, writer.Close())
	})

	for range 10 {
		db, err := l.engine.Open(t.Context(), engine.Options{
			Dir:        dir,
			IgnoreLock: true,
			CacheBytes: 1 << 20,
		})

		must(t, err)
		c := measured(t, db, func() error { return get(db, 1, 20_000, 1000) })
		if c.Reads.Total().Count > 0 && c.Reads.Type(engine.Data).Count == 0 {
			t.Errorf("no data block among %d reads: layouts are unknown", c.Reads.Total().Count)
		}

		must(t, db.Close())
	}
}

// writeOn writes and overwrites until it is told to stop.
func writeOn(ctx context.Context, db engine.DB) error {
	for {
		for from := uint64(20_000); from < n; from += 1000 {
			if ctx.Err() != nil {
				return nil
			}

			if err := write(db, from, from+1000); err != nil {
				return err
			}
		}
	}
}

// testSampleMixedSizes: of keys with 30-byte values, 1-KB values and 5-KB
// values, in separate ranges as the tables of a node are, each comes up by its
// number, not by its bytes.
func (l lab) testSampleMixedSizes(t *testing.T) {
	const samples = 30_000 // with which a quarter is seven standard deviations or more
	kinds := []struct {
		prefix string
		count  int
		bytes  int
	}{{"a", 40_000, 30}, {"b", 8000, 1000}, {"c", 2000, 5000}}

	dir := filepath.Join(t.TempDir(), "db")
	db := l.open(t, engine.Options{Dir: dir, Create: true, Overrides: small()})
	defer func() { must(t, db.Close()) }()
	w, err := db.Writer()
	must(t, err)
	total := 0
	for _, k := range kinds {
		rng := rand.New(rand.NewPCG(uint64(k.count), 3))
		content := make([]byte, k.bytes)
		for i := range k.count {
			for j := range content {
				content[j] = byte(rng.Uint32())
			}

			must(t, w.Put(append([]byte(k.prefix), key(uint64(i))...), content))
			if i%100 == 99 {
				must(t, w.Commit())
			}
		}

		total += k.count
	}

	must(t, w.Close())
	must(t, db.Settle(t.Context(), nil))
	drawn := map[string]int{}
	must(t, db.(engine.KeySampler).SampleKeys(t.Context(), samples, 1, func(key []byte) error {
		drawn[string(key[:1])]++
		return nil
	}))

	for _, k := range kinds {
		want := float64(samples) * float64(k.count) / float64(total)
		// Tables that hold two kinds bias; see SampleKeys.
		if got := float64(drawn[k.prefix]); math.Abs(got-want) > 0.25*want {
			t.Errorf("%s: drawn %v times, expected about %.0f", k.prefix, got, want)
		}
	}

	t.Log(drawn)
}

func (l lab) testDisableWAL(t *testing.T) {
	o := engine.Options{
		Dir:       filepath.Join(t.TempDir(), "db"),
		Create:    true,
		Overrides: map[string]string{"DisableWAL": "true"},
	}

	db := l.open(t, o)
	put(t, db, 0, 1000)
	must(t, db.Sync(t.Context()))
	if flushed := *db.Counters().FlushBytes; flushed == 0 {
		t.Error("Sync without a log flushed nothing")
	}

	must(t, db.Close())
}

// testNoAutomaticCompactions: Settle must end though compactions are due that
// will never run, and say so.
func (l lab) testNoAutomaticCompactions(t *testing.T) {
	overrides := maps.Clone(small())
	overrides["DisableAutomaticCompactions"] = "true"
	overrides["L0StopWritesThreshold"] = "1000"
	overrides["MemTableSize"] = "256KiB"
	dir := filepath.Join(t.TempDir(), "db")
	db := l.open(t, engine.Options{Dir: dir, Create: true, Overrides: overrides})
	defer func() { must(t, db.Close()) }()
	put(t, db, 0, 50_000)
	must(t, db.Settle(t.Context(), nil))
	var codes []string
	for _, w := range db.Warnings() {
		codes = append(codes, w.Code)
	}

	if len(codes) != 1 || codes[0] != "unsettled" {
		t.Errorf("warnings %v, want unsettled alone", codes)
	}

	shape, err := db.Shape()
	must(t, err)
	if len(shape.Levels) != 1 || shape.Levels[0].Sublevels != shape.Levels[0].Files {
		t.Errorf("want all in level 0, each file a sublevel of its own: %+v", shape.Levels)
	}
}
