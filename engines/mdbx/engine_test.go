//go:build cgo

package mdbx

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/erigontech/mdbx-go/mdbx"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }

// TestAnotherVersion: a file of another version of libmdbx is not "no database". libmdbx itself
// makes the file, and says what it is once each of its three meta pages names another version.
func TestAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	env, err := mdbx.NewEnv(mdbx.Default)
	must(t, err)
	must(t, env.Open(dir, 0, 0o644))
	info, err := env.Info(nil)
	must(t, err)
	env.Close()
	file, err := os.OpenFile(filepath.Join(dir, dataFile), os.O_RDWR, 0)
	must(t, err)
	for page := range int64(3) {
		const headerBytes = 20 // of a page; the version is the lowest byte behind it
		_, err := file.WriteAt([]byte{99}, page*int64(info.PageSize)+headerBytes)
		must(t, err)
	}

	must(t, file.Close())
	_, err = Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if code := engine.CodeOf(err); code != engine.CodeUnsupported {
		t.Errorf("%q: %v", code, err)
	}
}

// TestTablesOfOthers reads a database that another program made: keys are in
// tables, one of them with several values under a key.
func TestTablesOfOthers(t *testing.T) {
	dir := t.TempDir()
	env, err := mdbx.NewEnv(mdbx.Default)
	must(t, err)
	must(t, env.SetOption(mdbx.OptMaxDB, 10))
	must(t, env.Open(dir, 0, 0o644))
	must(t, env.Update(func(txn *mdbx.Txn) error {
		for name, flags := range map[string]uint{"Headers": 0, "PlainState": mdbx.DupSort} {
			table, err := txn.OpenDBISimple(name, mdbx.Create|flags)
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

	env.Close()

	listed, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	must(t, err)
	if _, err := listed.Reader(); err == nil ||
		!strings.Contains(err.Error(), "--table NAME: Headers, PlainState") {
		t.Errorf("no table chosen: error %v, want one that lists the tables", err)
	}

	shape, err := listed.Shape()
	must(t, err)
	if len(shape.Tables) != 2 || shape.Tables[0].Name != "Headers" || shape.Tables[0].Keys == 0 ||
		shape.Tables[0].Bytes == 0 ||
		shape.Tables[0].SeveralValues || !shape.Tables[1].SeveralValues {
		t.Errorf("tables %+v", shape.Tables)
	}

	must(t, listed.Close())
	none := map[string]string{"table": "Bodies"}
	_, err = Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true, Overrides: none})
	if err == nil || !strings.Contains(err.Error(), "Headers, PlainState") {
		t.Errorf("a table that is not there: error %v, want one that lists the tables", err)
	}

	mixed, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:       dir,
		Foreign:   true,
		Overrides: map[string]string{"table": "Headers=1;PlainState=3"},
	})

	must(t, err)
	reader, err := mixed.Reader()
	must(t, err)
	asked := map[byte]int{}
	must(t, mixed.(engine.KeySampler).SampleKeys(t.Context(), 100, 1, func(key []byte) error {
		asked[key[0]]++
		value, found, err := reader.Get(key, nil)
		if table := []string{"Headers", "PlainState"}[key[0]]; err == nil &&
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
	for name, want := range map[string]string{
		"Headers":    "2 of Headers",
		"PlainState": "1 of PlainState",
	} {
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

		if told := db.Counters().Accesses != nil; told != (name == "Headers") {
			t.Errorf("%s: pages touched are told: %t", name, told)
		}

		must(t, db.Close())
	}
}

// TestFullMap wants the way out, and the batch refused whole.
func TestFullMap(t *testing.T) {
	db := create(t, map[string]string{"size_upper": "1MiB"})
	w, err := db.Writer()
	must(t, err)
	for i := range uint64(100_000) {
		must(t, w.Put(binary.BigEndian.AppendUint64(nil, i), make([]byte, 110)))
	}

	if err := w.Commit(); err == nil || !strings.Contains(err.Error(), "--set size_upper") {
		t.Errorf("error %v, want one that names the option", err)
	}

	r, err := db.Reader()
	must(t, err)
	if _, found, err := r.Get(make([]byte, 8), nil); err != nil || found {
		t.Errorf("found %t of a refused batch, error %v", found, err)
	}
}

// TestForeignIsOpenedAside: through a folder of ours, of which nothing is left, and
// with a lock that keeps writers out.
func TestForeignIsOpenedAside(t *testing.T) {
	dir, aside := filepath.Join(t.TempDir(), "db"), t.TempDir()
	db, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Create: true})
	must(t, err)
	must(t, db.Close())
	t.Setenv("TMPDIR", aside)
	db, err = Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	must(t, err)
	if left, err := os.ReadDir(aside); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}

	_, err = Engine{}.Open(t.Context(), engine.Options{Dir: dir})
	if locked := new(engine.LockedError); !errors.As(err, &locked) {
		t.Errorf("opened for writing beside a reader: error %v, want a LockedError", err)
	}

	must(t, db.Close())
}

func TestGetAllocatesNothing(t *testing.T) {
	r, key := loaded(t)
	absent, dst := make([]byte, 32), make([]byte, 0, 256)
	if n := testing.AllocsPerRun(1000, func() {
		_, found, err := r.Get(key, dst)
		_, none, missErr := r.Get(absent, dst)
		if err != nil || missErr != nil || !found || none {
			t.Fatal(found, err, none, missErr)
		}
	}); n != 0 {
		t.Errorf("%v allocations by a Get that finds and one that does not", n)
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
	db := create(t, nil)
	w, err := db.Writer()
	must(t, err)
	key := make([]byte, 32)
	for i := range uint64(100_000) {
		binary.BigEndian.PutUint64(key, (i+1)*0x9e3779b97f4a7c15)
		must(t, w.Put(key, make([]byte, 110)))
	}

	must(t, w.Commit())
	r, err := db.Reader()
	must(t, err)
	return r.(*reader), key
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
	env, err := mdbx.NewEnv(mdbx.Default)
	must(t, err)
	must(t, env.SetOption(mdbx.OptMaxDB, 10))
	must(t, env.Open(dir, 0, 0o644))
	const large, pages = 50, 3
	write := func(txn *mdbx.Txn) error {
		for _, name := range []string{"code", "slots"} {
			table, err := txn.OpenDBISimple(name, mdbx.Create)
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
	env.Close()

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
