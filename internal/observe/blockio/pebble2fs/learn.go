package pebble2fs

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	"github.com/cockroachdb/pebble/v2/sstable/block"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Learn reads the anatomy of the table at path: all its index blocks and a few
// data blocks. It uses neither the caches nor the descriptors of a database. It
// knows all tables of v1, too, but those that RocksDB wrote with range deletions.
func Learn(path string) (*blockio.TableLayout, error) {
	return LayoutReader(dbformat.KeptByPebble{})(path)
}

// LayoutReader is Learn for the tables of a database that says of itself what kept has.
func LayoutReader(kept dbformat.KeptByPebble) blockio.LayoutReader {
	return LayoutReaderOf(blockio.OpenLearning, TableOptions(kept))
}

// LayoutReaderOf is Learn for tables that open opens and that are read with options.
func LayoutReaderOf(
	open func(path string) (*blockio.LearningFile, error), options sstable.ReaderOptions,
) blockio.LayoutReader {
	return func(path string) (*blockio.TableLayout, error) {
		file, err := open(path)
		if err != nil {
			return nil, err
		}

		if filepath.Ext(path) == blockio.ValuesExt {
			return learnValues(file)
		}

		return learn(file, options)
	}
}

// NamedOptions read the layouts of tables of v1 with a comparer and a merger of these names: no key
// is compared or merged meanwhile.
func NamedOptions(comparer, merger string) (o sstable.ReaderOptions) {
	order := *pebble.DefaultComparer
	order.Name = comparer
	o.Comparer, o.Merger = &order, &pebble.Merger{Name: merger}
	return o
}

// TableOptions are those that tables of a database are read with by themselves.
func TableOptions(kept dbformat.KeptByPebble) (o sstable.ReaderOptions) {
	if kept.Merger != "" {
		o.Merger = unmerged(kept)
	}
	return o
}

func learn(
	file *blockio.LearningFile, options sstable.ReaderOptions,
) (anatomy *blockio.TableLayout, err error) {
	reader, err := sstable.NewReader(context.Background(), readable{file}, options)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	defer func() { err = errors.Join(err, reader.Close()) }()
	layout, err := reader.Layout()
	if err != nil {
		return nil, err
	}

	properties, err := reader.ReadPropertiesBlock(context.Background(), nil)
	if err != nil {
		return nil, err
	}

	if anatomy, err = file.TableLayout(blocksOf(layout), properties.NumEntries); err != nil {
		return nil, err
	}

	anatomy.Ranges = properties.NumRangeDeletions
	return anatomy, nil
}

// learnValues reads where the values of a blob file end and its one index begins.
func learnValues(file *blockio.LearningFile) (anatomy *blockio.TableLayout, err error) {
	ctx := context.Background()
	reader, err := blob.NewFileReader(ctx, readable{file}, blob.FileReaderOptions{})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	defer func() { err = errors.Join(err, reader.Close()) }()
	index, err := reader.ReadIndexBlock(ctx, block.NoReadEnv, nil)
	if err != nil {
		return nil, err
	}

	index.Release()
	at := reader.IndexHandle()
	return file.TableLayout([]blockio.Block{
		{Type: engine.Value, Length: at.Offset - min(at.Offset, block.TrailerLen)},
		{Type: engine.SingleIndex, Offset: at.Offset, Length: at.Length},
	}, 0)
}

func blocksOf(l *sstable.Layout) []blockio.Block {
	blocks := make([]blockio.Block, 0, len(l.Data)+len(l.Index)+len(l.ValueBlock)+8)
	add := func(kind engine.BlockType, b block.Handle) {
		if b.Length > 0 {
			blocks = append(blocks, blockio.Block{Type: kind, Offset: b.Offset, Length: b.Length})
		}
	}

	for _, b := range l.Data {
		add(engine.Data, b.Handle)
	}

	indexType := engine.SingleIndex
	if l.TopIndex.Length > 0 {
		indexType = engine.Index
	}

	for _, b := range l.Index {
		add(indexType, b)
	}

	add(engine.TopIndex, l.TopIndex)
	for _, b := range l.Filter {
		add(engine.Filter, b.Handle)
	}

	for _, b := range l.ValueBlock {
		add(engine.Value, b)
	}

	add(engine.Value, l.ValueIndex)
	add(blockio.RangeDeletion, l.RangeDel)
	for _, b := range []block.Handle{l.RangeKey, l.BlobReferenceIndex, l.Properties, l.MetaIndex,
		l.Footer} {
		add(engine.Meta, b)
	}

	return blocks
}

// readable completes a LearningFile to what v2 reads tables from.
type readable struct{ *blockio.LearningFile }

func (r readable) NewReadHandle(objstorage.ReadBeforeSize) objstorage.ReadHandle {
	handle := objstorage.MakeNoopReadHandle(r)
	return &handle
}
