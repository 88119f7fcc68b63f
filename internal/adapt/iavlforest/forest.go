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
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
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
		return nil, fmt.Errorf("%s: open %s: %w", l.Name, o.Dir, errors.Join(err,
			l.Database.Close()))
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
	key, value = tree.CloneKV(key, value)
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
			return tree.Commit{},
				fmt.Errorf("%s: save version %d of %s: %w", f.library.Name, f.next, f.names[i], err)
		}

		if version != f.next {
			return tree.Commit{},
				fmt.Errorf("%s: store %s: %w", f.library.Name, f.names[i],
					tree.WrongVersion(version, f.next))
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
func (f *forest) Reader() (tree.Reader, error) { return tree.Lookup(f.get), nil }

func (f *forest) get(store int, key, dst []byte) ([]byte, bool, error) {
	value, err := f.stores[store].Get(key)
	if err != nil {
		return dst[:0], false, fmt.Errorf("%s: get %x from %s: %w", f.library.Name, key,
			f.names[store], err)
	}
	return append(dst[:0], value...), value != nil, nil
}

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

// StoreOpener decides where the stores of a forest lie: each in its part of base, or with
// BenchProfile in a database of its own, which own opens. It returns the database that
// holds the forest's versions and closes all, and what opens a store's, with the bytes
// that its keys get as a prefix.
func StoreOpener[D io.Closer](
	o tree.Options, base Database, part func(prefix []byte) D, own func(store string) (D, error),
) (
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

// The SDK's layout: every store's tree below a prefix, and the newest committed
// version, as a protobuf message of one integer.
const (
	storesPrefix = "s/k:"
	latestKey    = "s/latest"
	latestTag    = 0x08 // field 1, varint

	// openKey is ours: it is there while a process has the forest open, and after
	// a kill.
	openKey = "statelab/open"

	// fastVersionKey is iavl's, below a store's prefix: which version its index of
	// newest values ("fast nodes") belongs to.
	fastVersionKey = "mstorage_version"
)

// DatabaseName is what the SDK calls its database; the directory has a suffix.
const DatabaseName = "application"

// databaseDir is the database's directory in a forest's directory.
const databaseDir = DatabaseName + ".db"

// Prefix is what all keys of a store start with.
func Prefix(store string) []byte { return []byte(storesPrefix + store + "/") }

// Database is what lies below all stores.
type Database interface {
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Delete(key []byte) error
	// Scan iterates over keys from start up to end, which is excluded.
	Scan(start, end []byte) (Iterator, error)
	Close() error
}

// Iterator goes over keys in ascending order.
type Iterator interface {
	Valid() bool
	Next()
	Key() []byte
	Error() error
	Close() error
}

// Names are the stores that db holds, found by their prefixes.
func Names(db Database) (names []string, err error) {
	start, end := storesRange()
	for {
		key, err := firstKey(db, start, end)
		if key == nil || err != nil {
			return names, err
		}

		name, _, is := bytes.Cut(key[len(storesPrefix):], []byte("/"))
		if !is {
			return nil, fmt.Errorf("key %q belongs to no store", key)
		}

		names = append(names, string(name))
		start = append([]byte(storesPrefix+string(name)), '/'+1)
	}
}

func storesRange() (start, end []byte) {
	return []byte(storesPrefix), []byte("s/k;") // the character after the colon
}

func firstKey(db Database, start, end []byte) (key []byte, err error) {
	i, err := db.Scan(start, end)
	if err != nil {
		return nil, err
	}

	if i.Valid() {
		key = bytes.Clone(i.Key())
	}

	if err := i.Error(); err != nil {
		return nil, err
	}

	return key, i.Close()
}

// Latest is the newest committed version in db; 0 if there is none.
func Latest(db Database) (int64, error) {
	value, err := db.Get([]byte(latestKey))
	if err != nil {
		return 0, fmt.Errorf("read the newest version: %w", err)
	}

	if len(value) == 0 { // protobuf leaves a zero out
		return 0, nil
	}

	version, n := binary.Uvarint(value[1:])
	if value[0] != latestTag || n != len(value)-1 || version > 1<<62 {
		return 0, fmt.Errorf("%s holds %x, which is not a version", latestKey, value)
	}

	return int64(version), nil
}

func latestValue(version int64) []byte {
	return binary.AppendUvarint([]byte{latestTag}, uint64(version))
}

// Start begins with what db holds: its newest version, which must be of o's stores.
func Start(db Database, o tree.Options) (version int64, killed bool, err error) {
	if version, err = Latest(db); err != nil {
		return 0, false, err
	}

	if version > 0 {
		held, err := Names(db)
		if err != nil {
			return 0, false, err
		}

		if err := o.SameStores(held); err != nil {
			return 0, false, err
		}
	}

	killed, err = begin(db, version)
	return version, killed, err
}

// begin marks the forest, which is at version, as open. After a kill it also
// removes what only a finished version may leave: the trees where none was
// committed, and the claim that the fast nodes belong to a version, so that iavl
// makes them again. The library still has to take later versions back.
func begin(db Database, version int64) (killed bool, err error) {
	mark, err := db.Get([]byte(openKey))
	if err != nil {
		return false, err
	}

	if mark == nil {
		return false, db.Set([]byte(openKey), []byte{1})
	}

	if version == 0 {
		return true, deleteStores(db)
	}

	names, err := Names(db)
	if err != nil {
		return true, err
	}

	for _, name := range names {
		if err := db.Delete(append(Prefix(name), fastVersionKey...)); err != nil {
			return true, err
		}
	}

	return true, nil
}

// deleteStores deletes while it iterates, which LevelDB allows.
func deleteStores(db Database) error {
	i, err := db.Scan(storesRange())
	if err != nil {
		return err
	}

	for ; i.Valid(); i.Next() {
		if err := db.Delete(i.Key()); err != nil {
			return errors.Join(err, i.Close())
		}
	}

	return errors.Join(i.Error(), i.Close())
}

// End marks the forest as closed.
func End(db Database) error { return db.Delete([]byte(openKey)) }

// defaultCacheNodes is what was measured before.
const defaultCacheNodes = 1_000_000

// AboutLevelDB describes the one profile of a tree on the SDK's database.
const AboutLevelDB = "goleveldb as the SDK opens it (filters of 10 bits a key), fast nodes, " +
	"1,000,000 nodes cached a store"

// SkipFastStorage is iavl's option to keep no index of newest values.
func SkipFastStorage() tree.Override {
	return tree.Override{Name: "SkipFastStorageUpgrade", Default: 0, Low: 0, High: 1}
}

// SyncEveryBatch is iavl's option to write batches with an fsync.
func SyncEveryBatch() tree.Override {
	return tree.Override{Name: "Sync", Default: 0, Low: 0, High: 1}
}

// Problems names what is wrong with o for a tree of iavl's, which counts nodes of its
// cache, not bytes.
func Problems(i tree.Info, o tree.Options, known ...tree.Override) []error {
	errs := o.Problems(i, known...)
	if o.MemoryBytes > 0 {
		errs = append(errs,
			fmt.Errorf("%s does not support a memory budget: use --cache-nodes N", i.Name))
	}
	return errs
}

// Prepare fails where there are problems or o.Dir does not hold a database as o expects,
// and returns o with a cache.
func Prepare(name string, o tree.Options, problems []error) (tree.Options, error) {
	if len(problems) > 0 {
		return o, fmt.Errorf("%s: open: %w", name, problems[0])
	}
	if err := adapter.CheckDir(engine.Options{Dir: o.Dir, Create: o.Create},
		databaseDir+"/CURRENT"); err != nil {
		return o, fmt.Errorf("%s: %w", name, err)
	}
	return WithCache(o), nil
}

// WithCache returns o with the cache of its profile; what iavl-bench gives a tree is
// the tree's to say.
func WithCache(o tree.Options) tree.Options {
	if o.CacheNodes == 0 && o.Profile != BenchProfile {
		o.CacheNodes = defaultCacheNodes
	}
	return o
}

// Counter counts what trees ask of the database below them.
type Counter struct {
	// IsNode tells the entries that are tree nodes from roots, fast nodes and
	// others; keys are without the store's prefix.
	IsNode func(key, value []byte) bool

	nodes, gets, sets, bytes atomic.Int64
}

// Get counts a lookup.
func (c *Counter) Get() { c.gets.Add(1) }

// Batch counts what is put in b, whose keys get a prefix of prefixBytes below.
func (c *Counter) Batch(b Batch, prefixBytes int) Batch {
	return countedBatch{b, c, int64(prefixBytes)}
}

// Batch is a batch of writes to the database.
type Batch interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	Write() error
	WriteSync() error
	Close() error
	GetByteSize() (int, error)
}

type countedBatch struct {
	Batch
	counter     *Counter
	prefixBytes int64
}

func (b countedBatch) Set(key, value []byte) error {
	if b.counter.IsNode(key, value) {
		b.counter.nodes.Add(1)
	}
	b.counter.sets.Add(1)
	b.counter.bytes.Add(b.prefixBytes + int64(len(key)+len(value)))
	return b.Batch.Set(key, value)
}

func (b countedBatch) Delete(key []byte) error {
	b.counter.sets.Add(1)
	b.counter.bytes.Add(b.prefixBytes + int64(len(key)))
	return b.Batch.Delete(key)
}

// Counters are what was counted; the caches are the library's to tell.
func (c *Counter) Counters() tree.Counters {
	nodes, gets, sets, bytes := c.nodes.Load(), c.gets.Load(), c.sets.Load(), c.bytes.Load()
	return tree.Counters{Nodes: &nodes, DBGets: &gets, DBSets: &sets, DBBytes: &bytes}
}
