package geth

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/ethereum/go-ethereum/triedb/database"
	"github.com/holiman/uint256"

	"github.com/statelab/statelab/layout"
)

var errReaderClosed = errors.New("the reader is closed")

func (c *chain) Reader() (layout.Reader, error) {
	if c.closed.Load() {
		return nil, errStateClosed
	}
	if c.layout.flat {
		r := &flatReader{chain: c}
		return r, r.Refresh()
	}
	r := &trieReader{chain: c}
	return r, r.Refresh()
}

// trieReader opens a trie for every lookup: one that is kept would keep the nodes of
// earlier lookups.
type trieReader struct {
	chain *chain // nil once it is closed
	root  common.Hash
	at    pinned
	nodes int64
}

// pinned hands out one reader of nodes: asking the hash scheme for a reader costs a
// read of the root, which would be charged to every lookup.
type pinned struct{ reader database.NodeReader }

func (p pinned) NodeReader(common.Hash) (database.NodeReader, error) { return p.reader, nil }

func (r *trieReader) Refresh() error {
	if r.chain == nil {
		return errReaderClosed
	}
	root := r.chain.head.Load().root
	nodes, err := r.chain.tries.NodeReader(root)
	if err != nil {
		return fmt.Errorf("%s: read at root %x: %w", r.chain.layout.name, root, err)
	}
	r.root, r.at = root, pinned{nodes}
	return nil
}

func (r *trieReader) Account(account layout.Hash) (layout.Account, bool, error) {
	found, err := r.account(account)
	if err != nil || found == nil {
		return layout.Account{}, false, err
	}
	return stateAccount(found.Nonce, found.Balance, found.CodeHash), true, nil
}

func (r *trieReader) account(account layout.Hash) (*types.StateAccount, error) {
	if r.chain == nil {
		return nil, errReaderClosed
	}
	encoded, err := r.get(trie.StateTrieID(r.root), account)
	if err != nil || len(encoded) == 0 {
		return nil, err
	}
	found := new(types.StateAccount)
	return found, rlp.DecodeBytes(encoded, found)
}

func (r *trieReader) Slot(account, key layout.Hash, dst []byte) ([]byte, bool, error) {
	owner, err := r.account(account)
	if err != nil || owner == nil || owner.Root == emptyRoot {
		return dst[:0], false, err
	}
	encoded, err := r.get(trie.StorageTrieID(r.root, common.Hash(account), owner.Root), key)
	return slotValue(encoded, dst, err)
}

// get looks a key up in a new trie and counts the nodes that it resolved.
func (r *trieReader) get(id *trie.ID, key layout.Hash) ([]byte, error) {
	t, err := trie.New(id, r.at)
	if err != nil {
		return nil, err
	}
	encoded, err := t.Get(key[:])
	r.nodes += int64(len(t.Witness()))
	return encoded, err
}

func (r *trieReader) Touched() layout.Touched {
	nodes := r.nodes
	return layout.Touched{Nodes: &nodes}
}

func (r *trieReader) Close() error {
	r.chain = nil
	return nil
}

// flatReader reads the path scheme's flat state: one key a lookup, no node.
type flatReader struct {
	chain *chain // nil once it is closed
	at    database.StateReader
}

func (r *flatReader) Refresh() (err error) {
	if r.chain == nil {
		return errReaderClosed
	}
	root := r.chain.head.Load().root
	if r.at, err = r.chain.tries.StateReader(root); err != nil {
		return fmt.Errorf("%s: read at root %x: %w", r.chain.layout.name, root, err)
	}
	return nil
}

func (r *flatReader) Account(account layout.Hash) (layout.Account, bool, error) {
	if r.chain == nil {
		return layout.Account{}, false, errReaderClosed
	}
	found, err := r.at.Account(common.Hash(account))
	if err != nil || found == nil {
		return layout.Account{}, false, err
	}
	return stateAccount(found.Nonce, found.Balance, found.CodeHash), true, nil
}

func (r *flatReader) Slot(account, key layout.Hash, dst []byte) ([]byte, bool, error) {
	if r.chain == nil {
		return dst[:0], false, errReaderClosed
	}
	encoded, err := r.at.Storage(common.Hash(account), common.Hash(key))
	return slotValue(encoded, dst, err)
}

func (r *flatReader) Touched() layout.Touched { return layout.Touched{} }

func (r *flatReader) Close() error {
	r.chain = nil
	return nil
}

// stateAccount is an account without storage root; no code hash means no code.
func stateAccount(nonce uint64, balance *uint256.Int, codeHash []byte) layout.Account {
	a := layout.Account{Nonce: nonce, Balance: balance.Bytes32(), CodeHash: layout.EmptyCode}
	if len(codeHash) > 0 {
		a.CodeHash = layout.Hash(codeHash)
	}
	return a
}

func slotValue(encoded, dst []byte, err error) ([]byte, bool, error) {
	if err != nil || len(encoded) == 0 {
		return dst[:0], false, err
	}
	_, value, _, err := rlp.Split(encoded)
	return append(dst[:0], value...), err == nil, err
}
