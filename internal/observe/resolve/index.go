package resolve

import (
	"errors"
	"fmt"
	"math"
	"slices"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/sstable/rowblk"
)

// indexIter is what the index blocks of both layouts are read with.
type indexIter interface {
	First() bool
	Next() bool
	Separator() []byte
	BlockHandleWithProperties() (block.HandleWithProperties, error)
}

func (t *table) readIndex(layout *sstable.Layout, userProperties map[string]string) error {
	var err error
	obsolete, err := newObsoleteProperty(userProperties)
	if err != nil {
		return err
	}

	t.allObsolete = t.hidesObsolete && obsolete.ofTable
	t.Data = make([]handle, 0, len(layout.Data))
	if layout.TopIndex.Length == 0 {
		if len(layout.Index) != 1 {
			return fmt.Errorf("%d index blocks, no top index", len(layout.Index))
		}

		if t.Root, err = newHandle(layout.Index[0]); err != nil {
			return err
		}

		if err := t.readDataHandles(t.Root, obsolete); err != nil {
			return err
		}
	} else {
		if t.Root, err = newHandle(layout.TopIndex); err != nil {
			return err
		}

		err := t.eachIndexEntry(t.Root, func(
			separator []byte, entry block.HandleWithProperties,
		) error {
			partition, err := newHandle(entry.Handle)
			if err != nil {
				return err
			}

			if err := t.readDataHandles(partition, obsolete); err != nil {
				return err
			}

			return t.EndPartition(partition, separator)
		})
		if err != nil {
			return err
		}
	}

	t.Separators.Finish()
	if len(t.Data) != len(layout.Data) {
		return fmt.Errorf("%d data blocks in the index, %d in Pebble's own layout", len(t.Data),
			len(layout.Data))
	}

	t.FirstData = fixedNumbers + uint32(len(t.Partitions))
	return nil
}

// readDataHandles appends the entries of an index block.
func (t *table) readDataHandles(index handle, obsolete obsoleteProperty) error {
	return t.eachIndexEntry(index, func(separator []byte, entry block.HandleWithProperties) error {
		h, err := newHandle(entry.Handle)
		if err != nil {
			return err
		}

		if t.Separators.Bytes()+len(separator) > math.MaxUint32 {
			return errors.New("more than 4 GiB of separators")
		}

		excluded, err := obsolete.of(entry.Props)
		if err != nil {
			return err
		}

		if excluded && t.hidesObsolete && t.excluded == nil {
			t.excluded = make([]bool, len(t.Data), cap(t.Data))
		}

		if t.excluded != nil {
			t.excluded = append(t.excluded, excluded)
		}

		t.Separators.Add(separator)
		t.Data = append(t.Data, h)
		return nil
	})
}

func (t *table) eachIndexEntry(
	index handle, visit func(separator []byte, entry block.HandleWithProperties) error,
) error {
	content, err := t.decode(index, new(buffer))
	if err != nil {
		return err
	}

	var entries indexIter
	if t.columnar {
		columns := &colblk.IndexIter{}
		entries, err = columns, columns.Init(pebble2.DefaultComparer, content, block.NoTransforms)
	} else {
		rows := &rowblk.IndexIter{}
		entries, err = rows, rows.Init(pebble2.DefaultComparer, content, block.NoTransforms)
	}

	if err != nil {
		return fmt.Errorf("read index block at %d: %w", index.Offset, err)
	}

	for valid := entries.First(); valid; valid = entries.Next() {
		entry, err := entries.BlockHandleWithProperties()
		if err != nil {
			return fmt.Errorf("read index block at %d: %w", index.Offset, err)
		}

		if err := visit(entries.Separator(), entry); err != nil {
			return err
		}
	}

	return nil
}

func (t *table) twoLevels() bool { return len(t.Partitions) > 0 }

// partitionExcluded: all its data blocks are.
func (t *table) partitionExcluded(p int) bool {
	if t.excluded == nil {
		return false
	}
	start := 0
	if p > 0 {
		start = int(t.PartitionEnds[p-1])
	}
	return !slices.Contains(t.excluded[start:t.PartitionEnds[p]], false)
}
