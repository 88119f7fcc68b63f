package memiavl

import (
	"encoding/binary"
	"fmt"

	"github.com/crypto-org-chain/cronos/memiavl"

	"github.com/statelab/statelab/tree"
)

// shapeOf reads a tree's size and height from the proof of one of its keys:
// memiavl keeps the root node to itself, but the last step of a proof is the root
// and starts with its height and size.
func shapeOf(t *memiavl.Tree) (tree.StoreShape, error) {
	keys := t.Iterator(nil, nil, true)
	if !keys.Valid() {
		return tree.StoreShape{}, keys.Close()
	}
	proof, err := t.GetMembershipProof(keys.Key())
	if err != nil {
		return tree.StoreShape{}, err
	}
	steps := proof.GetExist().GetPath()
	if len(steps) == 0 {
		return tree.StoreShape{Leaves: 1}, keys.Close()
	}
	root := steps[len(steps)-1].GetPrefix()
	height, n := binary.Varint(root)
	leaves, m := binary.Varint(root[max(n, 0):])
	if n <= 0 || m <= 0 {
		return tree.StoreShape{}, fmt.Errorf("the proof's last step %x does not start with two numbers", root)
	}
	return tree.StoreShape{Leaves: leaves, Height: int(height)}, keys.Close()
}
