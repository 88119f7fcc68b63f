package geth

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/ethereum/go-ethereum/trie/trienode"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/holiman/uint256"

	"github.com/statelab/statelab/layout"
)

// block is the block being built.
type block struct {
	chain    *chain
	parent   common.Hash
	accounts *trie.Trie
	nodes    *trienode.MergedNodeSet
	flat     *triedb.StateSet
}

func (c *chain) begin() (*block, error) {
	parent := c.head.Load().root
	accounts, err := trie.New(trie.StateTrieID(parent), c.tries)
	if err != nil {
		return nil, err
	}
	return &block{chain: c, parent: parent, accounts: accounts, nodes: trienode.NewMergedNodeSet(), flat: triedb.NewStateSet()}, nil
}

func (b *block) change(c layout.Change) error {
	owner := common.Hash(c.Account)
	old, err := b.account(owner)
	if err != nil {
		return err
	}
	if c.New == nil {
		return b.remove(owner, old)
	}
	account := types.StateAccount{Nonce: c.New.Nonce, Balance: new(uint256.Int).SetBytes32(c.New.Balance[:]), Root: emptyRoot, CodeHash: c.New.CodeHash[:]}
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

func writeHead(to ethdb.KeyValueWriter, h head) error {
	text := binary.BigEndian.AppendUint64(make([]byte, 0, headBytes), h.block)
	text = append(append(text, h.root[:]...), h.parent[:]...)
	return to.Put(headKey, text)
}

// readHead is the head that Open finds; block 0 is an empty database. The path
// scheme's nodes follow their head: a process killed between the two left the block
// before.
func (l scheme) readHead(disk ethdb.Database) (head, error) {
	known, err := disk.Has(headKey)
	if err != nil || !known {
		return head{root: emptyRoot}, err
	}
	text, err := disk.Get(headKey)
	if err != nil {
		return head{}, err
	}
	if len(text) != headBytes {
		return head{}, fmt.Errorf("the head has %d bytes, not %d", len(text), headBytes)
	}
	h := head{binary.BigEndian.Uint64(text), common.Hash(text[8:40]), common.Hash(text[40:])}
	if !l.byPath {
		return h, nil
	}
	root := rawdb.ReadSnapshotRoot(disk)
	if root == (common.Hash{}) {
		root = emptyRoot // no block has been written
	}
	switch root {
	case h.root:
		return h, nil
	case h.parent:
		return head{block: h.block - 1, root: h.parent}, nil
	}
	return head{}, fmt.Errorf("the state is at root %x, the head at %x", root, h.root)
}
