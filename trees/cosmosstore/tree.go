// Package cosmosstore drives the Cosmos SDK's multistore, which a node commits
// its blocks through: iavl v1 trees in an application.db, and a record of every
// version that names their roots.
//
// Goals: what the SDK adds to the trees under it: compare with iavl1.
// Non-goals: the caches that a block is executed on (cachekv, gaskv). Changes go
// to the trees in the order they come in.
package cosmosstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"cosmossdk.io/log/v2"
	db "github.com/cosmos/cosmos-db"
	"github.com/cosmos/cosmos-sdk/store/v2/rootmulti"
	"github.com/cosmos/cosmos-sdk/store/v2/types"
	"github.com/cosmos/cosmos-sdk/store/v2/wrapper"
	"github.com/cosmos/iavl"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/iavlforest"
	"github.com/statelab/statelab/tree"
)

// Tree opens multistores.
type Tree struct{}

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name:     "cosmosstore",
		Version:  "v2.0.0 (iavl v1.2.8)",
		Route:    "go module github.com/cosmos/cosmos-sdk/store/v2",
		Licence:  "Apache-2.0",
		RootRule: "iavl",
		Durability: "kill or power cut: nothing lost (every commit ends with an fsync of " +
			"goleveldb's journal)",
		History:      "every version",
		Capabilities: []tree.Capability{tree.IsDurable, tree.KeepsAll, tree.CountsReads},
		Profiles: []engine.Profile{{
			Name:  "goleveldb",
			About: iavlforest.AboutLevelDB + ", no pruning",
		}},
	}
}

func disableFastNode() tree.Override {
	return tree.Override{Name: "IAVLDisableFastNode", Default: 0, Low: 0, High: 1}
}

// Check names what is wrong with o.
func (t Tree) Check(o tree.Options) []error {
	return iavlforest.Problems(t.Info(), o, disableFastNode())
}

// Open opens or makes the forest in o.Dir.
func (t Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	o, err := iavlforest.Prepare("cosmosstore", o, t.Check(o))
	if err != nil {
		return nil, err
	}

	level, err := db.NewGoLevelDB(iavlforest.DatabaseName, o.Dir, nil)
	if err != nil {
		return nil, fmt.Errorf("cosmosstore: open %s: %w", o.Dir, err)
	}

	counter := &iavlforest.Counter{IsNode: isNode}
	f := &forest{
		level:       levelDB{level},
		counter:     counter,
		failures:    &failures{say: o.Log},
		names:       o.Stores,
		cacheNodes:  o.CacheNodes,
		noFastNodes: disableFastNode().In(o) == 1,
	}

	if err := f.open(o); err != nil {
		return nil, fmt.Errorf("cosmosstore: open %s: %w", o.Dir, errors.Join(err, level.Close()))
	}

	return f, nil
}

func (f *forest) open(o tree.Options) error {
	version, killed, err := iavlforest.Start(f.level, o)
	if err != nil {
		return err
	}

	f.multi = rootmulti.NewStore(
		counted{f.level, f.counter},
		logger{log.NewNopLogger(), f.failures},
	)

	f.multi.SetIAVLCacheSize(int(f.cacheNodes))
	f.multi.SetIAVLDisableFastNode(f.noFastNodes)
	// the multistore cannot stop the goroutines that prune behind it
	f.multi.SetIAVLSyncPruning(true)
	keys := make([]*types.KVStoreKey, len(f.names))
	for i, name := range f.names {
		keys[i] = types.NewKVStoreKey(name)
		f.multi.MountStoreWithDB(keys[i], types.StoreTypeIAVL, nil)
	}

	if err := f.multi.LoadLatestVersion(); err != nil {
		return err
	}

	if killed && version > 0 {
		if err := f.multi.RollbackToVersion(version); err != nil {
			return fmt.Errorf("take back what follows version %d: %w", version, err)
		}
	}

	f.next = version + 1
	if version == 0 && o.FirstVersion > 1 {
		f.next = o.FirstVersion
		if err := f.multi.SetInitialVersion(o.FirstVersion); err != nil {
			return err
		}
	}

	f.version = version
	for _, key := range keys {
		f.stores = append(f.stores, f.multi.GetStore(key).(types.CommitKVStore))
	}

	return f.failures.any()
}

type levelDB struct{ *db.GoLevelDB }

func (d levelDB) Scan(start, end []byte) (iavlforest.Iterator, error) {
	return d.Iterator(start, end)
}

// counted counts what the multistore and its trees ask of the database.
type counted struct {
	db.DB
	counter *iavlforest.Counter
}

func (d counted) Get(key []byte) ([]byte, error) {
	d.counter.Get()
	return d.DB.Get(key)
}

func (d counted) Has(key []byte) (bool, error) {
	d.counter.Get()
	return d.DB.Has(key)
}

func (d counted) NewBatch() db.Batch { return d.counter.Batch(d.DB.NewBatch(), 0) }

func (d counted) NewBatchWithSize(n int) db.Batch {
	return d.counter.Batch(d.DB.NewBatchWithSize(n), 0)
}

const nodePrefix = 's' // below a store's prefix

// isNode tells nodes from the roots of versions that changed nothing, which are
// empty or the key of an earlier root, and from what is no tree's.
func isNode(key, value []byte) bool {
	inStore, is := bytes.CutPrefix(key, []byte("s/k:"))
	_, own, found := bytes.Cut(inStore, []byte("/"))
	return is && found && own[0] == nodePrefix && len(value) > 0 && value[0] != nodePrefix
}

// failures are the errors that the SDK logs instead of returning them.
type failures struct {
	say   func(string)
	first error
}

func (f *failures) any() error { return f.first }

func (f *failures) tell(level, message string, about []any) {
	text := fmt.Sprint(level, ": ", message, " ", about)
	if level == "error" && f.first == nil {
		f.first = errors.New(text)
	}
	if f.say != nil {
		f.say(text)
	}
}

// logger hears what the SDK logs, apart from debugging.
type logger struct {
	log.Logger
	failures *failures
}

func (l logger) Info(message string, about ...any)  { l.failures.tell("info", message, about) }
func (l logger) Warn(message string, about ...any)  { l.failures.tell("warning", message, about) }
func (l logger) Error(message string, about ...any) { l.failures.tell("error", message, about) }

// forest is an open multistore. The SDK panics where it cannot go on, with a full
// disk say; that ends the process.
type forest struct {
	level       levelDB
	counter     *iavlforest.Counter
	failures    *failures
	names       []string
	cacheNodes  int64
	noFastNodes bool

	multi   *rootmulti.Store
	stores  []types.CommitKVStore
	version int64
	next    int64
}

func (f *forest) Version() int64 { return f.version }

// Set writes key; iavl keeps the slices it is given.
func (f *forest) Set(store int, key, value []byte) error {
	key, value = tree.CloneKV(key, value)
	f.stores[store].Set(key, value)
	return f.failures.any()
}

func (f *forest) Remove(store int, key []byte) error {
	f.stores[store].Delete(bytes.Clone(key))
	return f.failures.any()
}

// Commit does not heed ctx: the multistore cannot be interrupted.
func (f *forest) Commit(context.Context) (tree.Commit, error) {
	commit := f.multi.Commit()
	if err := f.failures.any(); err != nil {
		return tree.Commit{}, fmt.Errorf("cosmosstore: commit version %d: %w", f.next, err)
	}

	if commit.Version != f.next {
		return tree.Commit{},
			fmt.Errorf("cosmosstore: %w", tree.WrongVersion(commit.Version, f.next))
	}

	roots := make([][]byte, len(f.stores))
	for i, s := range f.stores {
		id := s.LastCommitID()
		if id.Version != f.next {
			return tree.Commit{},
				fmt.Errorf("cosmosstore: store %s: %w", f.names[i],
					tree.WrongVersion(id.Version, f.next))
		}

		roots[i] = bytes.Clone(id.Hash)
	}

	f.version, f.next = f.next, f.next+1
	return tree.Commit{Version: f.version, Roots: roots}, nil
}

// Sync has nothing to wait for: every commit ends with an fsync.
func (*forest) Sync(context.Context) error { return nil }

func (f *forest) Reader() (tree.Reader, error) { return tree.Lookup(f.get), nil }

func (f *forest) get(store int, key, dst []byte) ([]byte, bool, error) {
	value := f.stores[store].Get(key)
	return append(dst[:0], value...), value != nil, nil
}

// Shape opens every tree a second time, for reading: the multistore does not hand
// out its own.
func (f *forest) Shape() ([]tree.StoreShape, error) {
	shapes := make([]tree.StoreShape, len(f.names))
	for i, name := range f.names {
		below := wrapper.NewDBWrapper(db.NewPrefixDB(f.level, iavlforest.Prefix(name)))
		t := iavl.NewMutableTree(below, 0, true, iavl.NewNopLogger())
		if _, err := t.LoadVersion(f.version); err != nil {
			return nil, fmt.Errorf("cosmosstore: shape of %s: %w", name, err)
		}

		shapes[i] = tree.StoreShape{Leaves: t.Size(), Height: int(t.Height())}
		if err := t.Close(); err != nil {
			return nil, fmt.Errorf("cosmosstore: shape of %s: %w", name, err)
		}
	}

	return shapes, nil
}

// Counters include the record of every version, but not the node caches, whose
// counts the multistore keeps to itself.
func (f *forest) Counters() tree.Counters { return f.counter.Counters() }

func (f *forest) Effective() map[string]string {
	return map[string]string{
		"IAVLCacheSize":       strconv.FormatInt(f.cacheNodes, 10),
		"IAVLDisableFastNode": strconv.FormatBool(f.noFastNodes),
		"Pruning":             "nothing",
	}
}

func (*forest) Warnings() []engine.Warning { return nil }

// Close drops what was not committed.
func (f *forest) Close() error {
	if err := errors.Join(iavlforest.End(f.level), f.level.Close()); err != nil {
		return fmt.Errorf("cosmosstore: close: %w", err)
	}
	return nil
}
