package pebble1fs

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/bloom"
	"github.com/cockroachdb/pebble/objstorage"
	"github.com/cockroachdb/pebble/sstable"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// Learn reads the anatomy of the table at path: all its index blocks and a few
// data blocks. It uses neither the caches nor the descriptors of a database.
func Learn(path string) (anatomy *blockio.Anatomy, err error) {
	file, err := blockio.OpenLearning(path)
	if err != nil {
		return nil, err
	}
	reader, err := sstable.NewReader(readable{file}, ReaderOptions())
	if err != nil {
		return nil, err // NewReader closed the file
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	layout, err := reader.Layout()
	if err != nil {
		return nil, err
	}
	return file.Anatomy(blocksOf(layout), reader.Properties.NumEntries)
}

// ReaderOptions open a table on its own. Without the filter policy v1 would not
// show where the filter lies.
func ReaderOptions() sstable.ReaderOptions {
	policy := bloom.FilterPolicy(10) // the number of bits matters to writers only
	return sstable.ReaderOptions{Filters: map[string]sstable.FilterPolicy{policy.Name(): policy}}
}

func blocksOf(l *sstable.Layout) []blockio.Block {
	blocks := make([]blockio.Block, 0, len(l.Data)+len(l.Index)+len(l.ValueBlock)+8)
	add := func(kind engine.BlockType, b sstable.BlockHandle) {
		if b.Length > 0 {
			blocks = append(blocks, blockio.Block{Type: kind, Offset: b.Offset, Length: b.Length})
		}
	}
	for _, b := range l.Data {
		add(engine.Data, b.BlockHandle)
	}
	indexType := engine.SingleIndex
	if l.TopIndex.Length > 0 {
		indexType = engine.Index
	}
	for _, b := range l.Index {
		add(indexType, b)
	}
	add(engine.TopIndex, l.TopIndex)
	add(engine.Filter, l.Filter)
	for _, b := range l.ValueBlock {
		add(engine.Value, b)
	}
	add(engine.Value, l.ValueIndex)
	for _, b := range []sstable.BlockHandle{l.RangeDel, l.RangeKey, l.Properties, l.MetaIndex, l.Footer} {
		add(engine.Meta, b)
	}
	return blocks
}

// readable completes a LearningFile to what v1 reads tables from.
type readable struct{ *blockio.LearningFile }

func (r readable) NewReadHandle(context.Context) objstorage.ReadHandle {
	handle := objstorage.MakeNoopReadHandle(r)
	return &handle
}
