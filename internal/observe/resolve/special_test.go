package resolve

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pebble1 "github.com/cockroachdb/pebble"
	pebble2 "github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// TestOtherTables: tables that are compressed with zstd, whose indexes have one
// level, or whose keys share long prefixes.
func TestOtherTables(t *testing.T) {
	for _, f := range []flavour{
		{name: "pebble1 zstd", version: 1, format: uint64(pebble1.FormatNewest), zstd: true},
		{name: "pebble2 zstd", version: 2, format: uint64(pebble2.FormatNewest), zstd: true},
		{
			name:          "pebble1 whole indexes",
			version:       1,
			format:        uint64(pebble1.FormatNewest),
			noIndexLevels: true,
		},
		{
			name:          "pebble2 whole indexes",
			version:       2,
			format:        uint64(pebble2.FormatNewest),
			noIndexLevels: true,
		},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			const prefix = "a prefix that all keys share/"
			count := 20_000
			if !testring.All() {
				count = 8_000
			}

			dir := t.TempDir()
			s := openStore(t, f, dir, true)
			random := rand.New(rand.NewPCG(3, 3))
			key := func(i int) []byte {
				// Lengths from 1 digit on: keys that are prefixes of others.
				digits := []byte("0123456789")
				k := []byte(prefix)
				for n := i + 1; n > 0; n /= 10 {
					k = append(k, digits[n%10])
				}

				return k
			}

			value := make([]byte, 200)
			for range 3 {
				b := s.batch()
				for range count {
					value[random.IntN(len(value))]++
					must(t, b.set(key(2*random.IntN(count)), value)) // even numbers only
				}

				must(t, b.commit())
				must(t, s.flush())
			}

			s.settle()
			if err := s.broken.Load(); err != nil && f.zstd &&
				failure.From(*err).Code == failure.CodeZstd {
				must(t, s.close())
				t.Skipf("Pebble v1 built with cgo cannot read its own zstd blocks with this "+
					"libzstd: %v", *err)
			}

			must(t, s.close())
			r := openResolver(t, f, dir)
			t.Log(shapeOf(r))
			for _, table := range r.All {
				if f.noIndexLevels && table.twoLevels() {
					t.Fatal("an index of two levels")
				}
			}

			compare(t, f, dir, r, 5_000, func() ([]byte, bool) {
				return key(random.IntN(2*count + 10)), false
			})
		})
	}
}

// TestKeysInTheLog: what a crash left in the log is found in memory, without a
// block; its deletions are not believed to end a Get, those of ranges are.
func TestKeysInTheLog(t *testing.T) {
	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			olderFormatsInCI(t, f)
			t.Parallel()
			dir := t.TempDir()
			keys := testKeys(20_000)
			buildPlain(t, f, dir, keys.Count)
			crashed := writeAndCrash(t, f, dir)
			r := openResolver(t, f, crashed)
			kinds := map[lsmtail.Entry]int{}
			maker, key := keys.Maker(), make([]byte, 32)
			for i := range keys.Count {
				maker.Key(key, i)
				kind, gone := r.unflushed.Find(key)
				if kind != lsmtail.None || gone {
					kinds[kind]++
				}

				if gone && kind != lsmtail.Set {
					kinds[lsmtail.Merge+1]++
				}
			}

			t.Logf("keys in the log by kind, the last those in a deleted range: %v", kinds)
			if len(kinds) != 5 {
				t.Error("the log lacks what this test is about")
			}

			random := rand.New(rand.NewPCG(4, 4))
			compare(t, f, crashed, r, 10_000, func() ([]byte, bool) {
				maker.Key(key, random.Uint64N(keys.Count/5))
				return key, false
			})
		})
	}
}

// writeAndCrash writes entries of every kind, only to the log, and returns a copy
// of the database as a crash would leave it.
func writeAndCrash(t *testing.T, f flavour, dir string) (crashed string) {
	f.inLog = true
	s := openStore(t, f, dir, false)
	keys := testKeys(20_000)
	var sorted [][]byte
	for i, maker := uint64(0), keys.Maker(); i < 2000; i++ {
		key := make([]byte, keys.Bytes)
		maker.Key(key, i)
		sorted = append(sorted, key)
	}

	slices.SortFunc(sorted, bytes.Compare)
	random, value := rand.New(rand.NewPCG(2, 2)), make([]byte, 20)
	for range 30 {
		b := s.batch()
		for range 100 {
			key := sorted[random.IntN(len(sorted)-5)]
			switch random.IntN(8) {
			case 0:
				must(t, b.delete(key))
			case 1:
				must(t, b.singleDelete(key))
			case 2:
				must(t, b.deleteSized(key))
			case 3, 4:
				must(t, b.merge(key, value))
			default:
				must(t, b.set(key, value))
			}
		}

		at := random.IntN(len(sorted) - 60)
		must(t, b.deleteRange(sorted[at], sorted[at+1+random.IntN(50)]))
		if f.hasRangeKeys() {
			must(t, b.rangeKey(sorted[at], sorted[at+50]))
		}

		must(t, b.commit())
	}

	crashed = enginetest.CopyOpen(t, dir)
	must(t, s.close())
	return crashed
}

// TestOpenRefuses what it could not resolve exactly, and names it.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	o := &pebble2.Options{FormatMajorVersion: pebble2.FormatNewest, Logger: silent{}}
	o.Experimental.ValueSeparationPolicy = func() pebble2.ValueSeparationPolicy {
		return pebble2.ValueSeparationPolicy{
			Enabled:               true,
			MinimumSize:           1,
			MaxBlobReferenceDepth: 1,
		}
	}

	db, err := pebble2.Open(dir, o)
	must(t, err)
	must(t, db.Set([]byte("key"), make([]byte, 1000), nil))
	must(t, db.Flush())
	must(t, db.Close())
	if _, err := Open(dir, 2); err == nil ||
		!strings.Contains(err.Error(), "values are in blob files") {
		t.Errorf("values in a blob file: %v", err)
	}

	if _, err := Open(filepath.Join(t.TempDir(), "nothing"), 1); err == nil {
		t.Error("opened a directory that is not there")
	}

	if _, err := Open(t.TempDir(), 3); err == nil || !strings.Contains(err.Error(), "1 or 2") {
		t.Error(err)
	}
}

// TestDamagedTable flips bits in tables: an error that names the table, never a
// panic and never another answer.
func TestDamagedTable(t *testing.T) {
	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			olderFormatsInCI(t, f)
			t.Parallel()
			dir := t.TempDir()
			keys := testKeys(5_000)
			buildPlain(t, f, dir, keys.Count)
			want := allGets(t, openResolver(t, f, dir))
			tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			must(t, err)
			random := rand.New(rand.NewPCG(8, 8))
			opened, walked := 0, 0
			for range 60 {
				path := tables[random.IntN(len(tables))]
				content, err := os.ReadFile(path)
				must(t, err)
				at, bit := random.IntN(len(content)), byte(1)<<random.IntN(8)
				if random.IntN(2) == 0 { // indexes and properties are at the end
					at = len(content) - 1 - random.IntN(min(len(content), 3000))
				}

				content[at] ^= bit
				must(t, os.WriteFile(path, content, 0o644))
				have, openErr, walkErr := damagedGets(f, dir)
				content[at] ^= bit
				must(t, os.WriteFile(path, content, 0o644))
				switch {
				case openErr != nil:
					opened++
				case walkErr != nil:
					walked++
				case !slices.EqualFunc(want, have, slices.Equal):
					t.Fatalf("byte %d of %s: other accesses without an error", at,
						filepath.Base(path))
				}
			}

			t.Logf("60 flips: %d noticed at open, %d when met", opened, walked)
			if opened == 0 || walked == 0 {
				t.Error("nothing was noticed")
			}
		})
	}
}

func damagedGets(f flavour, dir string) (accesses [][]uint32, openErr, walkErr error) {
	r, err := Open(dir, f.version)
	if err != nil {
		return nil, err, nil
	}
	accesses, err = getAll(r)
	return accesses, nil, errors.Join(err, r.Close())
}

func allGets(t *testing.T, r *Resolver) [][]uint32 {
	accesses, err := getAll(r)
	must(t, err)
	return accesses
}

func getAll(r *Resolver) (accesses [][]uint32, err error) {
	w, maker, key := r.Walker(), testKeys(5_000).Maker(), make([]byte, 32)
	for i := uint64(0); i < 10_000; i += 3 { // of each block several keys
		maker.Key(key, i)
		numbers, _, err := w.Get(key, false, nil)
		if err != nil {
			return nil, err
		}

		accesses = append(accesses, numbers)
	}

	return accesses, nil
}

// TestTablesMayVanish: a resolver goes on although the owner of the database
// deleted its tables.
func TestTablesMayVanish(t *testing.T) {
	f := flavours()[0]
	dir := t.TempDir()
	buildPlain(t, f, dir, 5_000)
	r := openResolver(t, f, dir)
	want := allGets(t, r)
	must(t, os.RemoveAll(dir))
	if !slices.EqualFunc(want, allGets(t, r), slices.Equal) {
		t.Error("other accesses")
	}

	if _, err := Open(dir, f.version); !errors.Is(err, fs.ErrNotExist) && err == nil {
		t.Error("opened again")
	}
}

// TestDecompressedSizes holds the sizes in the block table against content
// decompressed in full.
func TestDecompressedSizes(t *testing.T) {
	for _, f := range flavours() {
		dir := t.TempDir()
		buildPlain(t, f, dir, 10_000)
		r := openResolver(t, f, dir)
		checked := map[engine.BlockType]int{}
		for _, table := range r.All {
			check := func(number uint32, h handle) cachesim.Block {
				b, err := r.Block(table.First + number)
				must(t, err)
				content, err := table.decode(h, new(buffer))
				must(t, err)
				if int(b.Bytes) != len(content) || b.Offset != h.Offset || b.File != table.File ||
					int(b.Level) != table.Level {
					t.Fatalf("%+v, content of %d bytes", b, len(content))
				}

				checked[b.Type]++
				return b
			}

			check(rootNumber, table.Root)
			if table.filter != nil {
				check(filterNumber, table.filterAt)
			}

			for i, h := range table.Partitions {
				check(uint32(fixedNumbers+i), h)
			}

			for i, h := range table.Data {
				check(table.FirstData+uint32(i), h)
			}
		}

		t.Log(f.name, checked)
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	for _, f := range flavours() {
		dir := t.TempDir()
		buildPlain(t, f, dir, 30_000)
		w := openResolver(t, f, dir).Walker()
		maker, key := testKeys(30_000).Maker(), make([]byte, 32)
		var numbers []uint32
		index := uint64(0)
		get := func() {
			maker.Key(key, index*7919%60_000)
			index++
			var err error
			if numbers, _, err = w.Get(key, false, numbers); err != nil {
				t.Fatal(err)
			}
		}

		for range 10_000 {
			get()
		}

		if n := testing.AllocsPerRun(20_000, get); n != 0 {
			t.Errorf("%s: %v allocations per Get", f.name, n)
		}
	}
}
