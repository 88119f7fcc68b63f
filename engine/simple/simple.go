// Package simple makes an engine that can be measured of the few methods of a [Store]: for an
// engine without options, without a cache of its own and without work in the background, or for the
// first version of an adapter.
//
//	var Engine = simple.New(engine.Info{Name: "mine", Version: "1", Licence: "Apache-2.0"}, open)
//
//	func open(o engine.Options) (simple.Store, error) {
//		file, err := simple.OpenFile(o, "mine.log")
//		...
//	}
//
// A test of one line says what is missing, and package measure measures the engine:
//
//	func TestConforms(t *testing.T) { enginetest.Run(t, Engine) } // package engine/enginetest
//
// examples/measure of this repository is such an engine, with a benchmark beside Pebble. An engine
// that has more to tell implements [engine.Engine] itself.
package simple

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// Store is an open database. Get and Counters are called by several goroutines at once, and while
// others are in Commit or Sync; of these, one runs at a time.
type Store interface {
	// Get copies the value of key behind dst[:0], growing it as needed, and returns it; the caller
	// owns it. found is false for a key that is not there, which is no error.
	Get(key, dst []byte) (value []byte, found bool, err error)
	// Commit applies changes in their order. All of them are there for each Get that begins after
	// it has returned, and all or none of them after a kill of the process: they need not be on
	// disk before Sync. The store may keep the slices. It is not called for a database that is open
	// for reading only.
	Commit(changes []Change) error
	// Sync returns when everything that was committed survives a kill of the process. It is called
	// before Close, too, and not for a database that is open for reading only.
	Sync() error
	// Counters are totals since the database was opened; a nil pointer says that the engine does
	// not count it. [Reads] has this method, for a store to embed.
	Counters() engine.Counters
	Close() error
}

// Change is a key and its new value, or a deletion.
type Change struct {
	Key, Value []byte
	Deleted    bool // Value is nil
}

// New makes an engine. Of info, Name, Version and Licence have to be there, and Capabilities such
// as engine.CanReadBlocks if the counters have block reads, which may be 0; New adds what is true
// of every Store.
//
// open opens the database in the folder o.Dir or, if o.Create, makes one there: the folder exists
// then, and no file of another database is in it. The store may keep any files there, need have
// none before the first Sync, and need not lock them. If there is no database in the folder, the
// error wraps fs.ErrNotExist.
func New(info engine.Info, open func(o engine.Options) (Store, error)) engine.Engine {
	if info.Route == "" {
		info.Route = "go module"
	}

	if len(info.Profiles) == 0 {
		info.Profiles = []engine.Profile{{Name: "default", About: "the engine has no options"}}
	}

	info.Capabilities = append(slices.Clone(info.Capabilities), engine.HasNoCache,
		engine.HasNoHandles)
	return simple{info, open}
}

// OpenFile opens a file in o.Dir: a new one if o.Create, for reading only if o.ReadsOnly().
func OpenFile(o engine.Options, name string) (*os.File, error) {
	flags := os.O_RDWR
	switch {
	case o.Create:
		flags |= os.O_CREATE | os.O_EXCL
	case o.ReadsOnly():
		flags = os.O_RDONLY
	}

	return os.OpenFile(filepath.Join(o.Dir, name), flags, 0o644)
}

// Reads counts block reads of an engine whose blocks are all of one type and no level. The zero
// value has counted none.
type Reads struct{ count, bytes atomic.Int64 }

// Add counts a block read of so many bytes of the file.
func (r *Reads) Add(bytes int) {
	r.count.Add(1)
	r.bytes.Add(int64(bytes))
}

// Counters has the block reads, and nothing else.
func (r *Reads) Counters() engine.Counters {
	reads := new(engine.BlockReads)
	reads[engine.LevelUnknown][engine.Data] = engine.Tally{
		Count: r.count.Load(),
		Bytes: r.bytes.Load(),
	}

	return engine.Counters{Reads: reads}
}

// simple implements engine.Engine.
type simple struct {
	info engine.Info
	open func(engine.Options) (Store, error)
}

func (s simple) Info() engine.Info { return s.info }

func (s simple) Check(o engine.Options) []error {
	errs := adapter.Check(s.info, o)
	if is := func(p engine.Profile) bool { return p.Name == o.Profile }; o.Profile != "" &&
		!slices.ContainsFunc(s.info.Profiles, is) {
		errs = append(errs, fmt.Errorf("unknown profile %q: use %s", o.Profile,
			s.info.Profiles[0].Name))
	}

	for name := range o.Overrides {
		errs = append(errs, engine.Fail(engine.CodeOption, "unknown option %q: %s has none", name,
			s.info.Name))
	}

	return errs
}

func (s simple) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	if err := errors.Join(s.Check(o)...); err != nil {
		return nil, err
	}

	if o.Create {
		if err := adapter.MakeEmpty(o.Dir); err != nil {
			return nil, err
		}
	}

	store, err := s.open(o)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !o.Create:
		return nil, &engine.NotADatabaseError{Dir: o.Dir, Why: err.Error()}
	case err != nil:
		return nil, fmt.Errorf("%s: open %s: %w", s.info.Name, o.Dir, err)
	case store == nil:
		return nil, fmt.Errorf("%s: open %s: the function given to simple.New returned neither a "+
			"store nor an error", s.info.Name, o.Dir)
	}

	return &db{store: store, options: o}, nil
}

// db implements engine.DB.
type db struct {
	store   Store
	options engine.Options
	writing sync.Mutex
}

func (d *db) Reader() (engine.Reader, error) { return reader{d.store}, nil }

func (d *db) Writer() (engine.Writer, error) {
	if d.options.ReadsOnly() {
		return nil, errors.New("the database is open for reading only")
	}
	return &writer{db: d}, nil
}

func (d *db) Sync(context.Context) error {
	if d.options.ReadsOnly() {
		return nil
	}

	d.writing.Lock()
	defer d.writing.Unlock()
	return d.store.Sync()
}

func (d *db) Settle(ctx context.Context, _ func(engine.Settling)) error { return d.Sync(ctx) }

func (d *db) Counters() engine.Counters { return d.store.Counters() }

// Shape sums up the files in the folder.
func (d *db) Shape() (shape engine.Shape, err error) {
	err = filepath.WalkDir(d.options.Dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != d.options.Dir && engine.MayBeIn(entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		shape.Files++
		shape.Bytes += info.Size()
		return nil
	})
	return shape, err
}

func (*db) Effective() map[string]string {
	return map[string]string{"cache_bytes": "0", "handles": "0"}
}

func (*db) CacheBytes() int64 { return 0 }

func (*db) Warnings() []engine.Warning { return nil }

func (d *db) Close() error { return errors.Join(d.Sync(context.Background()), d.store.Close()) }

type reader struct{ store Store }

func (r reader) Get(key, dst []byte) (value []byte, found bool, err error) {
	return r.store.Get(key, dst)
}

func (reader) Close() error { return nil }

type writer struct {
	db      *db
	changes []Change
}

func (w *writer) Put(key, value []byte) error {
	w.changes = append(w.changes, Change{Key: bytes.Clone(key), Value: bytes.Clone(value)})
	return nil
}

func (w *writer) Delete(key []byte) error {
	w.changes = append(w.changes, Change{Key: bytes.Clone(key), Deleted: true})
	return nil
}

func (w *writer) Commit() error {
	changes := w.changes
	if w.changes = nil; len(changes) == 0 {
		return nil
	}

	w.db.writing.Lock()
	defer w.db.writing.Unlock()
	return w.db.store.Commit(changes)
}

func (*writer) Close() error { return nil }
