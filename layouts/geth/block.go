package geth

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/pebble"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/ethereum/go-ethereum/trie/bintrie"
	"github.com/ethereum/go-ethereum/trie/trienode"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/holiman/uint256"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/layout"
)

// block is the block being built.
type block struct {
	chain    *chain
	parent   common.Hash
	accounts *trie.Trie          // of the Merkle-Patricia trie
	binary   *bintrie.BinaryTrie // or the binary one
	nodes    *trienode.MergedNodeSet
	flat     *triedb.StateSet
}

func (c *chain) begin() (*block, error) {
	parent := c.head.Load().root
	b := &block{
		chain:  c,
		parent: parent,
		nodes:  trienode.NewMergedNodeSet(),
		flat:   triedb.NewStateSet(),
	}

	var err error
	if c.layout.binary {
		b.binary, err = bintrie.NewBinaryTrie(parent, c.tries, c.group)
	} else {
		b.accounts, err = trie.New(trie.StateTrieID(parent), c.tries)
	}

	return b, err
}

func (b *block) change(c layout.Change) error {
	if b.binary != nil {
		return b.changeBinary(c)
	}

	owner := common.Hash(c.Account)
	old, err := b.account(owner)
	if err != nil {
		return err
	}

	if c.New == nil {
		return b.remove(owner, old)
	}

	account := types.StateAccount{
		Nonce:    c.New.Nonce,
		Balance:  new(uint256.Int).SetBytes32(c.New.Balance[:]),
		Root:     emptyRoot,
		CodeHash: c.New.CodeHash[:],
	}

	if old != nil {
		account.Root = old.Root
	}

	if len(c.Slots) > 0 {
		if account.Root, err = b.changeSlots(owner, account.Root, c.Slots); err != nil {
			return err
		}
	}

	encoded, err := rlp.EncodeToBytes(&account)
	if err != nil {
		return err
	}

	b.flat.Accounts[owner] = types.SlimAccountRLP(account)
	return b.accounts.Update(owner[:], encoded)
}

// account is what the account is so far; nil: there is none.
func (b *block) account(owner common.Hash) (*types.StateAccount, error) {
	encoded, err := b.accounts.Get(owner[:])
	if err != nil || len(encoded) == 0 {
		return nil, err
	}
	account := new(types.StateAccount)
	return account, rlp.DecodeBytes(encoded, account)
}

func (b *block) changeSlots(owner, root common.Hash, slots []layout.Slot) (common.Hash, error) {
	storage, err := trie.New(trie.StorageTrieID(b.parent, owner, root), b.chain.tries)
	if err != nil {
		return root, err
	}

	flat := map[common.Hash][]byte{}
	for _, slot := range slots {
		if len(slot.Value) == 0 {
			flat[slot.Key] = nil
			err = storage.Delete(slot.Key[:])
		} else {
			var encoded []byte
			if encoded, err = rlp.EncodeToBytes(slot.Value); err == nil {
				flat[slot.Key] = encoded
				err = storage.Update(slot.Key[:], encoded)
			}
		}

		if err != nil {
			return root, fmt.Errorf("slot %x: %w", slot.Key, err)
		}
	}

	b.flat.Storages[owner] = flat
	root, nodes := storage.Commit(false)
	return root, b.merge(nodes)
}

// remove deletes an account with its storage, slot by slot, as the path scheme and
// the flat state must.
func (b *block) remove(owner common.Hash, old *types.StateAccount) error {
	if old == nil {
		return nil
	}

	if old.Root != emptyRoot && b.chain.layout.byPath {
		keys, err := b.slotKeys(owner, old.Root)
		if err != nil {
			return err
		}

		gone := make([]layout.Slot, len(keys))
		for i, key := range keys {
			gone[i].Key = layout.Hash(key)
		}

		if _, err := b.changeSlots(owner, old.Root, gone); err != nil {
			return err
		}
	}

	b.flat.Accounts[owner] = nil
	return b.accounts.Delete(owner[:])
}

func (b *block) slotKeys(owner, root common.Hash) (keys []common.Hash, err error) {
	storage, err := trie.New(trie.StorageTrieID(b.parent, owner, root), b.chain.tries)
	if err != nil {
		return nil, err
	}

	nodes, err := storage.NodeIterator(nil)
	if err != nil {
		return nil, err
	}

	leaves := trie.NewIterator(nodes)
	for leaves.Next() {
		keys = append(keys, common.BytesToHash(leaves.Key))
	}

	return keys, leaves.Err
}

// end commits the account trie. The hash scheme finds storage tries by its leaves.
func (b *block) end() (common.Hash, error) {
	if b.binary != nil {
		return b.endBinary()
	}
	root, nodes := b.accounts.Commit(!b.chain.layout.byPath)
	return root, b.merge(nodes)
}

func (b *block) merge(nodes *trienode.NodeSet) error {
	if nodes == nil { // nothing changed
		return nil
	}
	if err := b.nodes.Merge(nodes); err != nil {
		return errors.Join(errors.New("merge a trie's nodes"), err)
	}
	return nil
}

// written is how many nodes the block writes.
func (b *block) written() (nodes int64) {
	for _, set := range b.nodes.Sets {
		updated, _ := set.Size()
		nodes += int64(updated)
	}
	return nodes
}

// headKey is where the head is kept, in no table of go-ethereum's.
var headKey = []byte("statelab-head")

// head is the newest committed block.
type head struct {
	block        uint64
	root, parent common.Hash
}

const headBytes = 8 + 2*common.HashLength

// writeHead writes, behind a binary trie's head, how many levels its groups have, which must not
// change.
func (c *chain) writeHead(h head) error {
	text := binary.BigEndian.AppendUint64(make([]byte, 0, headBytes+1), h.block)
	text = append(append(text, h.root[:]...), h.parent[:]...)
	if c.layout.binary {
		text = append(text, byte(c.group))
	}
	return c.disk.Put(headKey, text)
}

// readHead is the head that Open finds; block 0 is an empty database. The path
// scheme's nodes follow their head: a process killed between the two left the block
// before.
func (c *chain) readHead() (head, error) {
	l, disk := c.layout, c.disk
	known, err := disk.Has(headKey)
	if err != nil || !known {
		return head{root: l.emptyRoot()}, err
	}

	text, err := disk.Get(headKey)
	if err != nil {
		return head{}, err
	}

	switch built := len(text) == headBytes+1; {
	case built != l.binary && (built || len(text) == headBytes):
		return head{},
			fmt.Errorf("it holds a %s, not a %s: open it as the layout that built it",
				trieName(built), trieName(l.binary))
	case built && int(text[headBytes]) != c.group:
		return head{},
			fmt.Errorf("it was built with %s=%d, not %d", groupOption, text[headBytes], c.group)
	case built:
		disk = rawdb.NewTable(disk, string(rawdb.VerklePrefix))
	case len(text) != headBytes:
		return head{},
			fmt.Errorf("the head has %d bytes, not %d or %d", len(text), headBytes, headBytes+1)
	}

	h := head{binary.BigEndian.Uint64(text), common.Hash(text[8:40]), common.Hash(text[40:])}
	if !l.byPath {
		return h, nil
	}

	root := rawdb.ReadSnapshotRoot(disk)
	if root == (common.Hash{}) {
		root = l.emptyRoot() // no block has been written
	}

	switch root {
	case h.root:
		return h, nil
	case h.parent:
		return head{block: h.block - 1, root: h.parent}, nil
	}

	return head{}, fmt.Errorf("the state is at root %x, the head at %x", root, h.root)
}

func trieName(binary bool) string {
	if binary {
		return "binary trie"
	}
	return "Merkle-Patricia trie"
}

// chain is an open state.
type chain struct {
	layout   scheme
	dir      string
	split    split
	readOnly bool
	disk     ethdb.Database
	settle   func(context.Context) error
	tries    *triedb.Database

	// Of a binary trie:
	group     int       // levels of a group
	engine    engine.DB // below disk
	hashNanos atomic.Int64

	head     atomic.Pointer[head]
	building *block // nil between blocks
	nodesNew atomic.Int64
	closed   atomic.Bool
}

var errStateClosed = errors.New("the state is closed")

func open(ctx context.Context, l scheme, o layout.Options) (*chain, error) {
	c := &chain{layout: l, dir: o.Dir, split: splitMemory(o.MemoryBytes), readOnly: o.ReadOnly}
	openStore := c.openPebble
	if l.binary {
		openStore = c.openBinary
	}

	kv, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}

	c.disk = rawdb.NewDatabase(kv)
	h, err := c.readHead()
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
	c.tries = triedb.NewDatabase(c.disk, l.trieConfig(c.split, o.ReadOnly))
	return c, nil
}

func (c *chain) openPebble(_ context.Context, o layout.Options) (ethdb.KeyValueStore, error) {
	// Pebble makes a database wherever there is none, and writes into one that it opens.
	if o.Create {
		if err := adapter.MakeEmpty(o.Dir); err != nil {
			return nil, err
		}
	} else if has, err := pebbleIn(o.Dir); err != nil || !has {
		return nil, cmp.Or(err, error(&engine.NotADatabaseError{
			Dir: o.Dir, Why: "it holds no database of Pebble",
		}))
	}

	kv, err := pebble.New(o.Dir, c.split.pebbleMiB(), handles, "", o.ReadOnly)
	if err != nil {
		return nil, err
	}
	c.settle = func(ctx context.Context) error { return awaitQuiet(ctx, kv) }
	return kv, nil
}

// pebbleIn tells whether a directory holds a database of Pebble: a marker, or, of versions before
// go-ethereum 1.17, the file CURRENT names its manifest.
func pebbleIn(dir string) (bool, error) {
	for _, pattern := range []string{"marker.manifest.*", "CURRENT"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			return err == nil, err
		}
	}
	return false, nil
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
		return errors.Join(c.writeHead(*next), c.disk.SyncKeyValue())
	}

	root, err := b.end()
	if err != nil {
		return err
	}

	next.root = root
	if c.layout.byPath { // its nodes replace the old ones: the head must not come later
		if err := c.writeHead(*next); err != nil {
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
		if err := c.writeHead(*next); err != nil {
			return err
		}
	}

	c.nodesNew.Add(b.written())
	return c.disk.SyncKeyValue()
}

func (c *chain) Settle(ctx context.Context) error { return c.settle(ctx) }

// Counters: geth's Pebble does not tell how many blocks it read, ours does.
func (c *chain) Counters() layout.Counters {
	var counters layout.Counters
	if c.engine != nil {
		counters = layout.CountersOf(c.engine.Counters())
		counters.HashNanos = new(c.hashNanos.Load())
	}
	counters.NodesNew = new(c.nodesNew.Load())
	return counters
}

func (c *chain) DiskBytes() (int64, error) {
	allocated, _, err := host.Allocated(c.dir)
	return allocated, err
}

func (c *chain) Effective() map[string]string {
	effective := c.layout.effective(c.split)
	if c.engine != nil {
		maps.Copy(effective, c.engine.Effective())
		effective[groupOption] = strconv.Itoa(c.group)
	}
	return effective
}

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

func (l scheme) emptyRoot() common.Hash {
	if l.binary {
		return types.EmptyBinaryHash
	}
	return emptyRoot
}
