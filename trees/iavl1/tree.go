// Package iavl1 drives iavl v1, the state tree of Cosmos chains: one tree a
// store, all on one goleveldb laid out as an SDK node's application.db, or on a
// map in memory to see what the database costs.
//
// Goals: what a chain's state machine does to its trees in a commit; its history
// read back out of a node's database (Harvest), of iavl v0 too.
// Non-goals: pruning, and the SDK's caches above the trees (see cosmosstore).
package iavl1

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"cosmossdk.io/core/store"
	"github.com/cosmos/iavl"
	"github.com/cosmos/iavl/db"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/iavlforest"
	"github.com/statelab/statelab/tree"
)

const version = "v1.3.6"

// Tree opens forests on goleveldb.
type Tree struct{}

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name:     "iavl1",
		Version:  version,
		Route:    "go module github.com/cosmos/iavl",
		Licence:  "Apache-2.0",
		RootRule: "iavl",
		Durability: "kill: nothing lost (every commit is written to the kernel); power cut: " +
			"the newest commits lost (goleveldb's journal without fsync)",
		History: "every version",
		Capabilities: []tree.Capability{tree.IsDurable, tree.KeepsAll, tree.CountsReads,
			tree.CountsCache, tree.Harvests},
		Profiles: []engine.Profile{{Name: "goleveldb", About: iavlforest.AboutLevelDB},
			iavlforest.Bench("a goleveldb for every store, without filters, fast nodes, no node " +
				"cached")},
	}
}

// Check names what is wrong with o.
func (t Tree) Check(o tree.Options) []error { return problems(t.Info(), o) }

// Open opens or makes the forest in o.Dir.
func (t Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	o, err := iavlforest.Prepare("iavl1", o, t.Check(o))
	if err != nil {
		return nil, err
	}

	level, err := openLevelDB(o.Dir, iavlforest.DatabaseName, false)
	if err != nil {
		return nil, fmt.Errorf("iavl1: open %s: %w", o.Dir, err)
	}

	return open("iavl1", o, level)
}

// MapTree opens forests on a map in memory.
type MapTree struct{}

// Info describes the adapter.
func (MapTree) Info() tree.Info {
	return tree.Info{
		Name:       "iavl1-map",
		Version:    version,
		Route:      "go module github.com/cosmos/iavl",
		Licence:    "Apache-2.0",
		RootRule:   "iavl",
		Durability: "kill: everything lost",
		History:    "every version, until it is closed",
		Capabilities: []tree.Capability{tree.IsVolatile, tree.KeepsAll, tree.CountsReads,
			tree.CountsCache},
		Profiles: []engine.Profile{{
			Name:  "map",
			About: "a hash map instead of a database: what iavl itself costs",
		}},
	}
}

// Check names what is wrong with o.
func (t MapTree) Check(o tree.Options) []error {
	errs := problems(t.Info(), o)
	if !o.Create {
		errs = append(errs,
			fmt.Errorf("open %s: iavl1-map keeps nothing: replay into a new directory", o.Dir))
	}
	return errs
}

// Open makes a forest; o.Dir is not touched.
func (t MapTree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	if errs := t.Check(o); len(errs) > 0 {
		return nil, fmt.Errorf("iavl1-map: open: %w", errs[0])
	}
	return open("iavl1-map", iavlforest.WithCache(o), newMapDB())
}

func flushThreshold() tree.Override {
	return tree.Override{Name: "FlushThreshold", Default: 100_000, Low: 1000, High: 1 << 30}
}

func problems(i tree.Info, o tree.Options) []error {
	return iavlforest.Problems(i, o, iavlforest.SkipFastStorage(), iavlforest.SyncEveryBatch(),
		flushThreshold())
}

// open opens the stores on base, which it owns.
func open(name string, o tree.Options, base database) (tree.Forest, error) {
	cache := o.CacheNodes
	skip, sync, flush := iavlforest.SkipFastStorage().In(o) == 1,
		iavlforest.SyncEveryBatch().In(o) == 1, flushThreshold().In(o)
	counter := &iavlforest.Counter{IsNode: isNode}
	stats := &iavl.Statistics{}
	database, below := iavlforest.StoreOpener(o, base,
		func(prefix []byte) db.DB { return db.NewPrefixDB(base, prefix) },
		func(store string) (db.DB, error) {
			return db.NewGoLevelDBWithOpts(store, o.Dir, &opt.Options{})
		})

	return iavlforest.Open(iavlforest.Library{
		Name:     name,
		Database: database,
		Counter:  counter,
		Cache: func() (hits, misses uint64) {
			return stats.GetCacheHitCnt(), stats.GetCacheMissCnt()
		},
		Close: func(s iavlforest.Store) error { return s.(*iavl.MutableTree).Close() },
		Effective: map[string]string{
			"CacheSize":              strconv.FormatInt(cache, 10),
			"FlushThreshold":         strconv.FormatInt(flush, 10),
			"SkipFastStorageUpgrade": strconv.FormatBool(skip),
			"Sync":                   strconv.FormatBool(sync),
		},
		Open: func(store string, version int64, repair bool) (iavlforest.Store, error) {
			options := []iavl.Option{iavl.StatOption(stats), iavl.SyncOption(sync),
				iavl.FlushThresholdOption(int(flush))}
			if version == 0 && o.FirstVersion > 1 {
				options = append(options, iavl.InitialVersionOption(uint64(o.FirstVersion)))
			}

			level, prefixBytes, err := below(store)
			if err != nil {
				return nil, err
			}

			t := iavl.NewMutableTree(
				counted{level, counter, prefixBytes},
				int(cache),
				skip,
				logger{o.Log},
				options...,
			)

			if repair && version > 0 {
				return t, t.LoadVersionForOverwriting(version)
			}

			_, err = t.LoadVersion(version)
			return t, err
		},
	}, o)
}

// database is what lies below all stores.
type database interface {
	store.KVStoreWithBatch
	Scan(start, end []byte) (iavlforest.Iterator, error)
}

type levelDB struct{ *db.GoLevelDB }

// openLevelDB opens the database of that name in dir as the SDK does.
func openLevelDB(dir, name string, readOnly bool) (levelDB, error) {
	level, err := db.NewGoLevelDBWithOpts(name, dir, &opt.Options{
		Filter:         filter.NewBloomFilter(10),
		ErrorIfMissing: readOnly,
		ReadOnly:       readOnly,
	})
	return levelDB{level}, err
}

func (d levelDB) Scan(start, end []byte) (iavlforest.Iterator, error) {
	return d.Iterator(start, end)
}

// prefixed is a store's part of the database.
func prefixed(base store.KVStoreWithBatch, name string) *db.PrefixDB {
	return db.NewPrefixDB(base, iavlforest.Prefix(name))
}

// counted counts what a store's tree asks of its part of the database.
type counted struct {
	db.DB
	counter     *iavlforest.Counter
	prefixBytes int
}

func (d counted) Get(key []byte) ([]byte, error) {
	d.counter.Get()
	return d.DB.Get(key)
}

func (d counted) Has(key []byte) (bool, error) {
	d.counter.Get()
	return d.DB.Has(key)
}

func (d counted) NewBatch() store.Batch { return d.counter.Batch(d.DB.NewBatch(), d.prefixBytes) }

func (d counted) NewBatchWithSize(n int) store.Batch {
	return d.counter.Batch(d.DB.NewBatchWithSize(n), d.prefixBytes)
}

const nodePrefix = 's'

// isNode tells nodes from the roots of versions that changed nothing, which are
// empty or the key of an earlier root.
func isNode(key, value []byte) bool {
	return key[0] == nodePrefix && len(value) > 0 && value[0] != nodePrefix
}

// logger hands iavl's words on.
type logger struct{ say func(string) }

func (l logger) Info(message string, about ...any)  { l.tell("info", message, about) }
func (l logger) Warn(message string, about ...any)  { l.tell("warning", message, about) }
func (l logger) Error(message string, about ...any) { l.tell("error", message, about) }

// Debug says nothing: iavl calls it for every node that a removal passes.
func (logger) Debug(string, ...any) {}

func (l logger) tell(level, message string, about []any) {
	if l.say != nil {
		l.say(fmt.Sprint(level, ": ", message, " ", about))
	}
}

// mapDB keeps entries in a hash map. iavl looks keys up and writes batches; it
// iterates a few times over next to nothing when a forest is new, which may
// therefore be slow.
type mapDB struct {
	mutex  sync.RWMutex
	values map[string][]byte
}

func newMapDB() *mapDB { return &mapDB{values: map[string][]byte{}} }

func (d *mapDB) Get(key []byte) ([]byte, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	return d.values[string(key)], nil
}

func (d *mapDB) Has(key []byte) (bool, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	_, has := d.values[string(key)]
	return has, nil
}

func (d *mapDB) Set(key, value []byte) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.values[string(key)] = value
	return nil
}

func (d *mapDB) Delete(key []byte) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.values, string(key))
	return nil
}

func (*mapDB) Close() error { return nil }

func (d *mapDB) NewBatch() store.Batch { return &mapBatch{db: d} }

func (d *mapDB) NewBatchWithSize(int) store.Batch { return d.NewBatch() }

// mapBatch keeps the slices it is given, as iavl makes them for it.
type mapBatch struct {
	db     *mapDB
	writes []mapWrite
	bytes  int
}

type mapWrite struct {
	key    string
	value  []byte
	remove bool
}

func (b *mapBatch) Set(key, value []byte) error {
	b.writes = append(b.writes, mapWrite{key: string(key), value: value})
	b.bytes += len(key) + len(value)
	return nil
}

func (b *mapBatch) Delete(key []byte) error {
	b.writes = append(b.writes, mapWrite{key: string(key), remove: true})
	b.bytes += len(key)
	return nil
}

func (b *mapBatch) Write() error {
	b.db.mutex.Lock()
	defer b.db.mutex.Unlock()
	for _, w := range b.writes {
		if w.remove {
			delete(b.db.values, w.key)
		} else {
			b.db.values[w.key] = w.value
		}
	}

	return b.Close()
}

func (b *mapBatch) WriteSync() error { return b.Write() }

func (b *mapBatch) Close() error {
	b.writes, b.bytes = nil, 0
	return nil
}

func (b *mapBatch) GetByteSize() (int, error) { return b.bytes, nil }

func (d *mapDB) Scan(start, end []byte) (iavlforest.Iterator, error) {
	return d.Iterator(start, end)
}

func (d *mapDB) Iterator(start, end []byte) (store.Iterator, error) {
	sorted, err := d.sorted()
	if err != nil {
		return nil, err
	}
	return sorted.Iterator(start, end)
}

func (d *mapDB) ReverseIterator(start, end []byte) (store.Iterator, error) {
	sorted, err := d.sorted()
	if err != nil {
		return nil, err
	}
	return sorted.ReverseIterator(start, end)
}

// sorted copies all entries into iavl's own database in memory, which can iterate.
func (d *mapDB) sorted() (*db.MemDB, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	sorted := db.NewMemDB()
	for key, value := range d.values {
		if err := sorted.Set([]byte(key), value); err != nil {
			return nil, err
		}
	}

	return sorted, nil
}
