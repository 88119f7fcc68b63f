package blockio

import (
	"fmt"

	"github.com/statelab/statelab/engine"
)

// Anatomy is what a table says about itself.
type Anatomy struct {
	Map *BlockMap
	// Blocks are the number of blocks of each type and their bytes on disk,
	// trailers included.
	Blocks [engine.NumBlockTypes]engine.Tally
	// DecodedBytes are the decompressed bytes of filters and indexes, exact, and
	// of the data, estimated from a few blocks.
	DecodedBytes [engine.NumBlockTypes]int64
	Entries      uint64 // keys, deletions and older versions included
	TableBytes   int64
}

// trailerBytes follow every block: one for the compression, four of checksum.
const trailerBytes = 5

// newAnatomy makes an anatomy from the blocks of a table and the decompressed
// size, by offset, of those that were read.
func newAnatomy(blocks []Block, tableBytes int64, entries uint64, decoded map[uint64]int64) (*Anatomy, error) {
	layout, err := NewBlockMap(blocks, tableBytes)
	if err != nil {
		return nil, err
	}
	a := &Anatomy{Map: layout, Entries: entries, TableBytes: tableBytes}
	var sampledBytes, sampledDecoded int64
	for _, b := range blocks {
		onDisk := int64(b.Length) + trailerBytes
		a.Blocks[b.Type] = a.Blocks[b.Type].Add(engine.Tally{Count: 1, Bytes: onDisk})
		bytes, read := decoded[b.Offset]
		switch b.Type {
		case engine.TopIndex, engine.Index, engine.SingleIndex:
			if !read {
				return nil, fmt.Errorf("%v block at %d: not read while learning", b.Type, b.Offset)
			}
			a.DecodedBytes[b.Type] += bytes
		case engine.Filter: // never compressed
			a.DecodedBytes[b.Type] += int64(b.Length)
		case engine.Data:
			if read {
				sampledBytes, sampledDecoded = sampledBytes+onDisk, sampledDecoded+bytes
			}
		}
	}
	if sampledBytes > 0 {
		growth := float64(sampledDecoded) / float64(sampledBytes)
		a.DecodedBytes[engine.Data] = int64(growth * float64(a.Blocks[engine.Data].Bytes))
	}
	return a, nil
}
