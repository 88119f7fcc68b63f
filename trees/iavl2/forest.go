//go:build cgo

package iavl2

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cosmos/iavl/v2"
	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// forest is a tree for every store, each with databases of its own.
type forest struct {
	options iavl.TreeOptions
	force   bool // checkpoints after what cannot be replayed
	inTurn  bool // stores commit one after the other
	stores  []*store
	counts  counts
	version int64
	next    int64
	ignored bool // a cache or a budget was asked for
}

// open brings all stores to the newest version that all of them have: a kill can
// come between the commits of two.
func (f *forest) open(o tree.Options) error {
	newest, err := newestOfAll(o)
	if err != nil {
		return err
	}
	f.version = newest
	if newest > 0 {
		f.next = newest + 1
	}
	pool := iavl.NewNodePool()
	for _, name := range o.Stores {
		s, err := openStore(filepath.Join(o.Dir, name), name, newest, f.next, pool, f.options)
		if err != nil {
			return errors.Join(fmt.Errorf("store %s: %w", name, err), f.Close())
		}
		f.stores = append(f.stores, s)
	}
	return nil
}

func (f *forest) Version() int64 { return f.version }

func (f *forest) Set(store int, key, value []byte) error { return f.stores[store].set(key, value) }

func (f *forest) Remove(store int, key []byte) error { return f.stores[store].remove(key) }

func (f *forest) Commit(context.Context) (tree.Commit, error) {
	c := tree.Commit{Version: f.next, Roots: make([][]byte, len(f.stores))}
	var stores errgroup.Group
	if f.inTurn {
		stores.SetLimit(1)
	}
	for i, s := range f.stores {
		stores.Go(func() (err error) {
			if c.Roots[i], err = s.commit(f.next, f.force); err != nil {
				return fmt.Errorf("iavl2: commit %s: %w", s.name, err)
			}
			return nil
		})
	}
	if err := stores.Wait(); err != nil {
		return tree.Commit{}, err
	}
	f.version, f.next = f.next, f.next+1
	return c, nil
}

// Sync has nothing to wait for: a commit is in SQLite's files when it returns.
func (f *forest) Sync(context.Context) error { return nil }

func (f *forest) Reader() (tree.Reader, error) { return reader{f}, nil }

type reader struct{ forest *forest }

func (r reader) Get(store int, key, dst []byte) ([]byte, bool, error) {
	return r.forest.stores[store].get(key, dst)
}

func (reader) Close() error { return nil }

func (f *forest) Shape() ([]tree.StoreShape, error) {
	shapes := make([]tree.StoreShape, len(f.stores))
	for i, s := range f.stores {
		shapes[i] = s.shape()
	}
	return shapes, nil
}

func (f *forest) Counters() tree.Counters {
	gets := f.counts.dbGets.Load()
	return tree.Counters{DBGets: &gets}
}

// counts is what the library reports to, of all stores.
type counts struct{ dbGets atomic.Int64 }

func (c *counts) IncrCounter(by float32, name ...string) {
	if what := name[len(name)-1]; what == "db_get_leaf" || what == "db_get_branch" {
		c.dbGets.Add(int64(by))
	}
}

func (*counts) SetGauge(float32, ...string) {}

func (*counts) MeasureSince(time.Time, ...string) {}

func (f *forest) Effective() map[string]string {
	return map[string]string{
		"CheckpointInterval": strconv.FormatInt(f.options.CheckpointInterval, 10),
		"ForceCheckpoints":   strconv.FormatBool(f.force),
		"EvictionDepth":      strconv.Itoa(int(f.options.EvictionDepth)),
		"HeightFilter":       strconv.Itoa(int(f.options.HeightFilter)),
		"PruneRatio":         strconv.FormatFloat(f.options.PruneRatio, 'g', -1, 64),
		"StateStorage":       strconv.FormatBool(f.options.StateStorage),
	}
}

func (f *forest) Warnings() (warnings []engine.Warning) {
	if f.ignored {
		warnings = append(warnings, engine.Warning{
			Code:   "iavl2_no_budget",
			Text:   "iavl v2 has no bound on its cache: the node cache and the memory budget asked for have no effect",
			Remedy: "a shorter CheckpointInterval drops nodes more often, a larger EvictionDepth keeps more of them",
		})
	}
	var unreplayable int64
	for _, s := range f.stores {
		unreplayable += s.unreplayables
	}
	switch {
	case unreplayable > 0 && f.force:
		warnings = append(warnings, engine.Warning{
			Code:   "iavl2_forced_checkpoints",
			Text:   fmt.Sprintf("%d checkpoints were made after versions that wrote a key more than once: iavl v2 cannot replay those", unreplayable),
			Remedy: "change sets of net changes; or ForceCheckpoints=0 and a forest that may not open again",
		})
	case unreplayable > 0:
		warnings = append(warnings, engine.Warning{
			Code: "iavl2_unreplayable",
			Text: fmt.Sprintf("%d times a version wrote a key more than once, which iavl v2 cannot replay: "+
				"the forest opens again only after a later checkpoint of every store", unreplayable),
			Remedy: "change sets of net changes, or ForceCheckpoints=1",
		})
	}
	return warnings
}

func (f *forest) Close() error {
	var errs []error
	for _, s := range f.stores {
		if err := s.tree.Close(); err != nil {
			errs = append(errs, fmt.Errorf("iavl2: close %s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}
