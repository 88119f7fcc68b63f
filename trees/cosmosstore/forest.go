package cosmosstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	db "github.com/cosmos/cosmos-db"
	"github.com/cosmos/cosmos-sdk/store/v2/rootmulti"
	"github.com/cosmos/cosmos-sdk/store/v2/types"
	"github.com/cosmos/cosmos-sdk/store/v2/wrapper"
	"github.com/cosmos/iavl"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/iavlforest"
	"github.com/statelab/statelab/tree"
)

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
	key, value = tree.Keep(key, value)
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
		return tree.Commit{}, fmt.Errorf("cosmosstore: %w", tree.WrongVersion(commit.Version, f.next))
	}
	roots := make([][]byte, len(f.stores))
	for i, s := range f.stores {
		id := s.LastCommitID()
		if id.Version != f.next {
			return tree.Commit{}, fmt.Errorf("cosmosstore: store %s: %w", f.names[i], tree.WrongVersion(id.Version, f.next))
		}
		roots[i] = bytes.Clone(id.Hash)
	}
	f.version, f.next = f.next, f.next+1
	return tree.Commit{Version: f.version, Roots: roots}, nil
}

// Sync has nothing to wait for: every commit ends with an fsync.
func (*forest) Sync(context.Context) error { return nil }

func (f *forest) Reader() (tree.Reader, error) { return reader{f}, nil }

type reader struct{ forest *forest }

func (r reader) Get(store int, key, dst []byte) ([]byte, bool, error) {
	value := r.forest.stores[store].Get(key)
	return append(dst[:0], value...), value != nil, nil
}

func (reader) Close() error { return nil }

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
