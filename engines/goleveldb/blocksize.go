package goleveldb

import (
	"cmp"
	"math/bits"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/internal/observe/blockbased"
)

// writtenBlockSize is the BlockSize of the program that wrote the newest tables in dir. It decides
// on the buffers that blocks are read into, and so on what a block takes of the cache, and stands
// in no file. assumed is what it is where the tables contradict it nowhere, or do not tell.
func writtenBlockSize(dir string, assumed int) int {
	tables, _ := filepath.Glob(filepath.Join(dir, "*.ldb")) // the pattern is sound
	older, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	slices.SortFunc(tables, func(a, b string) int { return cmp.Compare(b, a) })

	const newest = 3
	all := append(tables, older...)
	for _, path := range all[:min(newest, len(all))] {
		size := 0
		err := withTable(path, func(t *blockbased.Table) (err error) {
			size, err = blockSizeOf(t, assumed)
			return err
		})
		if err == nil && size > 0 {
			return size
		}
	}

	return assumed
}

// blockSizeOf is that of the program that wrote a table; 0: the table does not tell. A block is
// closed by the entry that reaches the size, so blocks are larger than it, by less than an entry.
func blockSizeOf(t *blockbased.Table, assumed int) (int, error) {
	const fewest = 4 // entries of a block, of which one is not too large a step
	sample, err := sampleOf(t)
	full := t.DataBlocks() - 1 // the last one is shorter
	if err != nil || full < 1 || sample.blockBytes == 0 {
		return 0, err
	}

	entries := int(sample.entries) / t.DataBlocks()
	if entries < fewest {
		return 0, nil
	}

	largest := int(sample.blockBytes)
	smallest := largest - largest/entries - trailerBytes // of one that is not compressed
	if smallest <= assumed && assumed <= largest {
		return assumed, nil
	}

	if power := 1 << (bits.Len(uint(largest)) - 1); power >= smallest {
		return power, nil
	}

	return smallest, nil
}
