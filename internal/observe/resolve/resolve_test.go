package resolve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

// TestAccessesAreTheEngines compares every access of many Gets, of present and
// of absent keys, with what the engine reads.
func TestAccessesAreTheEngines(t *testing.T) {
	keys, gets := uint64(2_000_000), 100_000
	if testing.Short() {
		keys, gets = 120_000, 10_000
	}

	if !testring.All() {
		keys, gets = 60_000, 5_000
	}

	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			olderFormatsInCI(t, f)
			t.Parallel()
			dir := t.TempDir()
			buildPlain(t, f, dir, keys)
			r := openResolver(t, f, dir)
			t.Log(shapeOf(r))
			next := someAbsent(keys)
			t.Run("Get", func(t *testing.T) { compare(t, f, dir, r, gets, next) })
			must(t, r.AskLastFilters())
			t.Run("iterators", func(t *testing.T) { compare(t, f, dir, r, gets, next) })
		})
	}
}

// someAbsent are the keys of a database of n, and as many that it does not have.
func someAbsent(n uint64) (next func() (key []byte, known bool)) {
	random := rand.New(rand.NewPCG(5, 5))
	maker, key := testKeys(n).Maker(), make([]byte, 32)
	return func() ([]byte, bool) {
		present := random.IntN(2) == 0
		index := random.Uint64N(n)
		if !present {
			index += n
		}

		maker.Key(key, index)
		return key, present
	}
}

// TestFewFiles is TestAccessesAreTheEngines and TestReplayReadsWhatTheEngineReads with shapes of
// few files, which small databases and those without compactions have. A filter of a file in level
// 0 can pass a key that is in an older one.
func TestFewFiles(t *testing.T) {
	const keys, gets = 6_000, 8_000 // less than a memtable, and than a file of level 0
	for _, f := range flavours() {
		for _, shape := range []struct {
			name  string
			files []int // in percent of the keys, each flushed on its own into level 0
			level int   // to which they are compacted
			inLog int   // percent of the keys that are in no file
		}{
			{name: "nothing"},
			{name: "a memtable", inLog: 100},
			{name: "one file in L0", files: []int{100}},
			{name: "two in L0", files: []int{50, 50}},
			{name: "a large and a small one in L0", files: []int{90, 10}},
			{name: "a small and a large one in L0", files: []int{10, 90}},
			{name: "seven in L0", files: []int{40, 30, 10, 5, 5, 5, 5}},
			{name: "three in L0 of the same keys", files: []int{100, 100, 100}},
			{name: "one file in L6", files: []int{50, 50}, level: lastLevel},
			{name: "one in L0, a memtable", files: []int{80}, inLog: 20},
		} {
			t.Run(f.name+", "+shape.name, func(t *testing.T) {
				olderFormatsInCI(t, f)
				t.Parallel()
				dir := t.TempDir()
				f.inLog = true
				s := openStore(t, f, dir, false)
				all, next := testKeys(keys), uint64(0)
				write := func(percent int) {
					next %= keys // all are written: from here on again
					s.load(t, all, next, next+uint64(percent)*keys/100)
					next += uint64(percent) * keys / 100
				}

				for _, percent := range shape.files {
					write(percent)
					must(t, s.flush())
				}

				files := len(shape.files)
				if shape.level > 0 {
					must(t, s.compactAll())
					files = 1
				}

				if shape.inLog > 0 {
					write(shape.inLog)
				}

				crashed := enginetest.CopyOpen(t, dir)
				must(t, s.close())
				r := openResolver(t, f, crashed)
				t.Log(shapeOf(r))
				for _, table := range r.All {
					if table.Level != shape.level {
						t.Errorf("a file in L%d, want L%d", table.Level, shape.level)
					}
				}

				if len(r.All) != files {
					t.Fatalf("%d files, want %d", len(r.All), files)
				}

				some := someAbsent(keys)
				t.Run("Get", func(t *testing.T) {
					compare(t, f, crashed, r, gets, func() ([]byte, bool) {
						key, known := some()
						return key, known && next == keys // of nothing, none is known
					})
				})

				// A log, when it is replayed, takes a part of the cache for memtables.
				if next == 0 || shape.inLog > 0 {
					return
				}

				replayAgrees(t, f, crashed, r,
					func() lookuppath.Keys { return streamOf(keys, gets) }, 400<<10, 64<<20)
				must(t, r.AskLastFilters())
				t.Run("iterators", func(t *testing.T) {
					compare(t, f, crashed, r, gets, someAbsent(keys))
				})
			})
		}
	}
}

// olderFormatsInCI leaves formats before the newest of each version to make ci.
func olderFormatsInCI(t *testing.T, f flavour) {
	t.Helper()
	if !strings.HasSuffix(f.name, "newest") {
		testring.Outer(t, "it builds a database in an older format")
	}
}

func openResolver(t testing.TB, f flavour, dir string) *Resolver {
	t.Helper()
	r, err := Open(dir, f.version)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// compare makes gets Gets of the keys next chooses with the engine and the
// resolver, and logs what they asked for. The engine tells it twice: by the reads of its files,
// with a cache that keeps nothing, and by the hits and misses that it counts of that cache.
func compare(
	t *testing.T, f flavour, dir string, r *Resolver, gets int,
	next func() (key []byte, known bool),
) {
	t.Helper()
	o := openOracle(t, f, dir, admitsNothing)
	if r.iterates {
		o.get = o.seek
	}

	w := r.Walker()
	blocks := map[uint32]cachesim.Block{}
	var numbers []uint32
	var byType [engine.NumBlockTypes]int
	var byLevel [lsm.ModelLevels]int
	accesses, finds, before := 0, 0, o.counted()
	for i := range gets {
		key, known := next()
		want, wantFound := o.ask(t, key)
		var found bool
		var err error
		if numbers, found, err = w.Get(key, known, numbers); err != nil {
			t.Fatal(err)
		}

		have := make([]read, len(numbers))
		for j, number := range numbers {
			b, seen := blocks[number]
			if !seen {
				if b, err = r.Block(number); err != nil {
					t.Fatal(err)
				}
				blocks[number] = b
			}

			have[j] = read{b.File, b.Offset, int(b.DiskBytes)}
			byType[b.Type]++
			byLevel[b.Level]++
		}

		if found != wantFound || !slices.Equal(have, want) {
			t.Fatalf(
				"Get %d of %x (known %v): found %v, the engine %v\nresolved %v\nthe engine %v",
				i,
				key,
				known,
				found,
				wantFound,
				have,
				want,
			)
		}

		accesses += len(want)
		if found {
			finds++
		}
	}

	if counted := o.counted() - before; counted != int64(accesses) {
		t.Errorf("%d accesses, the engine counts %d", accesses, counted)
	}

	text := ""
	for kind, n := range byType {
		if n > 0 {
			text += fmt.Sprintf(" %v %d", engine.BlockType(kind), n)
		}
	}

	t.Logf("%d Gets, %d found: %d accesses agree:%s; by level %v; %d blocks", gets, finds,
		accesses, text, byLevel, len(blocks))
}

func shapeOf(r *Resolver) string {
	text := ""
	for _, l := range r.levels {
		two, data := 0, 0
		for _, t := range l.tables {
			if t.twoLevels() {
				two++
			}
			data += len(t.Data)
		}

		text += fmt.Sprintf("L%d: %d tables, %d of two index levels, %d data blocks; ", l.number,
			len(l.tables), two, data)
	}

	return text
}
