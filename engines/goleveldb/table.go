package goleveldb

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// trailerBytes follow every block: its compression and its checksum.
const trailerBytes = 5

var errDamaged = engine.Fail(engine.CodeDamaged, "not a whole LevelDB table").
	WithRemedy("copy the whole folder again while the program that owns it is stopped, or let " +
		"that program repair it")

// asDamaged is an error of reading a table that says what it means for the database.
func asDamaged(err error) error {
	_, explained := errors.AsType[*engine.Failure](err)
	_, ofFile := errors.AsType[*fs.PathError](err)
	if err == nil || explained || ofFile {
		return err
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// withTable calls read with the table at path.
func withTable(path string, read func(*blockbased.Table) error) error {
	t, err := blockbased.OpenTable(path)
	if err != nil {
		return asDamaged(err)
	}
	return errors.Join(read(t), t.Close())
}

// learner reads the anatomy of tables: footer, index, and a few data blocks.
// blockSize is that of the options: it decides on the size of buffers.
func learner(blockSize int) blockio.LayoutReader {
	return func(path string) (anatomy *blockio.TableLayout, err error) {
		err = withTable(path, func(t *blockbased.Table) error {
			sample, err := sampleOf(t)
			if err != nil {
				return err
			}

			offset, index, err := t.Index()
			if err != nil {
				return err
			}

			anatomy, err = blockio.NewTableLayout(t.Blocks(), t.Bytes, sample.entries,
				map[uint64]int64{offset: int64(index)})
			if err != nil {
				return err
			}

			charge := func(kind engine.BlockType, contentBytes int64) {
				anatomy.DecodedBytes[kind] = int64(blockbased.Buffer(int(contentBytes), blockSize))
			}
			charge(engine.SingleIndex, int64(index))
			if filter := anatomy.Blocks[engine.Filter]; filter.Count > 0 {
				charge(engine.Filter, filter.Bytes)
			}

			charge(engine.Data, sample.blockBytes)
			anatomy.DecodedBytes[engine.Data] *= int64(t.DataBlocks())
			return nil
		})

		return anatomy, asDamaged(err)
	}
}

// sampledBlocks are read of each table, besides the last.
const sampledBlocks = 3

// sampled is what a few data blocks tell about all.
type sampled struct {
	entries    uint64
	blockBytes int64 // of a typical block in its buffer, before rounding
}

// sampleOf estimates the number of entries, which LevelDB tables do not tell: blocks
// are cut by size, so all but the last hold about as many.
func sampleOf(t *blockbased.Table) (s sampled, err error) {
	if t.DataBlocks() == 0 {
		return s, nil
	}

	last := t.DataBlocks() - 1
	keys, _, err := t.Versions(last)
	if err != nil {
		return s, err
	}

	s.entries = uint64(len(keys))
	n := min(sampledBlocks, last)
	var entries, bytes int
	for i := range n {
		keys, buffered, err := t.Versions(i * last / n)
		if err != nil {
			return s, err
		}
		entries, bytes = entries+len(keys), bytes+buffered
	}

	if n > 0 {
		s.entries += uint64(float64(entries)/float64(n)*float64(last) + 0.5)
		s.blockBytes = int64(bytes / n)
	}

	return s, nil
}

// boundsOf are the first and last user key.
func boundsOf(t *blockbased.Table) (first, last []byte, err error) {
	if t.DataBlocks() == 0 {
		return nil, nil, errDamaged
	}

	head, _, err := t.Versions(0)
	if err != nil {
		return nil, nil, err
	}

	tail, _, err := t.Versions(t.DataBlocks() - 1)
	if err != nil {
		return nil, nil, err
	}

	return head[0].Key, tail[len(tail)-1].Key, nil
}
