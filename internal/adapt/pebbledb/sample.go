package pebbledb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/sstable/rowblk"
	"github.com/cockroachdb/pebble/v2/sstable/valblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// ReadOnlyDB is a second, read-only view of the files of an open database, with a
// cache of its own: looking there leaves counters and cache of the first alone.
type ReadOnlyDB interface {
	Has(key []byte) (bool, error)
	Close() error
}

// NewReadOnlyDB makes a ReadOnlyDB of an open database.
func NewReadOnlyDB(db Getter, notFound error) ReadOnlyDB { return readOnlyDB{db, notFound} }

// Getter is a database of either version, opened for reading.
type Getter interface {
	Get(key []byte) ([]byte, io.Closer, error)
	Close() error
}

type readOnlyDB struct {
	Getter
	notFound error
}

func (a readOnlyDB) Has(key []byte) (bool, error) {
	_, closer, err := a.Get(key)
	if errors.Is(err, a.notFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

// AsideCacheBytes is the cache of a ReadOnlyDB.
const AsideCacheBytes = 32 << 20

// SampleKeys calls yield with n keys (fewer where nearly all are deleted).
//
// A draw chooses a table by its number of entries, one of its data blocks, and an
// entry of that block. Blocks of few entries (of large values) are refused as
// often as they have fewer than the fullest block seen of the table, so that each
// entry has the same chance, whatever the sizes. What meets a deleted key is drawn again,
// from any table. What bias is left: blocks
// fuller than any of the first few seen come up too seldom; keys with several
// versions come up more often, and keys that are in a memtable alone not at all.
// The same key may come twice.
//
// The tables are read apart from the database, by the reader of v2, which still
// knows the formats of v1: no counter moves and nothing enters the cache. The
// page cache, however, has the sampled blocks afterwards.
func (d *live) SampleKeys(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) error {
	return d.config.table.Sample(ctx, d.config.dir, d.config.adapter, n, seed, d.sampleAll, yield)
}

func (d *live) sampleAll(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) (err error) {
	tables, err := d.version.Tables()
	if err != nil {
		return d.failed("list the tables", err)
	}

	aside, err := d.version.OpenReadOnly(d.config.dir, d.config.kept)
	if err != nil {
		return d.failed("open beside itself", err)
	}

	defer func() { err = errors.Join(err, aside.Close()) }()

	entries := make([]uint64, len(tables))
	for i, t := range tables {
		if a := d.recorder.TableLayout(t.Number); a != nil {
			entries[i] = a.EntriesOf(t)
		}
	}

	var yielding sync.Mutex
	sample := func(draws []int, round uint64, yield func(key []byte) error) error {
		yieldOne := func(key []byte) error {
			yielding.Lock()
			defer yielding.Unlock()
			return yield(key)
		}

		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.NumCPU())
		for i, draws := range draws {
			if draws == 0 {
				continue
			}

			number := tables[i].Number
			group.Go(func() error {
				sampled := adapter.SampledTable{
					Rng:    rand.New(rand.NewPCG(seed+round, uint64(number))),
					Exists: aside.Has,
				}

				if err := sampleTable(ctx, &sampled, d.tablePath(number), d.config.kept, draws,
					yieldOne); err != nil {
					return d.failed(fmt.Sprintf("sample table %06d of", number), err)
				}

				return nil
			})
		}

		return group.Wait()
	}

	_, err = adapter.SampleTables(ctx, entries, n, seed, sample, yield)
	return err
}

func sampleTable(ctx context.Context, sampled *adapter.SampledTable, path string,
	kept dbformat.KeptByPebble, draws int,
	yield func(key []byte) error) (err error) {
	table, err := openSampled(ctx, path, kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // compacted away meanwhile
	}

	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, table.reader.Close()) }()
	sampled.Blocks, sampled.Block = len(table.data),
		func(i int) ([][]byte, error) { return table.readBlock(ctx, i) }
	return sampled.Sample(ctx, draws, yield)
}

// sampledTable is a table whose data blocks can be read one by one.
type sampledTable struct {
	reader *sstable.Reader
	format sstable.TableFormat
	data   []block.HandleWithProperties
}

func openSampled(
	ctx context.Context, path string, kept dbformat.KeptByPebble,
) (*sampledTable, error) {
	file, err := vfs.Default.Open(path)
	if err != nil {
		return nil, err
	}

	source, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	reader, err := sstable.NewReader(ctx, source, pebble2fs.TableOptions(kept))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	layout, err := reader.Layout()
	if err == nil && len(layout.Data) == 0 {
		err = errors.New("a table without data blocks")
	}

	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}

	return &sampledTable{reader: reader, format: layout.Format, data: layout.Data}, nil
}

// readBlock returns the user keys of a block.
func (t *sampledTable) readBlock(ctx context.Context, i int) (keys [][]byte, err error) {
	handle := t.data[i].Handle
	noMetadata := func(*block.Metadata, []byte) error { return nil }
	buffer, err := t.reader.BlockReader().Read(ctx, block.NoReadEnv, nil, handle,
		blockkind.SSTableData, noMetadata)
	if err != nil {
		return nil, fmt.Errorf("data block at %d: %w", handle.Offset, err)
	}

	defer buffer.Release()
	if t.format.BlockColumnar() {
		keys, err = readColumnar(buffer.BlockData())
	} else {
		keys, err = readRows(buffer.BlockData())
	}

	if err == nil && len(keys) == 0 {
		err = errors.New("no keys")
	}

	if err != nil {
		return nil, fmt.Errorf("data block at %d: %w", handle.Offset, err)
	}

	return keys, nil
}

// keyTrailerBytes are the sequence number and the kind behind a key in a row.
const keyTrailerBytes = 8

func readRows(data []byte) (keys [][]byte, err error) {
	rows, err := rowblk.NewRawIter(pebble.DefaultComparer.Compare, data)
	if err != nil {
		return nil, err
	}

	for stored := range rows.All() {
		if len(stored) < keyTrailerBytes {
			return nil, fmt.Errorf("a key of %d bytes, shorter than its trailer", len(stored))
		}
		keys = append(keys, bytes.Clone(stored[:len(stored)-keyTrailerBytes]))
	}

	return keys, rows.Close()
}

func readColumnar(data []byte) (keys [][]byte, err error) {
	schema := colblk.DefaultKeySchema(pebble.DefaultComparer, prefixBundle)
	var decoder colblk.DataBlockDecoder
	decoder.Init(&schema, data)
	var rows colblk.DataBlockIter
	// Values that are elsewhere are asked for by their handles alone, which is all that the
	// iterator wants of a reader; nobody reads them here.
	rows.InitOnce(&schema, pebble.DefaultComparer, new(valblk.Reader))
	if err := rows.Init(&decoder, block.NoTransforms); err != nil {
		return nil, err
	}

	for kv := rows.First(); kv != nil; kv = rows.Next() {
		keys = append(keys, bytes.Clone(kv.K.UserKey))
	}

	return keys, rows.Close()
}

// prefixBundle is what Pebble's own default schema uses.
const prefixBundle = 16
