//go:build cgo

// Package iavl2 drives iavl v2: leaves are written to SQLite at every version,
// inner nodes at checkpoints; what lies between is replayed when a store opens.
//
// Stores commit side by side, as in the library's own multi-store, which cannot
// be used itself: it stumbles over empty stores.
//
// Goals: the roots of iavl, and a forest that opens again at its newest version
// whatever was written to it.
// Non-goals: pruning. A kill between the steps with which the library puts a
// pruned file in place of the others leaves a store that it cannot open.
package iavl2

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bvinc/go-sqlite-lite/sqlite3"
	"github.com/cosmos/iavl/v2"
	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
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

func (f *forest) Reader() (tree.Reader, error) {
	return tree.Lookup(func(store int, key, dst []byte) ([]byte, bool, error) {
		return f.stores[store].get(key, dst)
	}), nil
}

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
			Code: "iavl2_no_budget",
			Text: "iavl v2 has no bound on its cache: the node cache and the memory budget " +
				"asked for have no effect",
			Remedy: "a shorter CheckpointInterval drops nodes more often, a larger EvictionDepth " +
				"keeps more of them",
		})
	}

	var unreplayable int64
	for _, s := range f.stores {
		unreplayable += s.unreplayables
	}

	switch {
	case unreplayable > 0 && f.force:
		warnings = append(warnings, engine.Warning{
			Code: "iavl2_forced_checkpoints",
			Text: fmt.Sprintf("%d checkpoints were made after versions that wrote a key more "+
				"than once: iavl v2 cannot replay those", unreplayable),
			Remedy: "change sets of net changes; or ForceCheckpoints=0 and a forest that may not " +
				"open again",
		})
	case unreplayable > 0:
		warnings = append(warnings, engine.Warning{
			Code: "iavl2_unreplayable",
			Text: fmt.Sprintf("%d times a version wrote a key more than once, which iavl v2 "+
				"cannot replay: the forest opens again only after a later checkpoint of every "+
				"store",
				unreplayable),
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

// Tree opens iavl v2 forests.
type Tree struct{}

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name:     "iavl2",
		Version:  "v2.0.0-alpha.5.0.20250829183505-8e11ef38d394",
		Route:    "go module github.com/cosmos/iavl/v2 (cgo, SQLite)",
		Licence:  "Apache-2.0",
		RootRule: "iavl",
		Durability: "kill: nothing lost; power cut: the forest may not open (SQLite with " +
			"synchronous=OFF)",
		History:      "every version",
		Capabilities: []tree.Capability{tree.IsDurable, tree.KeepsAll, tree.CountsReads},
		Profiles: []engine.Profile{{
			Name: "default",
			About: "the library's defaults but for pruning, which is off: a checkpoint every " +
				"1000 versions, nothing cached beyond it",
		}, {
			Name: benchProfile,
			About: "as iavl-bench sets it up: stores commit one after the other, and a version " +
				"that cannot be replayed makes no checkpoint (ForceCheckpoints=0)",
		}},
	}
}

const benchProfile = "iavl-bench"

func checkpointInterval() tree.Override {
	return tree.Override{Name: "CheckpointInterval", Default: 1000, Low: 1, High: math.MaxInt32}
}

// evictionDepth is the depth from which a checkpoint drops nodes from memory.
func evictionDepth() tree.Override {
	return tree.Override{Name: "EvictionDepth", Default: -1, Low: -1, High: math.MaxInt8}
}

// heightFilter is 1 to drop leaves from memory at every version, 0 to keep them.
func heightFilter() tree.Override {
	return tree.Override{Name: "HeightFilter", Default: 1, Low: 0, High: 1}
}

// forceCheckpoints is 0 to leave versions that cannot be replayed as the library
// leaves them: the forest then opens again only if a checkpoint follows them.
func forceCheckpoints(profile string) tree.Override {
	force := int64(1)
	if profile == benchProfile {
		force = 0
	}
	return tree.Override{Name: "ForceCheckpoints", Default: force, Low: 0, High: 1}
}

// Check names what is wrong with o.
func (t Tree) Check(o tree.Options) []error {
	errs := o.Problems(t.Info(), checkpointInterval(), evictionDepth(), heightFilter(),
		forceCheckpoints(o.Profile))
	for _, path := range append([]string{o.Dir}, o.Stores...) {
		if strings.ContainsAny(path, "?#%'") {
			errs = append(errs,
				fmt.Errorf(
					"path %s: SQLite is given it as an address: use one without ? # %% and '",
					path,
				))
		}
	}

	return errs
}

// Open opens or makes the forest in o.Dir.
func (t Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	if errs := t.Check(o); len(errs) > 0 {
		return nil, fmt.Errorf("iavl2: open: %w", errs[0])
	}

	if err := expectDir(o); err != nil {
		return nil, fmt.Errorf("iavl2: %w", err)
	}

	f := &forest{
		options: treeOptions(o),
		force:   forceCheckpoints(o.Profile).In(o) == 1,
		inTurn:  o.Profile == benchProfile,
		next:    max(1, o.FirstVersion),
		ignored: o.CacheNodes > 0 || o.MemoryBytes > 0,
	}

	f.options.MetricsProxy = &f.counts
	if err := f.open(o); err != nil {
		return nil, fmt.Errorf("iavl2: open %s: %w", o.Dir, err)
	}

	return f, nil
}

func treeOptions(o tree.Options) iavl.TreeOptions {
	options := iavl.DefaultTreeOptions()
	options.CheckpointInterval = checkpointInterval().In(o)
	options.EvictionDepth = int8(evictionDepth().In(o))
	options.HeightFilter = int8(heightFilter().In(o))
	options.PruneRatio = 0
	return options
}

// rootsFile is in the folder of every store.
const rootsFile = "root.sqlite"

// expectDir wants an empty directory, or the folders of exactly these stores.
func expectDir(o tree.Options) error {
	if o.Create {
		return adapter.MakeEmpty(o.Dir)
	}

	roots, err := filepath.Glob(filepath.Join(o.Dir, "*", rootsFile))
	if err != nil {
		return fmt.Errorf("open %s: %w", o.Dir, err)
	}

	if len(roots) == 0 {
		return adapter.CheckHolds(o.Dir, filepath.Join(o.Stores[0], rootsFile))
	}

	var held []string
	for _, path := range roots {
		held = append(held, filepath.Base(filepath.Dir(path)))
	}

	return o.SameStores(held)
}

// store is one tree.
//
// What a store holds after a kill is its last checkpoint and, replayed on it, the
// leaves of the versions since. The library numbers the leaves of a version as
// they are made, keeps those that are left at its end, and refuses to replay a
// gap in the numbers: a version that touches a key after setting it cannot be
// replayed. Such a version ends in a checkpoint, unless that is forbidden.
type store struct {
	name string
	tree *iavl.Tree

	// The library reads through one connection and hangs what it read into the
	// tree: lookups take turns.
	reading sync.Mutex

	seed          maphash.Seed
	written       map[uint64]struct{} // hashes of the keys set in the version being built
	unreplayable  bool                // the version being built touched one of them again
	unreplayables int64               // versions
}

func openStore(
	dir, name string, newest, next int64, pool *iavl.NodePool, o iavl.TreeOptions,
) (*store, error) {
	db, err := iavl.NewSqliteDb(pool, iavl.SqliteDbOptions{Path: dir, Metrics: o.MetricsProxy})
	if err != nil {
		return nil, err
	}

	s := &store{
		name:    name,
		tree:    iavl.NewTree(db, pool, o),
		seed:    maphash.MakeSeed(),
		written: map[uint64]struct{}{},
	}

	switch {
	case newest > 0:
		err = s.tree.LoadVersion(newest)
	case next > 1:
		err = s.tree.SetInitialVersion(next)
	}

	if err != nil {
		return nil, errors.Join(err, s.tree.Close())
	}

	return s, nil
}

func (s *store) set(key, value []byte) error {
	s.touch(key)
	s.written[maphash.Bytes(s.seed, key)] = struct{}{}
	key, value = tree.CloneKV(key, value)
	_, err := s.tree.Set(key, value)
	return err
}

func (s *store) remove(key []byte) error {
	s.touch(key)
	_, _, err := s.tree.Remove(bytes.Clone(key))
	return err
}

func (s *store) touch(key []byte) {
	if _, again := s.written[maphash.Bytes(s.seed, key)]; again {
		s.unreplayable = true
	}
}

// commit returns the root of version.
func (s *store) commit(version int64, force bool) ([]byte, error) {
	if s.unreplayable {
		s.unreplayables++
		if force {
			s.tree.SetShouldCheckpoint()
		}
	}

	root, got, err := s.tree.SaveVersion()
	if err != nil {
		return nil, err
	}

	if got != version {
		return nil, tree.WrongVersion(got, version)
	}

	s.unreplayable, s.written = false, make(map[uint64]struct{}, len(s.written))
	return bytes.Clone(root), nil
}

func (s *store) get(key, dst []byte) ([]byte, bool, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	value, err := s.tree.Get(key)
	return append(dst[:0], value...), value != nil, err
}

// shape does not ask an empty tree, whose Size and Height panic.
func (s *store) shape() tree.StoreShape {
	if empty := sha256.Sum256(nil); bytes.Equal(s.tree.Hash(), empty[:]) {
		return tree.StoreShape{}
	}
	return tree.StoreShape{Leaves: s.tree.Size(), Height: int(s.tree.Height())}
}

// newestOfAll is the newest version that every store has: a kill can come when
// some have committed the next one. The library has to be told which to load.
func newestOfAll(o tree.Options) (oldest int64, err error) {
	if o.Create {
		return 0, nil
	}

	var latest int64
	for i, name := range o.Stores {
		begun, ended, err := newest(filepath.Join(o.Dir, name))
		if err != nil {
			return 0, fmt.Errorf("newest version of store %s: %w", name, err)
		}

		latest = max(latest, begun)
		if i == 0 || ended < oldest {
			oldest = ended
		}
	}

	if oldest == 0 && latest > 0 {
		return 0, errors.New("its first commit was cut short: it holds no version yet and cannot " +
			"start over: replay into a new directory")
	}

	return oldest, nil
}

// newest is the newest version that has a root, and the newest one that the library
// can load; 0 is none. They differ where a kill came between the two last steps of a
// checkpoint: the root names one that its shard does not list, and the library would
// refuse to load it. All leaves before it are still there to be replayed.
func newest(dir string) (begun, ended int64, err error) {
	var checkpoint int64
	err = firstRow(filepath.Join(dir, rootsFile), "SELECT version, checkpoint FROM root ORDER BY "+
		"version DESC LIMIT 1", nil, []any{&begun, &checkpoint})
	if err != nil || checkpoint == 0 {
		return begun, begun, err
	}

	shards, err := filepath.Glob(filepath.Join(dir, "tree_*.sqlite"))
	if err != nil {
		return 0, 0, err
	}

	for _, shard := range shards {
		if err := firstRow(
			shard,
			"SELECT version FROM checkpoints WHERE version = ?",
			[]any{begun},
			[]any{&ended},
		); err != nil || ended == begun {
			return begun, ended, err
		}
	}

	return begun, begun - 1, nil
}

// firstRow scans the first row that query gives from the database in path, and leaves
// into as it is where there is none.
func firstRow(path, query string, args, into []any) (err error) {
	db, err := sqlite3.Open("file:" + path + "?mode=ro")
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Prepare(query, args...)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, rows.Close()) }()
	if found, err := rows.Step(); err != nil || !found {
		return err
	}

	return rows.Scan(into...)
}
