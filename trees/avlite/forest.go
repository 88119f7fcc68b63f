//go:build cgo

package avlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	dbm "github.com/cosmos/cosmos-db"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// forest is one LevelDB and, for every store, a tree, a log and a checkpointer.
type forest struct {
	names   []string
	db      dbm.DB
	stores  []*store
	counts  counts
	version int64
	next    int64
	nodes   int64 // in each store's cache
	every   int64 // log segments between two checkpoints
	ignored bool  // a memory budget was asked for
}

func create(o tree.Options) (*forest, error) {
	db, err := dbm.NewGoLevelDB("avlite", o.Dir, nil)
	if err != nil {
		return nil, err
	}
	f := &forest{names: o.Stores, db: db, next: max(1, o.FirstVersion), nodes: o.CacheNodes, every: checkpointSegments().In(o),
		ignored: o.MemoryBytes > 0}
	for _, name := range o.Stores {
		s, err := f.createStore(filepath.Join(o.Dir, name), name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("store %s: %w", name, err), f.Close())
		}
		f.stores = append(f.stores, s)
	}
	return f, nil
}

func (f *forest) Version() int64 { return f.version }

func (f *forest) Set(store int, key, value []byte) error {
	key, value = tree.Keep(key, value)
	_, err := f.stores[store].tree.Set(key, value)
	return err
}

// Remove looks first: avlite gives up the nodes on the way to a key before it
// knows whether the key is there, and cannot read the tree afterwards.
func (f *forest) Remove(store int, key []byte) error {
	t := f.stores[store].tree
	value, err := t.Get(key)
	if err != nil || value == nil {
		return err
	}
	_, _, err = t.Remove(bytes.Clone(key))
	return err
}

func (f *forest) Commit(context.Context) (tree.Commit, error) {
	c := tree.Commit{Version: f.next, Roots: make([][]byte, len(f.stores))}
	for i, s := range f.stores {
		if err := s.alive(); err != nil {
			return tree.Commit{}, fmt.Errorf("avlite: commit %s: %w", f.names[i], err)
		}
		root, version, err := s.tree.SaveVersion()
		if err != nil {
			return tree.Commit{}, fmt.Errorf("avlite: commit %s: %w", f.names[i], err)
		}
		if version != f.next {
			return tree.Commit{}, fmt.Errorf("avlite: commit %s: %w", f.names[i], tree.WrongVersion(version, f.next))
		}
		c.Roots[i] = bytes.Clone(root)
	}
	f.version, f.next = c.Version, c.Version+1
	return c, nil
}

// Sync waits for the checkpoints that are due. What no log segment was full for
// stays in memory.
func (f *forest) Sync(ctx context.Context) error {
	for i, s := range f.stores {
		if err := s.waitCheckpoint(ctx, f.every); err != nil {
			return fmt.Errorf("avlite: checkpoint %s: %w", f.names[i], err)
		}
	}
	return nil
}

func (f *forest) Reader() (tree.Reader, error) { return reader{f}, nil }

type reader struct{ forest *forest }

func (r reader) Get(store int, key, dst []byte) ([]byte, bool, error) {
	value, err := r.forest.stores[store].tree.Get(key)
	return append(dst[:0], value...), value != nil, err
}

func (reader) Close() error { return nil }

func (f *forest) Shape() ([]tree.StoreShape, error) {
	shapes := make([]tree.StoreShape, len(f.stores))
	for i, s := range f.stores {
		shapes[i] = tree.StoreShape{Leaves: s.tree.Size(), Height: int(s.tree.Height())}
	}
	return shapes, nil
}

func (f *forest) Counters() tree.Counters { return f.counts.read() }

func (f *forest) Effective() map[string]string {
	return map[string]string{
		"cache_nodes":            strconv.FormatInt(f.nodes, 10) + " a store",
		"checkpoint_interval":    strconv.FormatInt(f.every, 10) + " log segments",
		"skipFastStorageUpgrade": "true",
	}
}

func (f *forest) Warnings() []engine.Warning {
	if !f.ignored {
		return nil
	}
	return []engine.Warning{{
		Code: "avlite_no_budget",
		Text: "avlite keeps all nodes since the last checkpoint in memory: the memory budget asked for has no effect",
	}}
}

// Close drops what was not checkpointed.
func (f *forest) Close() error {
	var errs []error
	for i, s := range f.stores {
		if err := s.close(); err != nil {
			errs = append(errs, fmt.Errorf("avlite: close %s: %w", f.names[i], err))
		}
	}
	return errors.Join(append(errs, f.db.Close())...)
}
