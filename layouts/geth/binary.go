package geth

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"strconv"
	"syscall"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/trie/bintrie"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/ethereum/go-ethereum/triedb/database"
	"github.com/holiman/uint256"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/layout"
)

// The binary trie of EIP-7864 (go-ethereum's trie/bintrie), in the path scheme. A database value
// is a group of GroupDepth levels of branches, or a stem: the 256 leaves of a key but for its last
// byte. An account's stem has its balance and nonce, the hash of its code, its first 64 slots and
// 128 chunks of code; every other slot is in a stem with those of 255 neighbouring keys. Keys of
// slots are hashes here, as those of mappings are: hardly two slots share a stem.
//
// Accounts are named by hashes here and by addresses there: an address is the first 20 bytes of a
// name, with the other 12 added bit by bit.

const (
	groupOption  = "GroupDepth" // levels of a group, 1 to 8
	pebbleOption = "Pebble"     // the version of Pebble, 1 or 2
)

// binaryStore is what a binary trie is opened with: the levels of a group, and the store with the
// options that go-ethereum gives its database. Other options are the engine's.
func binaryStore(o layout.Options) (group int, e engine.Engine, on engine.Options, errs []error) {
	on = engine.Options{
		Dir:       o.Dir,
		Create:    o.Create,
		ReadOnly:  o.ReadOnly,
		Log:       o.Log,
		Handles:   handles,
		Profile:   "geth-1.17-v2",
		Overrides: maps.Clone(o.Overrides),
	}

	group, e = triedb.DefaultBinTrieGroupDepth, pebble2.Engine{}
	if text, given := o.Overrides[groupOption]; given {
		n, err := strconv.Atoi(text)
		if group = n; err != nil || n < 1 || n > bintrie.MaxGroupDepth {
			errs = append(errs,
				engine.Fail(engine.CodeOption,
					"option %s=%s is illegal: from 1 to %d (example: %s=5)", groupOption, text,
					bintrie.MaxGroupDepth, groupOption))
		}
	}

	switch text, given := o.Overrides[pebbleOption]; {
	case given && text == "1":
		e, on.Profile = pebble1.Engine{}, "geth-1.17-v1"
	case given && text != "2":
		errs = append(errs,
			engine.Fail(engine.CodeOption, "option %s=%s is illegal: 1 or 2 (example: %s=2)",
				pebbleOption, text, pebbleOption))
	}

	delete(on.Overrides, groupOption)
	delete(on.Overrides, pebbleOption)
	return group, e, on, append(errs, e.Check(on)...)
}

// openBinary opens the store of a binary trie.
func (c *chain) openBinary(ctx context.Context, o layout.Options) (ethdb.KeyValueStore, error) {
	group, e, on, errs := binaryStore(o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	on.MemoryBytes = c.split.pebbleBytes
	kv, err := openStore(ctx, e, on)
	if err != nil {
		return nil, err
	}

	c.group, c.engine = group, kv.db
	c.settle = func(ctx context.Context) error { return kv.db.Settle(ctx, nil) }
	return kv, nil
}

// addressOf is the address that stands for an account's name.
func addressOf(account layout.Hash) (a common.Address) {
	copy(a[:], account[:])
	for i, b := range account[len(a):] {
		a[i] ^= b
	}
	return a
}

// maxBalance is how many bytes of a balance the trie has room for.
const maxBalance = 16

// changeBinary is change in a binary trie.
func (b *block) changeBinary(c layout.Change) error {
	address := addressOf(c.Account)
	old, err := b.binary.GetAccount(address)
	if err != nil {
		return err
	}

	if c.New == nil {
		switch {
		case old == nil:
			return nil
		case layout.Hash(old.CodeHash) != layout.EmptyCode:
			return errors.New("a binary trie cannot delete an account that has code: nothing in " +
				"it leads to all slots of an account")
		}

		return b.binary.DeleteAccount(address)
	}

	if len(bytes.TrimLeft(c.New.Balance[:], "\x00")) > maxBalance {
		return fmt.Errorf("a balance of more than %d bytes: a binary trie has no room for it",
			maxBalance)
	}

	codeBytes, err := b.codeBytes(address)
	if err != nil {
		return err
	}

	if c.Code != nil {
		codeBytes = len(c.Code)
	}

	account := &types.StateAccount{
		Nonce:    c.New.Nonce,
		Balance:  new(uint256.Int).SetBytes32(c.New.Balance[:]),
		CodeHash: bytes.Clone(c.New.CodeHash[:]),
	}

	if err := b.binary.UpdateAccount(address, account, codeBytes); err != nil {
		return err
	}

	if c.Code != nil {
		if err := b.binary.UpdateContractCode(address, common.Hash(c.New.CodeHash),
			c.Code); err != nil {
			return err
		}
	}

	for _, slot := range c.Slots {
		if len(slot.Value) == 0 {
			err = b.binary.DeleteStorage(address, slot.Key[:])
		} else {
			err = b.binary.UpdateStorage(address, slot.Key[:], slot.Value)
		}

		if err != nil {
			return fmt.Errorf("slot %x: %w", slot.Key, err)
		}
	}

	return nil
}

// codeBytes is how long an account's code is so far.
func (b *block) codeBytes(address common.Address) (int, error) {
	data, err := b.binary.GetWithHashedKey(bintrie.GetBinaryTreeKeyBasicData(address))
	if err != nil || len(data) == 0 {
		return 0, err
	}
	return int(binary.BigEndian.Uint32(data[bintrie.BasicDataCodeSizeOffset-1:])), nil
}

// endBinary makes the root, which hashes every branch and stem that changed, and then the values
// of the database.
func (b *block) endBinary() (common.Hash, error) {
	before := cpuNanos()
	b.binary.Hash()
	b.chain.hashNanos.Add(cpuNanos() - before)
	root, nodes := b.binary.Commit(false)
	return root, b.merge(nodes)
}

// cpuNanos is the processor time of this process so far.
func cpuNanos() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// binaryReader walks from the root for every lookup. It reads nodes as go-ethereum does, through
// the path scheme and its clean cache, and decodes of each what leads on: a trie of go-ethereum's
// own would decode a node whole, and would take 25 MB for the first stem (version 1.17.10 makes
// room for 4,096 stems at once), which a node pays once a block.
type binaryReader struct {
	chain *chain // nil once it is closed
	root  common.Hash
	at    database.NodeReader
	nodes int64
	bytes int64 // of those
}

func (r *binaryReader) Refresh() (err error) {
	if r.chain == nil {
		return errReaderClosed
	}
	r.root = r.chain.head.Load().root
	if r.at, err = r.chain.tries.NodeReader(r.root); err != nil {
		return fmt.Errorf("%s: read at root %x: %w", r.chain.layout.name, r.root, err)
	}
	return nil
}

// Database values as trie/bintrie/store_commit.go writes them:
//
//	group: 2, levels, a bit for each place of its last level, 3 bits for each set one (its depth
//	  in the group, less one), and the hashes in that order
//	stem: 1, 31 bytes, a bit for each of 256 leaves, and the leaves
const (
	stemNode  = 1
	groupNode = 2
	leafBytes = 32
	stemHead  = 1 + bintrie.StemSize + bintrie.StemBitmapSize
)

var errNode = errors.New("it is no node of a binary trie")

// stem is the value of the stem that key leads to; nil: there is none.
func (r *binaryReader) stem(key []byte) ([]byte, error) {
	if r.chain == nil {
		return nil, errReaderClosed
	}

	hash, depth := r.root, 0
	for hash != (common.Hash{}) {
		path := new(bintrie.BitArray).SetBytes(uint8(depth), key)
		node, err := r.at.Node(common.Hash{}, path.KeyBytes(), hash)
		if err == nil && (len(node) < 2 || node[0] == stemNode && len(node) < stemHead) {
			err = errNode
		}

		if err != nil {
			return nil, fmt.Errorf("%s: read the node of the first %d bits of %x: %w",
				r.chain.layout.name, depth, key, err)
		}

		r.nodes, r.bytes = r.nodes+1, r.bytes+int64(len(node))
		if node[0] == stemNode {
			if !bytes.Equal(node[1:1+bintrie.StemSize], key[:bintrie.StemSize]) {
				return nil, nil
			}
			return node, nil
		}

		down := 0
		if hash, down, err = child(node, key, depth); err != nil {
			return nil, fmt.Errorf("%s: the node of the first %d bits of %x: %w",
				r.chain.layout.name, depth, key, err)
		}

		depth += down
	}

	return nil, nil
}

// child is the hash of the node below a group that key leads to, and how many levels below the
// group's first it is; the zero hash: there is none.
func child(group, key []byte, depth int) (hash common.Hash, down int, err error) {
	levels := int(group[1])
	begin := 2 + max(1, 1<<levels/8)
	if group[0] != groupNode || levels < 1 || levels > bintrie.MaxGroupDepth ||
		depth >= 8*bintrie.StemSize || len(group) < begin {
		return hash, 0, errNode
	}

	places, rest := group[2:begin], group[begin:]
	children := setBits(places, 8*len(places))
	depths := (3*children + 7) / 8
	if len(rest) != depths+leafBytes*children {
		return hash, 0, errNode
	}

	way := int(binary.BigEndian.Uint16(key[depth/8:])) >> (16 - depth%8 - levels) & (1<<levels - 1)
	for down = 1; down <= levels; down++ {
		place := way >> (levels - down) << (levels - down)
		if places[place/8]>>(7-place%8)&1 == 0 {
			continue
		}

		n := setBits(places, place)
		if stored := binary.BigEndian.Uint16(rest[3*n/8:]) >> (13 - 3*n%8) & 7; int(stored)+
			1 == down {
			return common.Hash(rest[depths+leafBytes*n:][:leafBytes]), down, nil
		}
	}

	return common.Hash{}, 0, nil
}

// setBits are those of the first n bits that are set.
func setBits(of []byte, n int) (set int) {
	for _, b := range of[:n/8] {
		set += bits.OnesCount8(b)
	}
	if n%8 > 0 {
		set += bits.OnesCount8(of[n/8] >> (8 - n%8))
	}
	return set
}

// leaf is one of the 256 leaves of a stem; nil: it was never written.
func leaf(stem []byte, n byte) ([]byte, error) {
	if stem == nil {
		return nil, nil
	}

	there := stem[1+bintrie.StemSize : stemHead]
	if len(stem) != stemHead+leafBytes*setBits(there, 8*len(there)) {
		return nil, errNode
	}

	if there[n/8]>>(7-n%8)&1 == 0 {
		return nil, nil
	}

	return stem[stemHead+leafBytes*setBits(there, int(n)):][:leafBytes], nil
}

// Account is absent where its leaves were never written, or were overwritten with zeros when it
// was deleted.
func (r *binaryReader) Account(account layout.Hash) (layout.Account, bool, error) {
	stem, err := r.stem(bintrie.GetBinaryTreeKeyBasicData(addressOf(account)))
	if err != nil {
		return layout.Account{}, false, err
	}

	data, err := leaf(stem, bintrie.BasicDataLeafKey)
	code, codeErr := leaf(stem, bintrie.CodeHashLeafKey)
	if err = errors.Join(err, codeErr); err != nil || data == nil || code == nil ||
		common.Hash(data) == (common.Hash{}) && common.Hash(code) == (common.Hash{}) {
		return layout.Account{}, false, err
	}

	a := layout.Account{
		Nonce:    binary.BigEndian.Uint64(data[bintrie.BasicDataNonceOffset:]),
		CodeHash: layout.Hash(code),
	}

	copy(a.Balance[len(a.Balance)-maxBalance:], data[bintrie.BasicDataBalanceOffset:])
	return a, true, nil
}

// Slot of value 0 is absent: it was deleted.
func (r *binaryReader) Slot(account, key layout.Hash, dst []byte) ([]byte, bool, error) {
	value, err := r.leafOf(bintrie.GetBinaryTreeKeyStorageSlot(addressOf(account), key[:]))
	value = bytes.TrimLeft(value, "\x00")
	return append(dst[:0], value...), err == nil && len(value) > 0, err
}

// CodeChunk is what of an account's code is in leaf n, behind a byte that says how much of it
// belongs to the instruction before.
func (r *binaryReader) CodeChunk(account layout.Hash, n uint64, dst []byte) ([]byte, bool, error) {
	var offset layout.Hash
	binary.BigEndian.PutUint64(offset[24:], bintrie.CodeOffset.Uint64()+n)
	chunk, err := r.leafOf(bintrie.GetBinaryTreeKey(addressOf(account), offset[:]))
	if err != nil || chunk == nil {
		return dst[:0], false, err
	}
	return append(dst[:0], chunk[1:]...), true, nil
}

func (r *binaryReader) leafOf(key []byte) ([]byte, error) {
	stem, err := r.stem(key)
	if err != nil {
		return nil, err
	}
	return leaf(stem, key[bintrie.StemSize])
}

func (r *binaryReader) Touched() layout.Touched {
	nodes, bytes := r.nodes, r.bytes
	return layout.Touched{Nodes: &nodes, Bytes: &bytes}
}

func (r *binaryReader) Close() error {
	r.chain = nil
	return nil
}
