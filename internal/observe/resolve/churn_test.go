package resolve

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/testring"
)

// churner writes what plain loads never have: keys written again, deleted and
// deleted by range, in all levels, and versions that snapshots kept alive, so
// that data blocks, index partitions and whole tables hold nothing but obsolete
// entries.
type churner struct {
	t         testing.TB
	f         flavour
	s         store
	random    *rand.Rand
	sorted    [][]byte // all keys
	snapshots []func() error
}

func churn(t testing.TB, f flavour, dir string, keys keyspace.Keys) (sorted [][]byte) {
	t.Helper()
	c := &churner{t: t, f: f, random: rand.New(rand.NewPCG(9, 9))}
	maker := keys.Maker()
	for i := range keys.Count {
		key := make([]byte, keys.Bytes)
		maker.Key(key, i)
		c.sorted = append(c.sorted, key)
	}

	slices.SortFunc(c.sorted, bytes.Compare)

	c.s = openStore(t, f, dir, true)
	c.s.load(t, keys, 0, keys.Count)
	must(t, c.s.flush())
	must(t, c.s.compactAll()) // so that the next one writes the last level anew
	n := len(c.sorted)
	c.snapshot()
	c.deleteAll(c.sorted[n/4 : n/4+n/20]) // more neighbours than a table holds
	c.deleteRange(c.sorted[n/4+n/20], c.sorted[n/4+n/10])
	c.rewrite(c.sorted[n/2:n/2+40], 300, 110)
	must(t, c.s.flush())
	must(t, c.s.compactAll())
	c.s.settle()
	for range 20 {
		c.change(n / 100)
		c.snapshot()
		must(t, c.s.flush())
	}

	c.s.settle()
	c.close()

	c.s = openStore(t, f, dir, false)
	c.rewrite(c.sorted[n/3:n/3+1], 600, 4000) // a block each, more than a partition has
	c.rewrite(c.sorted[n/3+1:n/3+20], 30, 110)
	c.deleteAll(c.sorted[n/3 : n/3+20])
	must(t, c.s.flush())
	for range 3 {
		c.change(n / 100)
		must(t, c.s.flush())
	}

	c.endWithRangeDeletion(c.sorted[n/5])
	if f.hasRangeKeys() {
		c.onlyRangeKeys(c.sorted[n/6], c.sorted[n/5])
	}

	c.close()
	return c.sorted
}

func (c *churner) snapshot() { c.snapshots = append(c.snapshots, c.s.snapshot()) }

func (c *churner) close() {
	for _, closeOne := range c.snapshots {
		must(c.t, closeOne())
	}
	c.snapshots = nil
	must(c.t, c.s.close())
}

// rewrite gives each key so many versions and keeps all.
func (c *churner) rewrite(keys [][]byte, versions, valueBytes int) {
	value := make([]byte, valueBytes)
	for range versions {
		b := c.s.batch()
		for _, k := range keys {
			randomize(c.random, value)
			must(c.t, b.set(k, value))
		}

		must(c.t, b.commit())
		c.snapshot()
	}
}

func (c *churner) deleteAll(keys [][]byte) {
	b := c.s.batch()
	for _, k := range keys {
		must(c.t, b.delete(k))
	}
	must(c.t, b.commit())
}

func (c *churner) deleteRange(start, end []byte) {
	b := c.s.batch()
	must(c.t, b.deleteRange(start, end))
	must(c.t, b.commit())
}

// change writes, deletes and deletes ranges at random.
func (c *churner) change(n int) {
	b, value := c.s.batch(), make([]byte, 110)
	for range n {
		at := c.random.IntN(len(c.sorted) - 60)
		if at >= len(c.sorted)/4-60 && at < len(c.sorted)/4+len(c.sorted)/10 {
			continue // what was deleted as a whole stays so
		}

		switch c.random.IntN(40) {
		case 0:
			must(c.t, b.deleteRange(c.sorted[at], c.sorted[at+1+c.random.IntN(50)]))
		case 1:
			must(c.t, b.singleDelete(c.sorted[at]))
		case 2:
			must(c.t, b.deleteSized(c.sorted[at]))
		case 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
			must(c.t, b.delete(c.sorted[at]))
		case 13, 14, 15, 16, 17, 18:
			must(c.t, b.merge(c.sorted[at], value[:20]))
		default:
			randomize(c.random, value)
			must(c.t, b.set(c.sorted[at], value))
		}
	}

	if c.f.hasRangeKeys() {
		at := c.random.IntN(len(c.sorted) - 300)
		must(c.t, b.rangeKey(c.sorted[at], append(bytes.Clone(c.sorted[at+c.random.IntN(300)]), 1)))
	}

	// The first and the last key of all tables.
	must(c.t, b.delete(c.sorted[0]))
	must(c.t, b.delete(c.sorted[len(c.sorted)-1]))
	must(c.t, b.commit())
}

// endWithRangeDeletion flushes a table whose largest bound is where a range
// deletion ends, at key.
func (c *churner) endWithRangeDeletion(key []byte) {
	b := c.s.batch()
	must(c.t, b.set(c.sorted[0], key))
	must(c.t, b.deleteRange(c.sorted[1], key))
	must(c.t, b.commit())
	must(c.t, c.s.flush())
}

// onlyRangeKeys flushes a table that has no other.
func (c *churner) onlyRangeKeys(start, end []byte) {
	b := c.s.batch()
	must(c.t, b.rangeKey(start, end))
	must(c.t, b.commit())
	must(c.t, c.s.flush())
}

func TestChurnedDatabases(t *testing.T) {
	testring.Outer(t, "it overwrites a database in every format")
	const count = 60_000
	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.small = true
			dir := t.TempDir()
			keys := testKeys(count)
			sorted := churn(t, f, dir, keys)
			r := openResolver(t, f, dir)
			checkChurned(t, f, r)
			random := rand.New(rand.NewPCG(6, 6))
			maker, key := keys.Maker(), make([]byte, 32)
			var bounds [][]byte
			for _, table := range r.All {
				bounds = append(bounds, table.Smallest, table.Largest)
				for i := range table.Separators.Len() {
					if i%7 == 0 {
						bounds = append(bounds, table.Separators.At(i))
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
				case 1: // the neighbours that were rewritten or deleted together
					return sorted[count/3-5+random.IntN(30)], false
				case 2:
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

// checkChurned makes sure that the database has what it was churned for.
func checkChurned(t *testing.T, f flavour, r *Resolver) {
	var blocks, partitions, tables, tombstones, endWithOne, merges, beyondPoints, noPoints int
	for _, table := range r.All {
		switch {
		case table.points == nil:
			noPoints++
		case !bytes.Equal(table.points.Largest, table.Largest):
			beyondPoints++
		}

		if table.merges {
			merges++
		}

		for _, excluded := range table.excluded {
			if excluded {
				blocks++
			}
		}

		for p := range table.Partitions {
			if table.partitionExcluded(p) {
				partitions++
			}
		}

		if table.allObsolete {
			tables++
		}

		tombstones += len(table.tombstones)
		if table.Exclusive {
			endWithOne++
		}
	}

	t.Logf("%sobsolete: %d blocks, %d partitions, %d tables; %d range deletions, %d tables end "+
		"with one, %d have merges, %d end with range keys, %d have only those",
		shapeOf(r), blocks, partitions, tables, tombstones, endWithOne, merges, beyondPoints,
		noPoints)

	marksObsolete := f.name == "pebble1 newest" || f.name == "pebble2 newest"
	if tombstones == 0 || endWithOne == 0 || merges == 0 ||
		f.hasRangeKeys() != (beyondPoints > 0 && noPoints > 0) ||
		marksObsolete != (blocks > 0 && partitions > 0 && tables > 0) {
		t.Error("the database lacks what this test is about")
	}
}
