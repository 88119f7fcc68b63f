package resolve

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
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
			random := rand.New(rand.NewPCG(5, 5))
			maker, key := testKeys(keys).Maker(), make([]byte, 32)
			next := func() ([]byte, bool) {
				present := random.IntN(2) == 0
				index := random.Uint64N(keys)
				if !present {
					index += keys
				}

				maker.Key(key, index)
				return key, present
			}

			t.Run("Get", func(t *testing.T) { compare(t, f, dir, r, gets, next) })
			must(t, r.AskLastFilters())
			t.Run("iterators", func(t *testing.T) { compare(t, f, dir, r, gets, next) })
		})
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
// resolver, and logs what they asked for.
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
	var byLevel [engine.ModelLevels]int
	accesses, finds := 0, 0
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
