// Package tree is the contract between the replay harness and a versioned state
// tree: several named stores that take a block's changes and commit to one
// version with one root per store.
//
// To have a tree measured, write an adapter, a type that implements [Tree], whose Open returns a
// [Forest]: the stores together. Test it with treetest.Run(t, MyTree{}), make a runner of it with
// runner.Trees, and add it to statelab as CONTRIBUTING.md of this repository says.
//
// An adapter translates: it does not measure time and does not guess. What a tree cannot tell is
// nil, never zero.
//
// Goals: a change that adds nothing but one interface call; roots that can be
// compared with another tree's; the version returned at every commit.
// Non-goals: proofs, iteration, queries of old versions.
package tree

import (
	"context"
	"slices"

	"github.com/statelab/statelab/engine"
)

// ContractVersion is the version of this contract that adapters are written to.
const ContractVersion = 1

// Capability names something an adapter can do beyond changes and commits.
type Capability string

// Capabilities of trees.
const (
	// a commit followed by Sync survives a kill of the process
	IsDurable   Capability = "durable"
	IsVolatile  Capability = "volatile"   // keeps nothing on disk
	KeepsAll    Capability = "history"    // every committed version stays readable
	CountsReads Capability = "db_gets"    // Counters.DBGets is known
	CountsCache Capability = "node_cache" // Counters.CacheHits and CacheMisses are known
	Harvests    Capability = "harvest"    // the tree is a Harvester
)

// Info describes an adapter.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"` // of the tree's code
	Route   string `json:"route"`
	Licence string `json:"licence"`
	// trees with equal rules must agree on roots: "iavl", "ethereum-mpt", ...
	RootRule string `json:"root_rule"`
	// what survives a kill and what a power cut after Commit
	Durability   string           `json:"durability"`
	History      string           `json:"history"` // which old versions are kept
	Capabilities []Capability     `json:"capabilities"`
	Profiles     []engine.Profile `json:"profiles"` // the first is the default
}

// Has reports whether the adapter has capability c.
func (i Info) Has(c Capability) bool {
	return slices.Contains(i.Capabilities, c)
}

// Tree opens forests. Implementations hold no state.
type Tree interface {
	Info() Info

	// Check names everything wrong with o, touching no file.
	Check(o Options) []error

	// Open opens or, with o.Create, makes the forest in o.Dir, at its newest
	// committed version.
	Open(ctx context.Context, o Options) (Forest, error)
}

// Options say how to open a forest. The zero value of a field means "what the
// profile says".
type Options struct {
	Dir     string
	Profile string // "" is the tree's first profile
	Create  bool   // Dir holds no forest yet: it is missing or empty
	// Stores are the names of all stores, in the order that numbers them below.
	// They are the same for the whole life of a forest.
	Stores []string
	// FirstVersion is what the first commit must return; 0 means 1.
	FirstVersion int64

	CacheNodes  int64             // nodes of one store that the tree may cache in memory
	MemoryBytes int64             // budget, where the tree has one
	Overrides   map[string]string // by the tree's own names

	// Log receives the tree's own messages; nil drops them.
	Log func(string)
	// Tell receives what the tree does beside its commits, when it happens, from any
	// goroutine; nil drops it.
	Tell func(Event)
}

// Event is a step of work in the background, such as a snapshot or a checkpoint.
// The harness notes the time.
type Event struct {
	Version int64 // that the step is about; 0: not known
	Step    string
}

// Steps of Event. Work that begins ends in Written, and where the tree then has to
// catch up with newer versions, in CaughtUp and Switched.
const (
	Begun    = "begun"
	Written  = "written"
	CaughtUp = "caught up"
	Switched = "switched"
)

// Forest is an open tree of all its stores. Set, Remove and Commit are called by
// one goroutine; Readers are used from others only between a commit and the next
// change.
type Forest interface {
	// Version is the newest committed version; 0 for a new forest.
	Version() int64
	// Set writes key in a store for the version being built. key and value may be
	// reused by the caller after the call; an empty value is legal.
	Set(store int, key, value []byte) error
	// Remove deletes key; deleting an absent key is no error and no change.
	Remove(store int, key []byte) error
	// Commit ends the version. Empty versions are committed too.
	Commit(ctx context.Context) (Commit, error)
	// Sync returns when everything committed so far survives a kill of the
	// process, as far as the tree can promise it (Info.Durability), and when
	// background work (snapshots, checkpoints) is done.
	Sync(ctx context.Context) error

	// Reader reads the newest committed version. It is good until the next change.
	Reader() (Reader, error)

	// Shape is the size of every store at the newest committed version.
	Shape() ([]StoreShape, error)
	// Counters are totals since Open.
	Counters() Counters
	// Effective are the options the tree runs with, by the tree's own names.
	Effective() map[string]string
	// Warnings are about this forest or these options.
	Warnings() []engine.Warning

	Close() error
}

// Commit is what a commit returned.
type Commit struct {
	Version int64
	// Roots by store number. An empty store has the root its tree gives an empty
	// tree. The slices are the caller's.
	Roots [][]byte
}

// Reader looks keys up. Not safe for concurrent use.
type Reader interface {
	// Get copies the value behind dst[:0] and returns it; found is false for an
	// absent key, which is no error.
	Get(store int, key, dst []byte) (value []byte, found bool, err error)
	Close() error
}

// Lookup is a Reader of a forest that keeps nothing for its readers.
type Lookup func(store int, key, dst []byte) (value []byte, found bool, err error)

// Get implements Reader.
func (l Lookup) Get(store int, key, dst []byte) ([]byte, bool, error) { return l(store, key, dst) }

// Close implements Reader.
func (Lookup) Close() error { return nil }

// StoreShape is the size of one store.
type StoreShape struct {
	Leaves int64 `json:"leaves"`
	Height int   `json:"height"`
}

// Counters are totals since Open. nil means the tree cannot tell.
type Counters struct {
	Nodes                  *int64 `json:"nodes,omitempty"` // written: leaves and inner nodes
	CacheHits, CacheMisses *int64 // of the node cache; a log's cache is part of it
	LogHits                *int64 // of CacheHits: those of a write-ahead log's cache
	DBGets                 *int64 // lookups in the store below
	DBSets                 *int64 // writes to the store below, deletes included
	DBBytes                *int64 // keys and values of those writes
}

// Harvester is a Tree that reads the changes of every version back out of a
// forest that kept them.
type Harvester interface {
	// Harvest calls yield with the net changes of versions from..to (inclusive),
	// by version and store, keys ascending. The slices are the callee's.
	Harvest(
		ctx context.Context, dir string, from, to int64,
		yield func(version int64, store string, change Change) error,
	) error
	// Stores and versions of the forest in dir, without changing it.
	Survey(ctx context.Context, dir string) (Survey, error)
}

// Survey is what a forest's directory holds.
type Survey struct {
	Stores []string `json:"stores"`
	First  int64    `json:"first_version"` // that can be harvested
	Last   int64    `json:"last_version"`
	// Pruned: the forest began before First. The state before it is not in what is
	// harvested, and nor are the roots that go with it.
	Pruned bool `json:"pruned,omitempty"`
}

// RootKeeper is a Harvester whose forests keep the roots that the chain agreed on.
type RootKeeper interface {
	// ChainRoots calls yield with the roots of the stores, by name, of the versions of
	// from..to (inclusive) that the forest in dir has them of.
	ChainRoots(
		ctx context.Context, dir string, from, to int64,
		yield func(version int64, stores map[string][]byte) error,
	) error
}

// Change is one write of a version.
type Change struct {
	Key, Value []byte
	Delete     bool
}

// WrongVersion is the failure of a commit that returned another version than it had to.
func WrongVersion(got, want int64) error {
	return engine.Fail(engine.CodeWrongAnswer, "the commit returned version %d, not %d: the tree "+
		"lost or repeated a version", got, want)
}
