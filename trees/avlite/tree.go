//go:build cgo

// Package avlite drives the development version of iavl v2 that was measured
// before there was one: nodes in memory, a write-ahead log, and checkpoints of
// every hundred log segments into LevelDB through two caches that take turns.
//
// It is a record of that design, set up as its authors benchmarked it: one LevelDB for all stores,
// a cache of a million nodes, no fast nodes. A log segment holds 50 MiB, so that the first
// checkpoint of a store comes after 5 GB of changes (option CheckpointSegments); until then the
// tree is in memory alone. The library swaps its caches without waiting for a commit under way: a
// checkpoint that begins inside one can end the process (a map written while it is read). Stores
// commit one after the other, as the library counts into variables they share.
//
// Goals: the roots of iavl, and what its cache and its database are asked.
// Non-goals: opening a forest again. The log and the checkpoints are written but
// the library has no code that reads them back.
package avlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"cosmossdk.io/log"
	dbm "github.com/cosmos/cosmos-db"
	"github.com/cosmos/iavl"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/tree"
)

// Tree opens avlite forests.
type Tree struct{}

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name:         "avlite",
		Version:      "v1.0.0-beta.1.0.20230802214124-6b06195b1a09",
		Route:        "go module github.com/cosmos/iavl (cgo)",
		Licence:      "Apache-2.0",
		RootRule:     "iavl",
		Durability:   "kill: everything lost, as nothing reads the log back",
		History:      "the newest version",
		Capabilities: []tree.Capability{tree.IsVolatile, tree.CountsReads, tree.CountsCache},
		Profiles: []engine.Profile{{
			Name:  "default",
			About: "as its authors benchmarked it: a cache of 1,000,000 nodes a store",
		}},
	}
}

// Check names what is wrong with o.
func (t Tree) Check(o tree.Options) []error {
	errs := o.Problems(t.Info(), checkpointSegments())
	if !o.Create {
		errs = append(errs,
			fmt.Errorf("open %s: avlite cannot open a forest again: replay into a new directory",
				o.Dir))
	}
	return errs
}

// defaultCacheNodes is what its authors gave every store.
const defaultCacheNodes = 1_000_000

// Open makes a forest in o.Dir.
func (t Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	if errs := t.Check(o); len(errs) > 0 {
		return nil, fmt.Errorf("avlite: %w", errs[0])
	}

	if err := adapter.MakeEmpty(o.Dir); err != nil {
		return nil, fmt.Errorf("avlite: %w", err)
	}

	if o.CacheNodes == 0 {
		o.CacheNodes = defaultCacheNodes
	}

	f, err := create(o)
	if err != nil {
		return nil, fmt.Errorf("avlite: create %s: %w", o.Dir, err)
	}

	return f, nil
}

// counts are of all stores of a forest. The tree counts what it asks its caches
// and its database for; the nodes it writes are counted on the way.
type counts struct {
	nodes, cacheHits, cacheMisses, logHits, dbGets count // cacheHits are of the nodes' cache alone
}

func (c *counts) read() tree.Counters {
	logHits := c.logHits.now()
	cacheHits := c.cacheHits.Load() + *logHits
	return tree.Counters{
		Nodes:       c.nodes.now(),
		CacheHits:   &cacheHits,
		LogHits:     logHits,
		CacheMisses: c.cacheMisses.now(),
		DBGets:      c.dbGets.now(),
	}
}

type count struct{ atomic.Int64 }

func (c *count) Inc() { c.Add(1) }

func (c *count) now() *int64 {
	n := c.Load()
	return &n
}

// gauge counts how often something was added to it.
type gauge struct{ adds atomic.Int64 }

func (g *gauge) Add(float64) { g.adds.Add(1) }
func (*gauge) Sub(float64)   {}
func (*gauge) Set(float64)   {}

// countingNodes counts the nodes a tree writes.
type countingNodes struct {
	iavl.NodeBackend
	written *count
}

func (n countingNodes) QueueNode(node *iavl.Node) error {
	n.written.Inc()
	return n.NodeBackend.QueueNode(node)
}

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

	f := &forest{
		names:   o.Stores,
		db:      db,
		next:    max(1, o.FirstVersion),
		nodes:   o.CacheNodes,
		every:   checkpointSegments().In(o),
		ignored: o.MemoryBytes > 0,
	}

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
	key, value = tree.CloneKV(key, value)
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
			return tree.Commit{},
				fmt.Errorf("avlite: commit %s: %w", f.names[i], tree.WrongVersion(version, f.next))
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

func (f *forest) Reader() (tree.Reader, error) { return tree.Lookup(f.get), nil }

func (f *forest) get(store int, key, dst []byte) ([]byte, bool, error) {
	value, err := f.stores[store].tree.Get(key)
	return append(dst[:0], value...), value != nil, err
}

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
		Text: "avlite keeps all nodes since the last checkpoint in memory: the memory budget " +
			"asked for has no effect",
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

// store is one tree with its log, whose full segments a goroutine checkpoints.
type store struct {
	tree     *iavl.MutableTree
	wal      *iavl.Wal
	closeLog func() error
	segments *gauge // of the log
	stop     context.CancelFunc
	ended    chan error // of the checkpointer
	failed   error      // what it ended with
}

// createStore builds the tree on the forest's database; the keys of a store have
// the prefix that Cosmos gives them.
func (f *forest) createStore(dir, name string) (*store, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}

	segments, err := iavl.NewTidwalLog(dir)
	if err != nil {
		return nil, err
	}

	db := dbm.NewPrefixDB(f.db, []byte("s/k:"+name+"/"))
	s := &store{
		// it has no use for its third argument, an SQLite database
		wal:      iavl.NewWal(segments, db, nil),
		closeLog: segments.Close,
		segments: &gauge{},
		ended:    make(chan error, 1),
	}

	s.wal.MetricWalSize = s.segments
	s.wal.MetricCacheHit = &f.counts.logHits
	if err := checkpointEvery(s.wal, f.every); err != nil {
		return nil, errors.Join(err, segments.Close())
	}

	nodes, err := iavl.NewKeyValueBackend(db, int(f.nodes), s.wal)
	if err != nil {
		return nil, errors.Join(err, segments.Close())
	}

	nodes.MetricCacheHit = &f.counts.cacheHits
	nodes.MetricCacheMiss = &f.counts.cacheMisses
	nodes.MetricDbFetch = &f.counts.dbGets
	s.tree = newTree(db, countingNodes{nodes, &f.counts.nodes}, uint64(f.next))

	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() { s.ended <- s.wal.CheckpointRunner(ctx) }()
	return s, nil
}

func newTree(db dbm.DB, nodes iavl.NodeBackend, firstVersion uint64) *iavl.MutableTree {
	const noFastNodes = true
	o := iavl.Options{NodeBackend: nodes, InitialVersion: firstVersion}
	return iavl.NewMutableTreeWithOpts(db, 0, &o, noFastNodes, log.NewNopLogger())
}

// alive asks whether the checkpointer still runs: without it commits would wait
// for ever, once its queue is full.
func (s *store) alive() error {
	select {
	case s.failed = <-s.ended:
	default:
	}
	return s.failed
}

// checkpointSegments is how many log segments lie between two checkpoints.
func checkpointSegments() tree.Override {
	return tree.Override{Name: "CheckpointSegments", Default: 100, Low: 1, High: 10_000}
}

// checkpointEvery sets the distance of checkpoints, for which the library has a field
// but no option.
func checkpointEvery(log *iavl.Wal, segments int64) error {
	field := reflect.ValueOf(log).Elem().FieldByName("checkpointInterval")
	if !field.IsValid() || field.Kind() != reflect.Int ||
		field.Int() != checkpointSegments().Default {
		return errors.New("this version of the library has no checkpoint interval of 100 segments")
	}
	*(*int)(field.Addr().UnsafePointer()) = int(segments)
	return nil
}

// waitCheckpoint returns when all due checkpoints are written. A checkpoint ends
// with the removal of the segments before it, and the first is due when
// every segments follow the first one.
func (s *store) waitCheckpoint(ctx context.Context, every int64) error {
	written := s.segments.adds.Load()
	if written <= every {
		return s.alive()
	}

	first := uint64(1 + (written-1)/every*every)
	for {
		at, err := s.wal.FirstIndex()
		if err == nil {
			err = s.alive()
		}

		if err != nil || at >= first {
			return err
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *store) close() error {
	s.stop()
	if s.alive() == nil {
		s.failed = <-s.ended
	}
	if errors.Is(s.failed, context.Canceled) {
		s.failed = nil
	}
	return errors.Join(s.failed, s.closeLog())
}
