package geth

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/pebble"
	"github.com/ethereum/go-ethereum/triedb"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/layout"
)

// chain is an open state.
type chain struct {
	layout   scheme
	dir      string
	split    split
	readOnly bool
	disk     ethdb.Database
	pebble   *pebble.Database
	tries    *triedb.Database

	head     atomic.Pointer[head]
	building *block // nil between blocks
	nodesNew atomic.Int64
	closed   atomic.Bool
}

var errStateClosed = errors.New("the state is closed")

func open(l scheme, o layout.Options) (*chain, error) {
	s := splitMemory(o.MemoryBytes)
	kv, err := pebble.New(o.Dir, s.pebbleMiB(), handles, "", o.ReadOnly)
	if err != nil {
		return nil, err
	}
	c := &chain{layout: l, dir: o.Dir, split: s, readOnly: o.ReadOnly, pebble: kv, disk: rawdb.NewDatabase(kv)}
	h, err := l.readHead(c.disk)
	switch {
	case err != nil:
	case o.Create && h.block > 0:
		err = fmt.Errorf("it holds a state at block %d already", h.block)
	case !o.Create && h.block == 0:
		err = errors.New("it holds no state")
	}
	if err != nil {
		return nil, errors.Join(err, kv.Close())
	}
	c.head.Store(&h)
	c.tries = triedb.NewDatabase(c.disk, l.trieConfig(s, o.ReadOnly))
	return c, nil
}

func (c *chain) Block() uint64 { return c.head.Load().block }

func (c *chain) Root() layout.Hash { return layout.Hash(c.head.Load().root) }

func (c *chain) Change(change layout.Change) error {
	if c.closed.Load() {
		return errStateClosed
	}
	if c.building == nil {
		b, err := c.begin()
		if err != nil {
			return fmt.Errorf("%s: begin block %d: %w", c.layout.name, c.Block()+1, err)
		}
		c.building = b
	}
	if err := c.building.change(change); err != nil {
		return fmt.Errorf("%s: change account %x: %w", c.layout.name, change.Account, err)
	}
	return nil
}

// Commit writes the block's nodes, and the head before or after them so that a kill
// between the two can be told.
func (c *chain) Commit(context.Context) (layout.Hash, error) {
	if c.closed.Load() {
		return layout.Hash{}, errStateClosed
	}
	old := c.head.Load()
	next := head{block: old.block + 1, root: old.root, parent: old.root}
	err := c.commit(&next)
	if err != nil {
		return layout.Hash{}, fmt.Errorf("%s: commit block %d: %w", c.layout.name, next.block, err)
	}
	c.building = nil
	c.head.Store(&next)
	return layout.Hash(next.root), nil
}

func (c *chain) commit(next *head) error {
	b := c.building
	if b == nil {
		return errors.Join(writeHead(c.disk, *next), c.disk.SyncKeyValue())
	}
	root, err := b.end()
	if err != nil {
		return err
	}
	next.root = root
	if c.layout.byPath { // its nodes replace the old ones: the head must not come later
		if err := writeHead(c.disk, *next); err != nil {
			return err
		}
	}
	if root != next.parent {
		if err := c.tries.Update(root, next.parent, next.block, b.nodes, b.flat); err != nil {
			return err
		}
		if err := c.tries.Commit(root, false); err != nil {
			return err
		}
	}
	if !c.layout.byPath {
		if err := writeHead(c.disk, *next); err != nil {
			return err
		}
	}
	c.nodesNew.Add(b.written())
	return c.disk.SyncKeyValue()
}

func (c *chain) Settle(ctx context.Context) error { return awaitQuiet(ctx, c.pebble) }

// Counters: geth's Pebble does not tell how many blocks it read.
func (c *chain) Counters() layout.Counters {
	nodes := c.nodesNew.Load()
	return layout.Counters{NodesNew: &nodes}
}

func (c *chain) DiskBytes() (int64, error) {
	allocated, _, err := host.Allocated(c.dir)
	return allocated, err
}

func (c *chain) Effective() map[string]string { return c.layout.effective(c.split) }

func (c *chain) Memory() []engine.MemoryShare { return c.split.shares(c.layout) }

// Close writes the path scheme's journal first: without it the next Open would
// generate the flat state anew.
func (c *chain) Close() error {
	c.closed.Store(true)
	var errs []error
	if c.layout.byPath && !c.readOnly {
		if err := c.tries.Journal(c.head.Load().root); err != nil {
			errs = append(errs, fmt.Errorf("write the journal: %w", err))
		}
	}
	if err := errors.Join(append(errs, c.tries.Close(), c.disk.Close())...); err != nil {
		return fmt.Errorf("%s: close %s: %w", c.layout.name, c.dir, err)
	}
	return nil
}

var emptyRoot = common.Hash(types.EmptyRootHash)
