package resolve

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/statelab/statelab/internal/keyspace"
)

// churn writes what plain loads never have: keys written again, deleted and
// deleted by range, in all levels, and versions that snapshots kept alive, so
// that whole blocks and index partitions hold nothing but obsolete entries.
func churn(t testing.TB, f flavour, dir string, keys keyspace.Keys) {
	t.Helper()
	s := openStore(t, f, dir, true)
	random := rand.New(rand.NewPCG(9, 9))
	maker, key, value := keys.Maker(), make([]byte, keys.Bytes), make([]byte, 110)
	var sorted [][]byte
	for i := range keys.Count {
		maker.Key(key, i)
		sorted = append(sorted, bytes.Clone(key))
	}
	slices.SortFunc(sorted, bytes.Compare)
	s.load(t, keys, 0, keys.Count)
	must(t, s.flush())

	var snapshots []func() error
	closeSnapshots := func() {
		for _, closeOne := range snapshots {
			must(t, closeOne())
		}
		snapshots = nil
	}
	// A stretch of neighbours, each written many times under snapshots.
	hot := sorted[len(sorted)/2 : len(sorted)/2+40]
	for range 300 {
		b := s.batch()
		for _, k := range hot {
			randomize(random, value)
			must(t, b.set(k, value))
		}
		must(t, b.commit())
		snapshots = append(snapshots, s.snapshot())
	}
	must(t, s.flush())
	must(t, s.compactAll())
	s.settle()

	// Above the compacted bottom: overwritten, deleted, ranges deleted.
	change := func(n int) {
		b := s.batch()
		for range n {
			maker.Key(key, random.Uint64N(keys.Count))
			switch at := random.IntN(len(sorted) - 60); random.IntN(40) {
			case 0:
				must(t, b.deleteRange(sorted[at], sorted[at+1+random.IntN(50)]))
			case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
				must(t, b.delete(key))
			default:
				randomize(random, value)
				must(t, b.set(key, value))
			}
		}
		// A table's largest and smallest keys, and the last of a block, deleted.
		must(t, b.delete(sorted[0]))
		must(t, b.delete(sorted[len(sorted)-1]))
		must(t, b.commit())
	}
	for range 20 {
		change(int(keys.Count) / 100)
		snapshots = append(snapshots, s.snapshot())
		must(t, s.flush())
	}
	s.settle()
	must(t, s.close2(closeSnapshots))

	s = openStore(t, f, dir, false)
	for range 3 {
		change(int(keys.Count) / 100)
		must(t, s.flush())
	}
	must(t, s.close())
}

// close2 closes snapshots, which would keep the store open, and the store.
func (s store) close2(closeSnapshots func()) error {
	closeSnapshots()
	return s.close()
}

func TestChurnedDatabases(t *testing.T) {
	const count = 60_000
	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			keys := testKeys(count)
			churn(t, f, dir, keys)
			r := open_(t, f, dir)
			obsolete, tombstones, largestExclusive := 0, 0, 0
			for _, table := range r.tables {
				for _, excluded := range table.excluded {
					if excluded {
						obsolete++
					}
				}
				tombstones += len(table.tombstones)
				if table.largestExclusive {
					largestExclusive++
				}
			}
			t.Logf("%s%d obsolete blocks, %d range deletions, %d tables that end with one", shapeOf(r), obsolete, tombstones, largestExclusive)
			if tombstones == 0 {
				t.Error("no range deletions: nothing tested")
			}
			random := rand.New(rand.NewPCG(6, 6))
			maker, key := keys.Maker(), make([]byte, 32)
			var bounds [][]byte
			for _, table := range r.tables {
				bounds = append(bounds, table.smallest, table.largest)
				for i := range table.separators.len() {
					if i%7 == 0 {
						bounds = append(bounds, table.separators.at(i))
					}
				}
			}
			compare(t, f, dir, r, 20_000, func() ([]byte, bool) {
				switch random.IntN(6) {
				case 0: // bounds and separators themselves, and beside them
					key = append(key[:0], bounds[random.IntN(len(bounds))]...)
					if random.IntN(3) == 0 {
						key = append(key, 0)
					}
					return key, false
				case 1:
					key = key[:0]
					for range random.IntN(40) {
						key = append(key, byte(random.Uint32()))
					}
					return key, false
				}
				key = append(key[:0], make([]byte, 32)...)
				maker.Key(key, random.Uint64N(count+count/10))
				return key, false
			})
		})
	}
}
