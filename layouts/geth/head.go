package geth

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/ethdb"
)

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
