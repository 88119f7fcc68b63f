package blockbased

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// prefixIndex leads from the prefix of a key to the data blocks that have such keys (index type
// kHashSearch): each bucket has the blocks, ascending, of the prefixes that fall into it. (Source:
// RocksDB's table/block_based/block_prefix_index.cc.)
type prefixIndex [][]uint32

// readPrefixIndex reads the prefixes, one after the other, and of each its length, its first block
// and how many blocks it has.
func (t *table) readPrefixIndex(prefixes, metadata handle) error {
	if prefixes.Bytes == 0 || metadata.Bytes == 0 {
		return nil // then RocksDB searches the index as it does others
	}

	var in buffer
	content, err := t.decode(metadata, &in)
	if err != nil {
		return err
	}

	type spanned struct{ length, first, blocks uint64 }
	var all []spanned
	for rest := bytes.Clone(content); len(rest) > 0; {
		var numbers [3]uint64
		for i := range numbers {
			n, width := binary.Uvarint(rest)
			if width <= 0 || n > uint64(len(t.Data)) && i > 0 {
				return t.Damaged(metadata, "damaged hash index")
			}
			numbers[i], rest = n, rest[width:]
		}

		all = append(all, spanned{numbers[0], numbers[1], numbers[2]})
	}

	if content, err = t.decode(prefixes, &in); err != nil {
		return err
	}

	t.prefixes = make(prefixIndex, len(all)+1)
	for _, p := range all {
		if p.length > uint64(len(content)) || p.first+p.blocks > uint64(len(t.Data)) {
			return t.Damaged(prefixes, "damaged hash index")
		}

		bucket := t.prefixes.bucket(content[:p.length])
		content = content[p.length:]
		for block := uint32(p.first); block < uint32(p.first+p.blocks); block++ {
			if n := len(*bucket); n == 0 || (*bucket)[n-1] < block {
				*bucket = append(*bucket, block)
			}
		}
	}

	return nil
}

func (x prefixIndex) bucket(prefix []byte) *[]uint32 {
	return &x[hashOld(prefix, 0, true)%uint32(len(x))]
}

// firstBlock is the data block where a search for the key begins; len(t.Data): it is in none.
func (w *Walker) firstBlock(t *table) (int, error) {
	rank := seek(&t.Separators, t.beyond, w.key) // separators below the key
	if t.prefixes == nil || !t.samePrefixes {
		return rank, nil
	}

	prefix, is := w.r.reading.prefix(w.key)
	if !is {
		return 0, errors.New("a key is shorter than the prefixes of a hash index")
	}

	blocks := *t.prefixes.bucket(prefix)
	if len(blocks) == 0 {
		return len(t.Data), nil
	}

	i, _ := slices.BinarySearch(blocks, uint32(rank))
	if i == len(blocks) {
		// All keys of the bucket are below: the block behind them counts where it may hold the key.
		if next := int(blocks[i-1]) + 1; next == rank {
			return next, nil
		}
		return len(t.Data), nil
	}

	block := int(blocks[i])
	before := block - 1
	if block > 0 && (i == 0 || int(blocks[i-1]) != before) && before >= rank &&
		!(t.userKeys && bytes.Equal(t.Separators.At(before), w.key)) {
		return len(t.Data), nil // the key belongs to a block of other prefixes
	}

	return block, nil
}
