//go:build cgo

package lmdb

import (
	"encoding/binary"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/PowerDNS/lmdb-go/lmdb"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }

// TestAWriterWhileReading wants a warning: a foreign database is read without its
// lock file, which would keep the writer from reusing our pages.
func TestAWriterWhileReading(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	created, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Create: true})
	must(t, err)
	must(t, created.Close())
	reading, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	must(t, err)
	defer func() { must(t, reading.Close()) }()
	if w := reading.Warnings(); len(w) > 0 {
		t.Errorf("warnings before anybody writes: %+v", w)
	}

	writing, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir})
	must(t, err)
	defer func() { must(t, writing.Close()) }()
	w, err := writing.Writer()
	must(t, err)
	must(t, w.Put(keyOf(1), nil))
	must(t, w.Commit())
	if w := reading.Warnings(); len(w) != 1 || w[0].Code != "written_meanwhile" {
		t.Errorf("warnings %+v, want written_meanwhile", w)
	}
}

// TestNamedDatabases: what the root of an environment with named databases holds is
// not measured; a database is chosen by name.
func TestNamedDatabases(t *testing.T) {
	dir := t.TempDir()
	env, err := lmdb.NewEnv()
	must(t, err)
	must(t, env.SetMaxDBs(10))
	must(t, env.Open(dir, 0, 0o644))
	must(t, env.Update(func(txn *lmdb.Txn) error {
		for i, name := range []string{"accounts", "slots"} {
			table, err := txn.OpenDBI(name, lmdb.Create|uint(i)*lmdb.DupSort)
			if err != nil {
				return err
			}

			for _, value := range []string{"1 of " + name, "2 of " + name} {
				if err := txn.Put(table, []byte("key"), []byte(value), 0); err != nil {
					return err
				}
			}
		}

		return nil
	}))

	must(t, env.Close())

	listed, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	must(t, err)
	if _, err := listed.Reader(); err == nil ||
		!strings.Contains(err.Error(), "--table NAME: accounts, slots") {
		t.Errorf("no table chosen: error %v, want one that lists the tables", err)
	}

	shape, err := listed.Shape()
	must(t, err)
	want := []engine.Table{
		{Name: "accounts", Keys: 1, Bytes: 4096},
		{Name: "slots", Keys: 2, Bytes: 4096, SeveralValues: true},
	}

	if !reflect.DeepEqual(shape.Tables, want) {
		t.Errorf("tables %+v, want %+v", shape.Tables, want)
	}

	must(t, listed.Close())
	_, err = Engine{}.Open(t.Context(), engine.Options{
		Dir:       dir,
		Foreign:   true,
		Overrides: map[string]string{"table": "code"},
	})

	if err == nil ||
		!strings.Contains(err.Error(), "there is no table code: the tables are accounts, slots") {
		t.Errorf("a table that is not there: error %v, want one that lists the tables", err)
	}

	mixed, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:       dir,
		Foreign:   true,
		Overrides: map[string]string{"table": "accounts=1;slots=3"},
	})

	must(t, err)
	reader, err := mixed.Reader()
	must(t, err)
	asked := map[byte]int{}
	must(t, mixed.(engine.KeySampler).SampleKeys(t.Context(), 100, 1, func(key []byte) error {
		asked[key[0]]++
		value, found, err := reader.Get(key, nil)
		if table := []string{"accounts", "slots"}[key[0]]; err == nil &&
			(!found || !strings.HasSuffix(string(value), " of "+table)) {
			t.Errorf("%q of the mix: %q, found %v, in table %s", key, value, found, table)
		}

		return err
	}))

	if asked[0] != 25 || asked[1] != 75 {
		t.Errorf("%v keys of each table, want 25 and 75", asked)
	}

	must(t, reader.Close())
	must(t, mixed.Close())
	for name, want := range map[string]string{"accounts": "2 of accounts", "slots": "1 of slots"} {
		db, err := Engine{}.Open(t.Context(), engine.Options{
			Dir:       dir,
			Foreign:   true,
			Overrides: map[string]string{"table": name},
		})

		must(t, err)
		r, err := db.Reader()
		must(t, err)
		value, found, err := r.Get([]byte("key"), nil)
		if err != nil || !found || string(value) != want {
			t.Errorf("%s: %q, found %t, error %v: want %q", name, value, found, err, want)
		}

		must(t, db.Close())
	}
}

// TestFullMap wants the way out, and the batch refused whole.
func TestFullMap(t *testing.T) {
	db := create(t, map[string]string{"map_size": "1MiB"})
	w, err := db.Writer()
	must(t, err)
	for i := range uint64(100_000) {
		must(t, w.Put(keyOf(i), make([]byte, 110)))
	}

	if err := w.Commit(); err == nil || !strings.Contains(err.Error(), "--set map_size") {
		t.Errorf("error %v, want one that names the option", err)
	}

	r, err := db.Reader()
	must(t, err)
	if _, found, err := r.Get(keyOf(0), nil); err != nil || found {
		t.Errorf("found %t of a refused batch, error %v", found, err)
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	r, key := loaded(t)
	dst := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(1000, func() {
		if _, found, err := r.Get(key, dst); err != nil || !found {
			t.Fatal(found, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a Get", n)
	}
}

func BenchmarkGet(b *testing.B) {
	r, key := loaded(b)
	dst := make([]byte, 0, 256)
	get := func(b *testing.B, key []byte) {
		if _, _, err := r.Get(key, dst); err != nil {
			b.Fatal(err)
		}
	}

	b.Run("Found", func(b *testing.B) {
		for b.Loop() {
			get(b, key)
		}
	})

	b.Run("Missing", func(b *testing.B) {
		absent := make([]byte, 32)
		for b.Loop() {
			get(b, absent)
		}
	})

	b.Run("AfterACommit", func(b *testing.B) { // a transaction begun anew for each
		for b.Loop() {
			r.Seen--
			get(b, key)
		}
	})
}

// loaded is a reader of 100,000 keys, and one of them.
func loaded(t testing.TB) (*reader, []byte) {
	t.Helper()
	const n = 100_000
	db := create(t, nil)
	w, err := db.Writer()
	must(t, err)
	for i := range uint64(n) {
		must(t, w.Put(keyOf(i), make([]byte, 110)))
	}

	must(t, w.Commit())
	r, err := db.Reader()
	must(t, err)
	return r.(*reader), keyOf(n / 2)
}

// keyOf spreads the numbers over the key space.
func keyOf(i uint64) []byte {
	key := make([]byte, 32)
	binary.BigEndian.PutUint64(key, (i+1)*0x9e3779b97f4a7c15)
	return key
}

func create(t testing.TB, overrides map[string]string) engine.DB {
	t.Helper()
	db, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:       filepath.Join(t.TempDir(), "db"),
		Create:    true,
		Overrides: overrides,
	})

	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOverflowPages: a value beyond a page has pages of its own, which are told as values. How many
// a value of 10,000 bytes takes is the library's format: its header of 16 or 20 bytes and the
// value, in pages of 4 KiB.
func TestOverflowPages(t *testing.T) {
	dir := t.TempDir()
	env, err := lmdb.NewEnv()
	must(t, err)
	must(t, env.SetMaxDBs(10))
	must(t, env.Open(dir, 0, 0o644))
	const large, pages = 50, 3
	write := func(txn *lmdb.Txn) error {
		for _, name := range []string{"code", "slots"} {
			table, err := txn.OpenDBI(name, lmdb.Create)
			if err != nil {
				return err
			}

			for i := range byte(200) {
				value := make([]byte, 100)
				if name == "code" && i < large {
					value = make([]byte, 10_000)
				}

				if err := txn.Put(table, []byte{i}, value, 0); err != nil {
					return err
				}
			}
		}

		return nil
	}

	must(t, env.Update(write))
	must(t, env.Close())

	db, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	must(t, err)
	shape, err := db.Shape()
	must(t, err)
	must(t, db.Close())
	want := &engine.Values{Bytes: large * pages * 4096}
	if !reflect.DeepEqual(shape.Values, want) ||
		!reflect.DeepEqual(shape.Tables[0].Values, want) || shape.Tables[1].Values != nil {
		t.Errorf("values %+v, of the tables %+v; want %+v in the first", shape.Values,
			shape.Tables, want)
	}
}

// TestSampleIsUniform compares draws of keys with the list of all.
func TestSampleIsUniform(t *testing.T) {
	h := enginetest.NewHistory()
	dir := enginetest.BuildHistory(t, Engine{}, h, nil, nil)
	opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
	must(t, err)
	enginetest.CheckUniform(t, opened, h.Live)
	must(t, opened.Close())
}
