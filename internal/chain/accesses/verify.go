package accesses

import (
	"fmt"
	"io"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// Verify reads a list to its end. Of a complete one it makes the state in reference, which is empty,
// and holds its root against each block's.
func Verify(s Source, reference *mpt.Reference, told func(block uint64) error) (blocks, roots uint64, err error) {
	player := NewPlayer(s.Info())
	var b Block
	for {
		if err := s.Next(&b); err == io.EOF {
			return blocks, roots, nil
		} else if err != nil {
			return blocks, roots, err
		}
		if err := told(b.Number); err != nil {
			return blocks, roots, err
		}
		blocks++
		if !s.Info().Complete {
			continue
		}
		if len(b.Before) > 0 && blocks > 1 {
			return blocks, roots, fmt.Errorf("block %d tells of the state before the list, "+
				"which the first block has told in full: import the list again from genesis.json and lists of one chain", b.Number)
		}
		if blocks == 1 {
			player.Before(&b)
			for _, c := range player.Initial() {
				if err := reference.Change(c); err != nil {
					return blocks, roots, err
				}
			}
		}
		changes, err := player.Changes(&b)
		if err != nil {
			return blocks, roots, err
		}
		for _, c := range changes {
			if err := reference.Change(c); err != nil {
				return blocks, roots, fmt.Errorf("block %d: %w", b.Number, err)
			}
		}
		if b.Root == nil {
			continue
		}
		roots++
		if root := reference.Root(); root != *b.Root {
			return blocks, roots, fmt.Errorf("block %d: what it writes makes the state root %v, its header says %v: "+
				"the list leaves out a change, or is of another chain; import it again from the node that has this block", b.Number, Word(root), *b.Root)
		}
	}
}
