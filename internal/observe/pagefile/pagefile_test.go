//go:build cgo

package pagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/PowerDNS/lmdb-go/lmdb"
	"github.com/erigontech/mdbx-go/mdbx"
	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/subject"
)

// pages are counts by table and kind.
type pages map[string]map[Kind]uint64

// What the libraries themselves count of each table, pages by kind, is what is found by looking at
// every page of the file.
func TestPagesAreThoseThatTheLibrariesCount(t *testing.T) {
	for _, layout := range subject.PageFiles() {
		t.Run(layout.Engine, func(t *testing.T) {
			f, want, last := written(t, layout)
			type place struct {
				kind   Kind
				begins uint64
			}

			places := make([]place, last+1)
			for at := range places {
				places[at].kind, places[at].begins = f.KindAt(uint64(at))
				f.Refer(uint64(at))
			}

			got := pages{}
			for _, p := range places {
				table := f.Table(p.kind, p.begins)
				if got[table] == nil {
					got[table] = map[Kind]uint64{}
				}
				got[table][p.kind]++
			}

			if got[MetaTable][Meta] != uint64(layout.MetaPages) {
				t.Errorf("meta pages: %v", got[MetaTable])
			}

			free := got[""]
			maps.DeleteFunc(got, func(name string, _ map[Kind]uint64) bool {
				return name == MetaTable || name == ""
			})
			if diff := cmp.Diff(want, got); diff != "" || len(want) < 7 {
				t.Errorf("pages (-library +file):\n%s", diff)
			}

			t.Logf("of no table: %v", free)
		})
	}
}

// The pages that a Get goes through are pages of its table, as deep as the library says that its
// tree is, and that of a large value; those of an absent key end with a leaf, too.
func TestPagesOfGets(t *testing.T) {
	for _, layout := range subject.PageFiles() {
		t.Run(layout.Engine, func(t *testing.T) {
			f, _, _ := written(t, layout)
			for _, table := range tables {
				of, err := f.byName(table.name)
				if err != nil {
					t.Fatal(err)
				}

				gets, there, large := 0, 0, 0
				for i := range rows {
					table.put(i, func(key, value []byte) {
						pages, found, err := f.PagesOf(table.name, key, nil)
						if err != nil {
							t.Fatal(err)
						}

						gets++
						if found {
							there++
						}

						if found && len(value) > 2000 {
							large++
							kind, _ := f.KindAt(pages[len(pages)-1])
							if kind != Overflow {
								t.Errorf("a large value is on a page of kind %s", kind)
							}
							pages = pages[:len(pages)-1]
						}

						f.isWay(t, of, pages)
						if of.flags&integerKey != 0 {
							return // all keys have one length
						}

						absent := append(slices.Clip(key), 0)
						pages, found, err = f.PagesOf(table.name, absent, nil)
						if f.isWay(t, of, pages); found || err != nil {
							t.Errorf("%s: a key that is not there: %v, %v", table.name, found, err)
						}
					})
				}

				t.Logf("%s: %d Gets, %d found, %d of large values", table.name, gets, there, large)
				if there < gets/2 || (table.name == "code") != (large > 0) {
					t.Errorf("%s: %d of %d keys were found, %d of them large", table.name, there,
						gets, large)
				}
			}
		})
	}
}

// written is a file that the library of a layout has written, with what that says of its pages.
func written(t *testing.T, layout subject.PageFile) (f *File, want pages, last uint64) {
	t.Helper()
	dir := t.TempDir()
	name, write := "data.mdb", ofLMDB
	if layout.Engine == "mdbx" {
		name, write = "mdbx.dat", ofMDBX
	}

	want, last = write(t, dir)
	f, err := Open(filepath.Join(dir, name), layout)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { f.Close() }) // only read
	return f, want, last
}

// isWay compares pages with those of a way down a tree.
func (f *File) isWay(t *testing.T, of *Tree, pages []uint64) {
	t.Helper()
	if len(pages) != of.depth {
		t.Fatalf("%s: %d pages, and its tree has %d levels", of.Name, len(pages), of.depth)
	}

	for level, at := range pages {
		want := Branch
		if level == of.depth-1 {
			want = Leaf
		}

		kind, begins := f.KindAt(at)
		if table := f.Table(kind, begins); kind != want || begins != at || table != of.Name {
			t.Fatalf("%s: level %d is page %d, of kind %s and table %s", of.Name, level, at, kind,
				table)
		}
	}
}

// A Get of a key with a tree of values goes down that tree, to the value that it asks for.
func TestPagesOfGetsOfManyValues(t *testing.T) {
	dir := t.TempDir()
	env, err := mdbx.NewEnv(mdbx.Default)
	if err != nil {
		t.Fatal(err)
	}

	defer env.Close()
	err = errors.Join(env.SetOption(mdbx.OptMaxDB, 1),
		env.SetGeometry(-1, -1, 1<<30, 1<<20, -1, 4096), env.Open(dir, 0, 0o600))
	if err == nil {
		err = env.Update(func(txn *mdbx.Txn) error {
			dbi, err := txn.OpenDBISimple("slots", dupSort|mdbx.Create)
			for i := 0; i < rows && err == nil; i++ {
				err = errors.Join(txn.Put(dbi, []byte("contract"), hashed(i, 64), 0),
					txn.Put(dbi, hashed(i, 28), hashed(i, 40), 0))
			}
			return err
		})
	}

	if err != nil {
		t.Fatal(err)
	}

	f, err := Open(filepath.Join(dir, "mdbx.dat"), subject.PageFiles()[0])
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close() // only read
	leaves := map[uint64]bool{}
	for i := range rows {
		pages, found, err := f.PagesOf("slots", []byte("contract"), hashed(i, 64)[:32])
		if err != nil || !found || len(pages) < 4 {
			t.Fatal(pages, found, err)
		}

		last := f.page(pages[len(pages)-1])
		if !slices.ContainsFunc(slices.Collect(last.keys()), func(value []byte) bool {
			return bytes.Equal(value, hashed(i, 64))
		}) {
			t.Fatalf("page %d does not have the value", pages[len(pages)-1])
		}

		leaves[pages[len(pages)-1]] = true
	}

	if len(leaves) < 50 {
		t.Errorf("%d leaves", len(leaves))
	}
}

// keys are those of a leaf.
func (p *page) keys() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range p.nodes() {
			if !yield(p.key(i)) {
				return
			}
		}
	}
}

// Tables of a test: their flags are equal in both libraries.
const (
	integerKey, dupSort, reverseKey = 8, 4, 2
	rows                            = 4000
)

var tables = []struct {
	name  string
	flags uint
	put   func(i int, put func(key, value []byte))
}{
	{"accounts", 0, func(i int, put func(k, v []byte)) { put(hashed(i, 32), hashed(i, 60)) }},
	{"slots of many lengths", 0,
		func(i int, put func(k, v []byte)) { put(hashed(i, 20+i%30), hashed(i, 30)) }},
	{"blocks", integerKey, func(i int, put func(k, v []byte)) {
		put(binary.NativeEndian.AppendUint64(nil, uint64(i)), hashed(i, 90))
	}},
	{"code", 0, func(i int, put func(k, v []byte)) {
		if i%20 == 0 {
			put(hashed(i, 32), slices.Repeat(hashed(i, 100), 30+i%300))
		}
	}},
	{"reversed", reverseKey,
		func(i int, put func(k, v []byte)) { put(hashed(i, 24), hashed(i, 30)) }},
	{"one value to a key", dupSort,
		func(i int, put func(k, v []byte)) { put(hashed(i, 28), hashed(i, 40)) }},
}

// hashed are bytes in no order.
func hashed(i, n int) []byte {
	out := make([]byte, 0, n+8)
	for x := uint64(i)*0x9e3779b97f4a7c15 + 1; len(out) < n; {
		x ^= x >> 31
		x *= 0xbf58476d1ce4e5b9
		x ^= x >> 27
		out = binary.BigEndian.AppendUint64(out, x)
	}
	return out[:n]
}

func ofMDBX(t *testing.T, dir string) (want pages, last uint64) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	env, err := mdbx.NewEnv(mdbx.Default)
	check(err)
	defer env.Close()
	check(env.SetOption(mdbx.OptMaxDB, 20))
	check(env.SetGeometry(-1, -1, 1<<30, 1<<20, -1, 4096))
	check(env.Open(dir, 0, 0o600))
	dbis := map[string]mdbx.DBI{}
	for round := range 3 { // later ones write pages anew, and free old ones
		check(env.Update(func(txn *mdbx.Txn) error {
			for _, table := range tables {
				dbi, err := txn.OpenDBISimple(table.name, table.flags|mdbx.Create)
				check(err)
				dbis[table.name] = dbi
				for i := round; i < rows; i += 1 + round {
					table.put(i, func(key, value []byte) {
						if round == 1 && i%3 == 0 {
							if err := txn.Del(dbi, key, nil); !mdbx.IsNotFound(err) {
								check(err)
							}
							return
						}

						check(txn.Put(dbi, key, value, 0))
					})
				}
			}

			return nil
		}))
	}

	want = pages{}
	check(env.View(func(txn *mdbx.Txn) error {
		root, err := txn.OpenRoot(0)
		check(err)
		dbis[Main], dbis[FreeList] = root, 0
		for name, dbi := range dbis {
			s, err := txn.StatDBI(dbi)
			check(err)
			want.add(name, s.BranchPages, s.LeafPages, s.OverflowPages)
		}

		return nil
	}))

	info, err := env.Info(nil)
	check(err)
	return want, uint64(info.LastPNO)
}

func ofLMDB(t *testing.T, dir string) (want pages, last uint64) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	env, err := lmdb.NewEnv()
	check(err)
	defer env.Close()
	check(env.SetMaxDBs(20))
	check(env.SetMapSize(1 << 30))
	check(env.Open(dir, 0, 0o600))
	dbis := map[string]lmdb.DBI{}
	for round := range 3 {
		check(env.Update(func(txn *lmdb.Txn) error {
			for _, table := range tables {
				dbi, err := txn.OpenDBI(table.name, table.flags|lmdb.Create)
				check(err)
				dbis[table.name] = dbi
				for i := round; i < rows; i += 1 + round {
					table.put(i, func(key, value []byte) {
						if round == 1 && i%3 == 0 {
							if err := txn.Del(dbi, key, nil); !lmdb.IsNotFound(err) {
								check(err)
							}
							return
						}

						check(txn.Put(dbi, key, value, 0))
					})
				}
			}

			return nil
		}))
	}

	want = pages{}
	check(env.View(func(txn *lmdb.Txn) error {
		root, err := txn.OpenRoot(0)
		check(err)
		dbis[Main], dbis[FreeList] = root, 0
		for name, dbi := range dbis {
			s, err := txn.Stat(dbi)
			check(err)
			want.add(name, s.BranchPages, s.LeafPages, s.OverflowPages)
		}

		return nil
	}))

	info, err := env.Info()
	check(err)
	return want, uint64(info.LastPNO)
}

func (p pages) add(table string, branch, leaf, overflow uint64) {
	all := map[Kind]uint64{Branch: branch, Leaf: leaf, Overflow: overflow}
	maps.DeleteFunc(all, func(_ Kind, n uint64) bool { return n == 0 })
	if len(all) > 0 {
		p[table] = all
	}
}

// Whatever a file holds, it is read within bounds.
func FuzzPages(f *testing.F) {
	for _, layout := range subject.PageFiles() {
		for _, bytes := range []int{0, 100, 3 << 12} {
			f.Add(slices.Repeat([]byte{0, 16, 2, 1}, bytes/4), layout.Engine == "mdbx")
		}
	}

	f.Fuzz(func(t *testing.T, content []byte, first bool) {
		layout := subject.PageFiles()[1]
		if first {
			layout = subject.PageFiles()[0]
		}

		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}

		file, err := Open(path, layout)
		if err != nil {
			return
		}

		defer file.Close() // only read
		for at := range uint64(20) {
			file.Refer(at)
			kind, begins := file.KindAt(at)
			if begins > at {
				t.Error(fmt.Sprint(kind, begins, at))
			}

			file.Table(kind, begins)
			_, _, _ = file.PagesOf(Main, content[:min(len(content), 40)], content)
		}
	})
}
