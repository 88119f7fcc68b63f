package resolve

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// appearing lists the files of a folder that it did not list before.
func appearing(dir string) func() ([]string, error) {
	known := map[string]bool{}
	return func() (paths []string, err error) {
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			if !known[e.Name()] {
				known[e.Name()] = true
				paths = append(paths, filepath.Join(dir, e.Name()))
			}
		}

		return paths, err
	}
}

// asked are the blocks that a Get asks for, and whether it finds the key.
func asked(
	t *testing.T, r lookuppath.Source, w lookuppath.PathResolver, key []byte,
) (asked []string) {
	t.Helper()
	numbers, found, err := w.Get(key, false, nil)
	must(t, err)
	for _, number := range numbers {
		b, err := r.Block(number)
		must(t, err)
		asked = append(asked, fmt.Sprintf("%d:%d %v", b.File, b.Offset, b.Type))
	}

	return append(asked, fmt.Sprint(found))
}

// levelsNow are the levels of the tables to which a database was followed, by their numbers.
func levelsNow(f *Following) map[uint64]int {
	levels := map[uint64]int{}
	for file, t := range f.Live {
		levels[file] = t.Level
	}
	return levels
}

// listed are the levels of the tables that Pebble lists, by their numbers.
func listed(t *testing.T, f flavour, dir string) map[uint64]int {
	t.Helper()
	levels := map[uint64]int{}
	now, err := listAlone(dir, f.version)
	must(t, err)
	for _, table := range now.tables {
		levels[uint64(blockio.FileNumber(table.File))] = table.Level
	}
	return levels
}

// While Pebble writes, flushes and compacts, the tables that its manifest was followed to are those
// that Pebble itself lists. Afterwards each Get asks for the blocks that it asked for at its
// moment, although most of those tables are gone.
func TestFollowing(t *testing.T) {
	const count, steps, gets = 20_000, 24, 150
	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.small, f.inLog = true, true
			dir, keys := t.TempDir(), testKeys(count)
			c := &churner{t: t, f: f, random: rand.New(rand.NewPCG(3, 9))}
			maker := keys.Maker()
			for i := range keys.Count {
				key := make([]byte, keys.Bytes)
				maker.Key(key, i)
				c.sorted = append(c.sorted, key)
			}

			c.s = openStore(t, f, dir, true)
			c.s.load(t, keys, 0, keys.Count/2)
			must(t, c.s.flush())
			c.s.settle()
			following, err := Follow(dir, f.version, appearing(dir))
			must(t, err)
			defer func() { must(t, following.Close()) }()
			random := rand.New(rand.NewPCG(4, 4))
			var wanted [steps + 1][][]string
			var asking [steps + 1][][]byte
			for step := 1; step <= steps; step++ {
				c.change(count / 40)
				if step%3 > 0 {
					must(t, c.s.flush())
				}

				if step%8 == 0 {
					must(t, c.s.compactAll())
				}

				c.s.settle()
				var levels map[uint64]int
				var r *Resolver
				// a compaction may begin late on a busy machine
				for before := listed(t, f, dir); r == nil; {
					r, err = Open(dir, f.version)
					must(t, err)
					following.Poll(time.Duration(step))
					must(t, following.Failed())
					if levels = listed(t, f, dir); !maps.Equal(before, levels) {
						must(t, r.Close())
						before, r = levels, nil
					}
				}

				if diff := cmp.Diff(levels, levelsNow(following)); diff != "" {
					t.Fatalf("step %d: tables and their levels (-Pebble +followed):\n%s", step,
						diff)
				}

				for range gets {
					key := c.sorted[random.IntN(count)]
					asking[step] = append(asking[step], key)
					wanted[step] = append(wanted[step], asked(t, r, r.Walker(), key))
				}

				must(t, r.Close())
			}

			moments, err := following.Moments()
			must(t, err)
			w, gone := moments.Walk(), 0
			for step := 1; step <= steps; step++ {
				for i, key := range asking[step] {
					if diff := cmp.Diff(wanted[step][i],
						asked(t, moments, w,
							lsmtail.AppendTime(key, time.Duration(step)))); diff != "" {
						t.Fatalf("step %d, key %x (-then +now):\n%s", step, key, diff)
					}
				}
			}

			for file := range following.Known {
				if _, still := following.Live[file]; !still {
					gone++
				}
			}

			if changes, _ := following.Changes(memTableBytes, true); gone == 0 ||
				len(changes) < gone {
				t.Errorf("%d tables are gone, and %d changes", gone, len(changes))
			}

			c.close()
		})
	}
}

// Memtables that were full of small entries have grown, though the tables that they became are
// small.
func TestMemTablesOfSmallEntries(t *testing.T) {
	const batches, entries = 5000, 20
	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			if testing.Short() && !strings.HasSuffix(f.name, "newest") {
				t.Skip("older formats have the same log")
			}

			t.Parallel()
			f.inLog = true
			dir := t.TempDir()
			s := openStore(t, f, dir, false)
			for n := range batches {
				b := s.batch()
				for i := range entries {
					must(t, b.set(binary.BigEndian.AppendUint64(nil, uint64(n*entries+i)), nil))
				}
				must(t, b.commit())
			}

			s.settle()
			following, err := Follow(dir, f.version, appearing(dir))
			must(t, err)
			defer func() { must(t, following.Close()) }()
			if _, held := following.Changes(memTableBytes, true); held != s.memTables() {
				t.Errorf("memtables hold %d bytes, want %d", held, s.memTables())
			}

			must(t, s.close())
		})
	}
}

// What memtables take of the cache while they grow, from the opening of a database that has a log
// on, is what Pebble says.
func TestMemTablesGrow(t *testing.T) {
	const steps, batch, valueBytes = 120, 100, 1000
	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			if testing.Short() && !strings.HasSuffix(f.name, "newest") {
				t.Skip("older formats have the same log")
			}

			t.Parallel()
			f.inLog = true
			dir, random := t.TempDir(), rand.New(rand.NewPCG(5, 9))
			var s store
			write := func() {
				b, value := s.batch(), make([]byte, valueBytes)
				for range batch {
					randomize(random, value)
					must(t, b.set(value[:16], value))
				}

				must(t, b.commit())
				s.settle()
			}

			s = openStore(t, f, dir, false)
			write()
			must(t, s.flush())
			write()
			must(t, s.close())
			s = openStore(t, f, dir, false)
			following, err := Follow(dir, f.version, appearing(dir))
			must(t, err)
			defer func() { must(t, following.Close()) }()
			var want, got [steps + 1]int64
			for step := 1; step <= steps; step++ {
				write()
				following.Poll(time.Duration(step))
				want[step] = s.memTables()
			}

			must(t, following.Failed())
			changes, held := following.Changes(memTableBytes, true)
			for step := 1; step <= steps; step++ {
				for ; len(changes) > 0 &&
					changes[0].At <= time.Duration(step); changes = changes[1:] {
					held += changes[0].Held
				}
				got[step] = held
			}

			// The first version reads the log into memory beside the first memtable, which the
			// second uses for it.
			begin := map[cachesim.PebbleVersion]int{1: steps / 2, 2: 1}[f.version]
			if diff := cmp.Diff(want[begin:], got[begin:]); diff != "" {
				t.Errorf("memtables hold (-Pebble +followed):\n%s", diff)
			}

			must(t, s.flush())
			must(t, s.close())
			// One that opens it now has flushed nothing of that.
			again, err := Follow(dir, f.version, appearing(dir))
			must(t, err)
			defer func() { must(t, again.Close()) }()
			if changes, held := again.Changes(memTableBytes, false); held != firstMemTableBytes ||
				len(changes) > 0 {
				t.Errorf("memtables of a reader hold %d bytes, and then %v", held, changes)
			}
		})
	}
}
