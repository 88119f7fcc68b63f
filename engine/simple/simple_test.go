package simple_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/simple"
)

// snapshot is an engine that keeps a map in memory and writes all of it when it is synced.
func snapshot() engine.Engine {
	return simple.New(engine.Info{Name: "snapshot", Version: "1", Licence: "Apache-2.0"}, open)
}

const fileName = "snapshot.json"

type store struct {
	dir    string
	mutex  sync.RWMutex
	values map[string][]byte
}

func open(o engine.Options) (simple.Store, error) {
	s := &store{dir: o.Dir, values: map[string][]byte{}}
	if o.Create {
		return s, nil
	}

	text, err := os.ReadFile(filepath.Join(o.Dir, fileName))
	if err != nil {
		return nil, err
	}

	var pairs [][2][]byte
	err = json.Unmarshal(text, &pairs)
	for _, pair := range pairs {
		s.values[string(pair[0])] = pair[1]
	}

	return s, err
}

func (s *store) Get(key, dst []byte) (value []byte, found bool, err error) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	value, found = s.values[string(key)]
	return append(dst[:0], value...), found, nil
}

func (s *store) Commit(changes []simple.Change) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, c := range changes {
		if s.values[string(c.Key)] = c.Value; c.Deleted {
			delete(s.values, string(c.Key))
		}
	}
	return nil
}

func (s *store) Sync() error {
	var pairs [][2][]byte
	for key, value := range s.values {
		pairs = append(pairs, [2][]byte{[]byte(key), value})
	}

	text, err := json.Marshal(pairs)
	if err != nil {
		return err
	}

	path := filepath.Join(s.dir, fileName)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (*store) Counters() engine.Counters { return engine.Counters{} }

func (*store) Close() error { return nil }

// TestDatabase: batches are applied at their commit, and are there when the database is opened
// again. The conformance suite tests the rest on the engine of examples/measure.
func TestDatabase(t *testing.T) {
	e, dir := snapshot(), filepath.Join(t.TempDir(), "db")
	var missing *engine.NotADatabaseError
	if _, err := e.Open(t.Context(), engine.Options{Dir: dir}); !errors.As(err, &missing) {
		t.Errorf("a folder that is not there: %v", err)
	}

	db, err := e.Open(t.Context(), engine.Options{Dir: dir, Create: true})
	must(t, err)
	r, err := db.Reader()
	must(t, err)
	w, err := db.Writer()
	must(t, err)
	key := []byte("a")
	must(t, w.Put(key, key))
	key[0] = 'b' // is the caller's again
	must(t, w.Put(key, key))
	expect(t, r, "a", "")
	must(t, w.Commit())
	expect(t, r, "a", "a")
	expect(t, r, "b", "b")
	must(t, w.Delete([]byte("a")))
	must(t, w.Commit())
	must(t, w.Put([]byte("c"), []byte("c")))
	must(t, w.Close())
	must(t, db.Close())

	if _, err := e.Open(t.Context(), engine.Options{Dir: dir, Create: true}); err == nil {
		t.Error("made over another")
	}

	db, err = e.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
	must(t, err)
	r, err = db.Reader()
	must(t, err)
	expect(t, r, "a", "")
	expect(t, r, "b", "b")
	expect(t, r, "c", "")
	if _, err := db.Writer(); err == nil {
		t.Error("a writer of a database that is open for reading only")
	}
	must(t, db.Sync(t.Context())) // does nothing
	must(t, db.Close())
}

// expect checks the value of a key; "": there is none.
func expect(t *testing.T, r engine.Reader, key, want string) {
	t.Helper()
	value, found, err := r.Get([]byte(key), nil)
	if err != nil || found != (want != "") || found && string(value) != want {
		t.Errorf("%s: %q, %v, %v; want %q", key, value, found, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFiles: a file is made with its database alone, and only then.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := simple.OpenFile(engine.Options{Dir: dir}, "log"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}

	f, err := simple.OpenFile(engine.Options{Dir: dir, Create: true}, "log")
	must(t, err)
	must(t, f.Close())
	if _, err := simple.OpenFile(engine.Options{Dir: dir, Create: true}, "log"); err == nil {
		t.Error("made twice")
	}

	f, err = simple.OpenFile(engine.Options{Dir: dir, ReadOnly: true}, "log")
	must(t, err)
	if _, err := f.WriteString("x"); err == nil {
		t.Error("written although it is open for reading only")
	}
	must(t, f.Close())
}

// TestReads: counted reads are block reads of data.
func TestReads(t *testing.T) {
	var r simple.Reads
	r.Add(7)
	r.Add(3)
	if got := r.Counters().Reads.Type(engine.Data); got != (engine.Tally{Count: 2, Bytes: 10}) {
		t.Errorf("%+v", got)
	}
}

// TestOptions: a profile or an option that there is not is refused with its name.
func TestOptions(t *testing.T) {
	e := snapshot()
	for _, o := range []engine.Options{{Profile: "fast"},
		{Overrides: map[string]string{"fast": "1"}}} {
		if errs := e.Check(o); len(errs) != 1 || !strings.Contains(errs[0].Error(), "fast") {
			t.Errorf("%+v: %v", o, errs)
		}
	}

	if info := e.Info(); !info.Has(engine.HasNoCache) || !info.Has(engine.HasNoHandles) ||
		info.Route == "" || len(info.Profiles) != 1 {
		t.Errorf("%+v", info)
	}
}

// TestShape: the harness's folder is no part of the database.
func TestShape(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, engine.OwnFolder)
	for path, text := range map[string]string{
		filepath.Join(own, "manifest"): "of the harness", filepath.Join(dir, fileName): "[]",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	db, err := snapshot().Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}

	shape, err := db.Shape()
	if err != nil || shape.Bytes != 2 || shape.Files != 1 {
		t.Errorf("%+v, %v", shape, err)
	}

	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNoStore(t *testing.T) {
	e := simple.New(engine.Info{Name: "mine"}, func(engine.Options) (simple.Store, error) {
		return nil, nil
	})
	_, err := e.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "neither a store nor an error") {
		t.Error(err)
	}
}
