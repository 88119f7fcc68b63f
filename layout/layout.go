// Package layout is the contract between the layouts harness and a store of
// blockchain state: accounts with storage, changed block by block, looked up at
// the newest block.
//
// It is a level above package tree: accounts and slots instead of keys, one root,
// and what a lookup touched. Layouts that hash by the rules of Ethereum's
// Merkle-Patricia trie must agree on every root.
//
// To have a layout measured, write an adapter, a type that implements [Layout], whose Open
// returns a [State]. Test it with layouttest.TestLayout, make a runner of it with
// runner.Layouts, and add it to statelab as CONTRIBUTING.md of this repository says. A shared
// library in C or Rust needs no change of statelab: docs/native.md.
//
// Goals: a lookup that adds nothing but one interface call; nodes and pages that
// the layout counts itself; roots that can be compared with another layout's.
// Non-goals: code, receipts, proofs, forks of the chain.
package layout

import (
	"context"

	"github.com/statelab/statelab/engine"
)

// Hash is a Keccak-256 hash. Accounts are named by that of their address, slots
// by that of their key: layouts hash nothing on the way to a lookup.
type Hash = [32]byte

// Account is what the state keeps of an account, beside its storage.
type Account struct {
	Nonce    uint64
	Balance  [32]byte // big endian
	CodeHash Hash     // EmptyCode for an account without code
}

// EmptyCode is the hash of no code.
var EmptyCode = Hash{0xc5, 0xd2, 0x46, 0x01, 0x86, 0xf7, 0x23, 0x3c, 0x92, 0x7e, 0x7d, 0xb2, 0xdc,
	0xc7, 0x03, 0xc0,
	0xe5, 0x00, 0xb6, 0x53, 0xca, 0x82, 0x27, 0x3b, 0x7b, 0xfa, 0xd8, 0x04, 0x5d, 0x85, 0xa4, 0x70}

// EmptyRoot is the root of an empty Merkle-Patricia trie.
var EmptyRoot = Hash{0x56, 0xe8, 0x1f, 0x17, 0x1b, 0xcc, 0x55, 0xa6, 0xff, 0x83, 0x45, 0xe6, 0x92,
	0xc0, 0xf8, 0x6e,
	0x5b, 0x48, 0xe0, 0x1b, 0x99, 0x6c, 0xad, 0xc0, 0x01, 0x62, 0x2f, 0xb5, 0xe3, 0x63, 0xb4, 0x21}

// RootRule says how a layout makes its root: layouts of one rule must agree.
type RootRule string

// Rules of roots.
const (
	EthereumRoot RootRule = "ethereum-mpt" // the Merkle Patricia trie's
	BinaryRoot   RootRule = "eip-7864"     // the binary trie's
	OwnRoot      RootRule = "own"          // a commitment of the layout's own
	NoRoot       RootRule = "none"         // a flat table commits to nothing
)

// Info describes a layout.
type Info struct {
	Name       string           `json:"name"`
	Version    string           `json:"version"`
	Licence    string           `json:"licence"`
	Root       RootRule         `json:"root_rule"`
	Durability string           `json:"durability"`
	History    string           `json:"history"` // which old states stay readable
	Profiles   []engine.Profile `json:"profiles"`
}

// Layout opens states. Implementations hold no state of their own.
type Layout interface {
	Info() Info
	Check(o Options) []error
	// Open opens or, with o.Create, makes the state in o.Dir, at its newest
	// committed block.
	Open(ctx context.Context, o Options) (State, error)
}

// Options say how to open a state. The zero value means "what the profile says".
type Options struct {
	Dir         string
	Profile     string
	Create      bool
	ReadOnly    bool
	MemoryBytes int64 // one budget: caches, pinned nodes, write buffers
	Direct      bool  // O_DIRECT where the layout reads by calls
	// Accounts and Slots (of all accounts) are how many the state will come to hold,
	// for layouts that size something once and for all; 0 if unknown.
	Accounts, Slots uint64
	Overrides       map[string]string
	Log             func(string) // may be nil
}

// State is an open state. Change and Commit are called by one goroutine; Readers
// may read the newest committed block meanwhile.
type State interface {
	// Block is the newest committed block; 0 for a new state.
	Block() uint64
	// Root at that block; the zero hash where Info.Root is NoRoot.
	Root() Hash
	// Change adds one account's changes to the block being built. An account comes
	// at most once a block. The slices may be reused after the call.
	Change(c Change) error
	// Commit ends the block and returns its root. It returns once a killed process
	// would keep the block.
	Commit(ctx context.Context) (Hash, error)
	Reader() (Reader, error)
	// Settle returns when background work is done.
	Settle(ctx context.Context) error

	Counters() Counters
	DiskBytes() (int64, error)
	Effective() map[string]string
	Memory() []engine.MemoryShare
	Close() error
}

// Change is what a block does to one account.
type Change struct {
	Account Hash
	// New is the account after the block; nil deletes it with all its storage.
	New   *Account
	Slots []Slot
	// Code is the code of the account from now on; nil: as it was. Layouts without a CodeReader
	// keep none.
	Code []byte
}

// Slot is one storage slot after the block. An empty Value deletes it. Values
// have no leading zero bytes, as the trie stores them (at most 32 bytes).
type Slot struct {
	Key   Hash
	Value []byte
}

// Reader looks up at the block that was newest when it was made or last
// refreshed. Not safe for concurrent use.
type Reader interface {
	Account(account Hash) (a Account, found bool, err error)
	// Slot copies the value behind dst[:0].
	Slot(account, key Hash, dst []byte) (value []byte, found bool, err error)
	// Refresh moves on to the newest committed block.
	Refresh() error
	// Touched is what this reader's lookups touched so far.
	Touched() Touched
	Close() error
}

// Coder is a Layout that may keep code in its trie; its Readers are then CodeReaders.
type Coder interface{ KeepsCode() bool }

// CodeBytes are those of a chunk of code.
const CodeBytes = 31

// CodeReader is a Reader of a layout that keeps code in its trie, in chunks of CodeBytes.
type CodeReader interface {
	// CodeChunk copies chunk n's code behind dst[:0], the last one filled up with zeros.
	CodeChunk(account Hash, n uint64, dst []byte) (chunk []byte, found bool, err error)
}

// Touched counts what lookups touched, whether it was cached or not; nil where
// the layout cannot tell.
type Touched struct {
	Nodes *int64 `json:"nodes,omitempty"` // of the trie, the leaf included
	Pages *int64 `json:"pages,omitempty"` // of the layout's own pages or chunks' sectors
	Bytes *int64 `json:"bytes,omitempty"` // of those nodes, as stored
}

// Counters are totals since Open; nil means the layout cannot tell.
type Counters struct {
	Reads      *int64 // reads below the layout's cache: blocks, pages or nodes
	ReadBytes  *int64
	Writes     *int64
	WriteBytes *int64
	NodesNew   *int64 // trie nodes written
	HashNanos  *int64 // CPU time in making roots: hash functions, and walking what they hash

	// Of Reads, of stores whose blocks have types.
	FilterReads *int64
	IndexReads  *int64 // of all levels of an index
	DataReads   *int64 // blocks of keys and values
}

// CountersOf are those of a layout whose nodes or records an engine keeps.
func CountersOf(c engine.Counters) (counters Counters) {
	if c.Reads != nil {
		total, types := c.Reads.Total(), func(of ...engine.BlockType) *int64 {
			var n int64
			for _, t := range of {
				n += c.Reads.Type(t).Count
			}
			return &n
		}

		counters.Reads, counters.ReadBytes = &total.Count, &total.Bytes
		counters.FilterReads, counters.IndexReads = types(engine.Filter),
			types(engine.TopIndex, engine.Index, engine.SingleIndex)
		counters.DataReads = types(engine.Data, engine.Value)
	}

	if c.WALBytes != nil && c.FlushBytes != nil && c.CompactBytes != nil {
		counters.WriteBytes = new(*c.WALBytes + *c.FlushBytes + *c.CompactBytes)
	}

	return counters
}
