package blockio

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/statelab/statelab/engine"
)

// Block is one block of a table: where it lies and what it holds.
type Block struct {
	Type   engine.BlockType
	Offset uint64
	Length uint64 // without its trailer
}

// BlockMap says what lies at each offset of a table. Neighbouring blocks of one
// type are merged, so that it stays a handful of ranges for any size of table.
type BlockMap struct {
	starts []int64 // ascending; the first is 0
	types  []engine.BlockType
}

// NewBlockMap makes a map of the blocks of a table. What lies behind the last
// block (the footer) is Meta, as is a table without blocks.
func NewBlockMap(blocks []Block, tableBytes int64) (*BlockMap, error) {
	// The blocks of a table mostly come in order, and they are millions.
	byOffset := func(a, b Block) int { return cmp.Compare(a.Offset, b.Offset) }
	if !slices.IsSortedFunc(blocks, byOffset) {
		blocks = slices.SortedFunc(slices.Values(blocks), byOffset)
	}
	l := &BlockMap{}
	var end uint64
	for _, b := range blocks {
		if b.Length == 0 {
			continue
		}
		if b.Offset < end || b.Offset+b.Length < b.Offset || b.Offset+b.Length > uint64(tableBytes) {
			return nil, fmt.Errorf("%v block at %d, length %d: outside the table of %d bytes, or over the block before it",
				b.Type, b.Offset, b.Length, tableBytes)
		}
		end = b.Offset + b.Length
		if n := len(l.types); n > 0 && l.types[n-1] == b.Type {
			continue
		}
		l.starts, l.types = append(l.starts, int64(b.Offset)), append(l.types, b.Type)
	}
	if len(l.starts) == 0 || l.types[len(l.types)-1] != engine.Meta {
		l.starts, l.types = append(l.starts, int64(end)), append(l.types, engine.Meta)
	}
	l.starts[0] = 0
	return l, nil
}

// TypeAt returns the type of the block that holds offset. It is called once
// per block read: a map has at most about eight ranges, so a walk from the
// front, where the data lies, beats a binary search.
func (l *BlockMap) TypeAt(offset int64) engine.BlockType {
	i := 1
	for i < len(l.starts) && l.starts[i] <= offset {
		i++
	}
	return l.types[i-1]
}
