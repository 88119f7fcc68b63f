package predict

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	pebble1 "github.com/cockroachdb/pebble"
	bloom1 "github.com/cockroachdb/pebble/bloom"
	pebble2 "github.com/cockroachdb/pebble/v2"
	bloom2 "github.com/cockroachdb/pebble/v2/bloom"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
)

// A load with the shape of the published 200 M keys, scaled down: level sizes,
// file sizes and keys by the same factor.
const (
	loadScale = 128
	loadKeys  = 200_000_000 / loadScale
	manyFiles = 20_000 // each file is opened once: what that reads is over with the warm-up
)

func scaled(bytes int64) int64 { return bytes / loadScale }

// realDB is one of Pebble's, loaded.
type realDB interface {
	put(key, value []byte) error
	settle() error
	reopen(cacheBytes int64) error // read-only
	get(key []byte) (found bool, err error)
	misses() int64
	sublevels() int                // of L0
	files() ([][]tableFile, error) // by level
	close() error
}

// tableFile is a table's properties and bounds.
type tableFile struct {
	smallest, largest                                  []byte
	size, entries, dataBlocks, dataBytes, rawBytes     uint64
	indexPartitions, indexBytes, topIndex, filterBytes uint64
}

// TestPredictionOfRealPebble loads real databases in random order and holds
// their cache misses against predictions from their level tables.
func TestPredictionOfRealPebble(t *testing.T) {
	if testing.Short() {
		t.Skip("loads two databases of 1.6 M keys: a minute and a half of two cores")
	}

	for _, c := range []struct {
		version cachesim.PebbleVersion
		open    func(dir string) (realDB, error)
	}{{cachesim.PebbleV1, openPebble1}, {cachesim.PebbleV2, openPebble2}} {
		db, err := c.open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}

		load(t, db)
		files, err := db.files()
		if err != nil {
			t.Fatal(err)
		}

		levels, geometry := describe(files, db.sublevels())
		checkRandomLoad(t, c.version, levels, geometry)
		in := Input{
			Levels:     lsm.WithCharge(levels, c.version.BlockCharge()),
			Version:    c.version,
			Cores:      runtime.GOMAXPROCS(0),
			WarmupGets: 20_000,
			Gets:       100_000,
			Seeds:      []uint64{1, 2, 3},
			CacheBytes: []int64{1 << 20, 2 << 20, 3 << 20, 8 << 20},
		}

		if c.version == cachesim.PebbleV2 {
			in.ReservedBytes = OpenReserve
		}

		for _, absent := range []float64{0, 0.5} {
			in.AbsentShare = absent
			in.Geometry = nil
			guessed, err := Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}

			in.Geometry = geometry
			known, err := Run(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}

			for i, cacheBytes := range in.CacheBytes {
				want := measure(t, db, cacheBytes, int(in.WarmupGets), int(in.Gets), absent)
				off := known[i].BlockReadsPerGet/want - 1
				t.Logf("v%d, %.0f %% absent, cache of %d KiB: %.4f block reads per Get, "+
					"predicted %.4f [%.4f %.4f] (%+.1f %%) and %.4f without file bounds (%+.1f %%)",
					c.version, 100*absent, cacheBytes>>10, want, known[i].BlockReadsPerGet,
					known[i].Low, known[i].High, 100*off,
					guessed[i].BlockReadsPerGet, 100*(guessed[i].BlockReadsPerGet/want-1))

				if math.Abs(off) > 0.02 {
					t.Errorf("v%d, %.0f %% absent, cache of %d KiB: prediction off by %.1f %%",
						c.version, 100*absent, cacheBytes>>10, 100*off)
				}
			}
		}

		if err := db.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkRandomLoad holds the built-in geometry against a load's own.
func checkRandomLoad(
	t *testing.T, version cachesim.PebbleVersion, levels []engine.Level, geometry []Geometry,
) {
	for i, want := range RandomLoad(levels) {
		have := geometry[i]
		if levels[i].Files == 0 {
			continue
		}

		t.Logf("v%d L%d: %d files in %d sublevels, coverage %.2f (built in: %.2f), "+
			"gaps %.2f (%.2f)", version, i, levels[i].Files, levels[i].Sublevels,
			have.Coverage, want.Coverage, have.Gaps, want.Gaps)
		// Levels near the base are short-lived: what they look like at the end
		// is luck.
		if shortLived := i == 0 || levels[i].Files < 200; !shortLived &&
			(math.Abs(have.Coverage-want.Coverage) > 0.05 || math.Abs(have.Gaps-want.Gaps) > 0.1) {
			t.Errorf("L%d does not lie as RandomLoad says", i)
		}
	}
}

func keyOf(number uint64, key []byte) []byte {
	random := rand.NewPCG(number, 0x5ca1ab1e)
	key = key[:0]
	for range 4 {
		key = binary.BigEndian.AppendUint64(key, random.Uint64())
	}
	return key
}

func load(t *testing.T, db realDB) {
	random := rand.NewPCG(1, 1)
	var key, value []byte
	for i := range uint64(loadKeys) {
		key = keyOf(i, key)
		value = value[:0]
		for range 14 {
			value = binary.BigEndian.AppendUint64(value, random.Uint64())
		}

		if err := db.put(key, value[:110]); err != nil {
			t.Fatal(err)
		}
	}

	if err := db.settle(); err != nil {
		t.Fatal(err)
	}
}

// measure reopens the database with the cache and counts its misses per Get.
func measure(
	t *testing.T, db realDB, cacheBytes int64, warmupGets, gets int, absentShare float64,
) float64 {
	if err := db.reopen(cacheBytes); err != nil {
		t.Fatal(err)
	}

	random := rand.New(rand.NewPCG(2, 2))
	var key []byte
	var before int64
	for i := range warmupGets + gets {
		if i == warmupGets {
			before = db.misses()
		}

		number := random.Uint64N(loadKeys)
		absent := random.Float64() < absentShare
		if absent {
			number += 1 << 40
		}

		key = keyOf(number, key)
		found, err := db.get(key)
		if err != nil {
			t.Fatal(err)
		}

		if found == absent {
			t.Fatalf("key %d: found %v", number, found)
		}
	}

	return float64(db.misses()-before) / float64(gets)
}

// describe turns the files of a database into a level table and its geometry.
func describe(files [][]tableFile, sublevels int) ([]engine.Level, []Geometry) {
	levels, geometry := make([]engine.Level, len(files)), make([]Geometry, len(files))
	at := func(key []byte) float64 { return float64(binary.BigEndian.Uint64(key)) / (1 << 63) / 2 }
	for i, tables := range files {
		l, g := &levels[i], &geometry[i]
		l.Level, l.Sublevels, l.Files = i, 1, len(tables)
		if i == 0 {
			l.Sublevels = max(1, sublevels)
		}

		l.InCacheKnown, l.FilterConsulted = true, i < 6
		// L0 comes in the order of its flushes.
		slices.SortFunc(tables, func(a, b tableFile) int {
			return bytes.Compare(a.smallest, b.smallest)
		})
		end, covered := 0.0, 0.0
		for _, f := range tables {
			l.Bytes += int64(f.size)
			l.Keys += int64(f.entries)
			l.DataBlocks += int64(f.dataBlocks)
			l.DataBytes += int64(f.dataBytes)
			l.DataCacheBytes += int64(f.rawBytes + 3*f.entries)
			l.IndexBytes += int64(f.indexBytes - f.topIndex)
			l.TopIndexBytes += int64(f.topIndex)
			l.FilterBytes += int64(f.filterBytes)
			if f.indexPartitions > 0 {
				l.IndexBlocks += int64(f.indexPartitions)
			} else {
				l.SingleIndexes++
				l.SingleIndexBytes += int64(f.indexBytes)
			}

			from, to := at(f.smallest), at(f.largest)
			g.Files = append(g.Files, File{
				Bytes: float64(f.size),
				Width: to - from,
				Gap:   max(0, from-end),
			})

			covered += to - from
			end = max(end, to)
		}

		l.IndexCacheBytes, l.SingleIndexCacheBytes = l.IndexBytes, l.SingleIndexBytes
		l.TopIndexCacheBytes, l.FilterCacheBytes = l.TopIndexBytes, l.FilterBytes
		if end > 0 {
			g.Coverage, g.Gaps = end, max(0, 1-covered/end/float64(l.Sublevels))
		}
	}

	return levels, geometry
}

// quietly returns once rests has held for a while.
func quietly(rests func() bool) {
	for held := 0; held < 50; held++ {
		if !rests() {
			held = 0
		}
		time.Sleep(20 * time.Millisecond)
	}
}

type db1 struct {
	dir string
	*pebble1.DB
	batch *pebble1.Batch
	cache *pebble1.Cache
}

func openPebble1(dir string) (realDB, error) {
	o := &pebble1.Options{
		MemTableSize:  uint64(scaled(128 << 20)),
		LBaseMaxBytes: scaled(64 << 20),
		DisableWAL:    true,
		MaxOpenFiles:  manyFiles,
		Logger:        quiet{},
	}

	for level := range 7 {
		o.Levels = append(o.Levels, pebble1.LevelOptions{
			TargetFileSize: scaled(2<<20) << level,
			FilterPolicy:   bloom1.FilterPolicy(10),
		})
	}

	db, err := pebble1.Open(dir, o)
	if err != nil {
		return nil, err
	}

	return &db1{dir: dir, DB: db, batch: db.NewBatch()}, nil
}

func (d *db1) put(key, value []byte) error {
	if err := d.batch.Set(key, value, nil); err != nil || d.batch.Count() < 1000 {
		return err
	}
	err := d.batch.Commit(pebble1.NoSync)
	d.batch = d.NewBatch()
	return err
}

func (d *db1) settle() error {
	if err := d.batch.Commit(pebble1.NoSync); err != nil {
		return err
	}
	if err := d.Flush(); err != nil {
		return err
	}
	quietly(func() bool { return d.Metrics().Compact.NumInProgress == 0 })
	return nil
}

func (d *db1) reopen(cacheBytes int64) (err error) {
	if err := d.close(); err != nil {
		return err
	}

	d.cache = pebble1.NewCache(cacheBytes)
	o := &pebble1.Options{ReadOnly: true, MaxOpenFiles: manyFiles, Cache: d.cache, Logger: quiet{}}
	for range 7 {
		o.Levels = append(o.Levels, pebble1.LevelOptions{FilterPolicy: bloom1.FilterPolicy(10)})
	}

	d.DB, err = pebble1.Open(d.dir, o)
	return err
}

func (d *db1) get(key []byte) (bool, error) {
	_, closer, err := d.Get(key)
	if errors.Is(err, pebble1.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

func (d *db1) misses() int64 { return d.Metrics().BlockCache.Misses }

func (d *db1) sublevels() int { return int(d.Metrics().Levels[0].Sublevels) }

func (d *db1) files() ([][]tableFile, error) {
	levels, err := d.SSTables(pebble1.WithProperties())
	files := make([][]tableFile, len(levels))
	for i, tables := range levels {
		for _, f := range tables {
			p := f.Properties
			files[i] = append(files[i], tableFile{f.Smallest.UserKey, f.Largest.UserKey, f.Size,
				p.NumEntries, p.NumDataBlocks, p.DataSize,
				p.RawKeySize + p.RawValueSize, p.IndexPartitions, p.IndexSize, p.TopLevelIndexSize,
				p.FilterSize})
		}
	}

	return files, err
}

func (d *db1) close() error {
	err := d.DB.Close()
	if d.cache != nil {
		d.cache.Unref()
	}
	return err
}

type db2 struct {
	dir string
	*pebble2.DB
	batch *pebble2.Batch
	cache *pebble2.Cache
}

func openPebble2(dir string) (realDB, error) {
	o := &pebble2.Options{
		MemTableSize:  uint64(scaled(128 << 20)),
		LBaseMaxBytes: scaled(64 << 20),
		DisableWAL:    true,
		MaxOpenFiles:  manyFiles,
		Logger:        quiet{},
	}

	for level := range 7 {
		o.TargetFileSizes[level] = scaled(2<<20) << level
		o.Levels[level].FilterPolicy = bloom2.FilterPolicy(10)
	}

	db, err := pebble2.Open(dir, o)
	if err != nil {
		return nil, err
	}

	return &db2{dir: dir, DB: db, batch: db.NewBatch()}, nil
}

func (d *db2) put(key, value []byte) error {
	if err := d.batch.Set(key, value, nil); err != nil || d.batch.Count() < 1000 {
		return err
	}
	err := d.batch.Commit(pebble2.NoSync)
	d.batch = d.NewBatch()
	return err
}

func (d *db2) settle() error {
	if err := d.batch.Commit(pebble2.NoSync); err != nil {
		return err
	}
	if err := d.Flush(); err != nil {
		return err
	}
	quietly(func() bool { return d.Metrics().Compact.NumInProgress == 0 })
	return nil
}

func (d *db2) reopen(cacheBytes int64) (err error) {
	if err := d.close(); err != nil {
		return err
	}

	d.cache = pebble2.NewCache(cacheBytes)
	o := &pebble2.Options{ReadOnly: true, MaxOpenFiles: manyFiles, Cache: d.cache, Logger: quiet{}}
	for level := range o.Levels {
		o.Levels[level].FilterPolicy = bloom2.FilterPolicy(10)
	}

	d.DB, err = pebble2.Open(d.dir, o)
	return err
}

func (d *db2) get(key []byte) (bool, error) {
	_, closer, err := d.Get(key)
	if errors.Is(err, pebble2.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

func (d *db2) misses() int64 { return d.Metrics().BlockCache.Misses }

func (d *db2) sublevels() int { return int(d.Metrics().Levels[0].Sublevels) }

func (d *db2) files() ([][]tableFile, error) {
	levels, err := d.SSTables(pebble2.WithProperties())
	files := make([][]tableFile, len(levels))
	for i, tables := range levels {
		for _, f := range tables {
			p := f.Properties
			files[i] = append(files[i], tableFile{f.Smallest.UserKey, f.Largest.UserKey, f.Size,
				p.NumEntries, p.NumDataBlocks, p.DataSize,
				p.RawKeySize + p.RawValueSize, p.IndexPartitions, p.IndexSize, p.TopLevelIndexSize,
				p.FilterSize})
		}
	}

	return files, err
}

func (d *db2) close() error {
	err := d.DB.Close()
	if d.cache != nil {
		d.cache.Unref()
	}
	return err
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, args ...any) {
	panic(f)
}
