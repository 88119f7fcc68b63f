// Package iavlforest is what the adapters of iavl v0 and v1 share: stores as
// trees over prefixes of one database, laid out as the Cosmos SDK lays out its
// application.db, with all versions in step.
//
// iavl saves one tree at a time. As in the SDK, a version of the forest is
// committed when its number is written after the last tree; what a killed process
// left behind it is taken back when the forest is opened.
//
// Non-goals: pruning, old versions, and the libraries themselves, of which one
// module holds one version.
package iavlforest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// Store is the tree of one store.
type Store interface {
	Set(key, value []byte) (updated bool, err error)
	Remove(key []byte) (value []byte, removed bool, err error)
	Get(key []byte) ([]byte, error)
	SaveVersion() (root []byte, version int64, err error)
	Size() int64
	Height() int8
}

// Library is one version of iavl, set up to open stores.
type Library struct {
	Name      string // of the adapter
	Database  Database
	Counter   *Counter
	Effective map[string]string

	// Open opens a store at version, 0 for a new one. With repair, it takes later
	// versions back.
	Open func(store string, version int64, repair bool) (Store, error)
	// Close ends a store; nil where there is nothing to end.
	Close func(Store) error
	// Cache is what the node caches were asked.
	Cache func() (hits, misses uint64)
}

// forest is an open forest of iavl trees.
type forest struct {
	library Library
	names   []string
	stores  []Store
	version int64
	next    int64
}

// Open opens the forest in the library's database, which it closes with the
// forest or on an error.
func Open(l Library, o tree.Options) (tree.Forest, error) {
	f := &forest{library: l, names: o.Stores}
	if err := f.open(o); err != nil {
		return nil, fmt.Errorf("%s: open %s: %w", l.Name, o.Dir, errors.Join(err, l.Database.Close()))
	}
	return f, nil
}

func (f *forest) open(o tree.Options) error {
	version, killed, err := Start(f.library.Database, o)
	if err != nil {
		return err
	}
	for _, name := range f.names {
		s, err := f.library.Open(name, version, killed)
		if err != nil {
			return fmt.Errorf("store %s at version %d: %w", name, version, err)
		}
		f.stores = append(f.stores, s)
	}
	f.version, f.next = version, version+1
	if version == 0 {
		f.next = max(1, o.FirstVersion)
	}
	return nil
}

// Version is the newest committed version.
func (f *forest) Version() int64 { return f.version }

// Set writes key; iavl keeps the slices it is given.
func (f *forest) Set(store int, key, value []byte) error {
	key, value = tree.Keep(key, value)
	if _, err := f.stores[store].Set(key, value); err != nil {
		return fmt.Errorf("%s: set %x in %s: %w", f.library.Name, key, f.names[store], err)
	}
	return nil
}

// Remove deletes key.
func (f *forest) Remove(store int, key []byte) error {
	if _, _, err := f.stores[store].Remove(bytes.Clone(key)); err != nil {
		return fmt.Errorf("%s: remove %x from %s: %w", f.library.Name, key, f.names[store], err)
	}
	return nil
}

// Commit saves every tree, then the number of the version. It does not heed ctx:
// iavl cannot be interrupted.
func (f *forest) Commit(context.Context) (tree.Commit, error) {
	roots := make([][]byte, len(f.stores))
	for i, s := range f.stores {
		root, version, err := s.SaveVersion()
		if err != nil {
			return tree.Commit{}, fmt.Errorf("%s: save version %d of %s: %w", f.library.Name, f.next, f.names[i], err)
		}
		if version != f.next {
			return tree.Commit{}, fmt.Errorf("%s: store %s: %w", f.library.Name, f.names[i], tree.WrongVersion(version, f.next))
		}
		roots[i] = bytes.Clone(root)
	}
	if err := f.library.Database.Set([]byte(latestKey), latestValue(f.next)); err != nil {
		return tree.Commit{}, fmt.Errorf("%s: commit version %d: %w", f.library.Name, f.next, err)
	}
	f.version, f.next = f.next, f.next+1
	return tree.Commit{Version: f.version, Roots: roots}, nil
}

// Sync has nothing to wait for: a commit has been handed to the kernel when it
// returns, and iavl does nothing in the background.
func (f *forest) Sync(context.Context) error { return nil }

// Reader reads the newest version.
func (f *forest) Reader() (tree.Reader, error) { return reader{f}, nil }

type reader struct{ forest *forest }

func (r reader) Get(store int, key, dst []byte) ([]byte, bool, error) {
	value, err := r.forest.stores[store].Get(key)
	if err != nil {
		return dst[:0], false, fmt.Errorf("%s: get %x from %s: %w", r.forest.library.Name, key, r.forest.names[store], err)
	}
	return append(dst[:0], value...), value != nil, nil
}

func (reader) Close() error { return nil }

// Shape is what the root nodes say.
func (f *forest) Shape() ([]tree.StoreShape, error) {
	shapes := make([]tree.StoreShape, len(f.stores))
	for i, s := range f.stores {
		shapes[i] = tree.StoreShape{Leaves: s.Size(), Height: int(s.Height())}
	}
	return shapes, nil
}

// Counters are what the trees asked of the caches and the database.
func (f *forest) Counters() tree.Counters {
	c := f.library.Counter.Counters()
	hits, misses := f.library.Cache()
	cacheHits, cacheMisses := int64(hits), int64(misses)
	c.CacheHits, c.CacheMisses = &cacheHits, &cacheMisses
	return c
}

// Effective are the options by iavl's names.
func (f *forest) Effective() map[string]string { return maps.Clone(f.library.Effective) }

// Warnings are none.
func (f *forest) Warnings() []engine.Warning { return nil }

// Close drops what was not committed.
func (f *forest) Close() error {
	var errs []error
	if f.library.Close != nil {
		for _, s := range f.stores {
			errs = append(errs, f.library.Close(s))
		}
	}
	errs = append(errs, End(f.library.Database), f.library.Database.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: close: %w", f.library.Name, err)
	}
	return nil
}

// BenchProfile is the profile that sets a tree up as iavl-bench does.
const BenchProfile = "iavl-bench"

// Bench is that profile; about says what differs from the tree's first one.
func Bench(about string) engine.Profile {
	return engine.Profile{Name: BenchProfile, About: "as iavl-bench sets it up: " + about}
}

// Below is where the stores of a forest lie: each in its part of base, or with
// BenchProfile in a database of its own, which own opens. It returns the database that
// holds the forest's versions and closes all, and what opens a store's, with the bytes
// that its keys get as a prefix.
func Below[D io.Closer](o tree.Options, base Database, part func(prefix []byte) D, own func(store string) (D, error)) (
	Database, func(store string) (D, int, error)) {
	if o.Profile != BenchProfile {
		return base, func(store string) (D, int, error) {
			prefix := Prefix(store)
			return part(prefix), len(prefix), nil
		}
	}
	a := &apart{Database: base}
	return a, func(store string) (D, int, error) {
		db, err := own(store)
		if err == nil {
			a.stores = append(a.stores, db)
			err = a.Set(append(Prefix(store), "apart"...), []byte{1}) // lets Names find the store
		}
		return db, 0, err
	}
}

// apart is a database beside which every store has one of its own. It holds the
// forest's versions alone.
type apart struct {
	Database
	stores []io.Closer
}

// Close closes the stores, then the versions.
func (a *apart) Close() error {
	var errs []error
	for _, s := range a.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, a.Database.Close())...)
}
