package pebbledb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/sstable/rowblk"
	"github.com/cockroachdb/pebble/v2/sstable/valblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/blockio"
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

// SampleKeys calls yield with n keys (fewer where nearly all are deleted), each key that is there
// with the same chance, whatever the sizes and however often it was written: a draw chooses a table
// by its number of entries, one of its data blocks, and an entry of that block
// (adapter.SampledTable). One that is deleted, or that another table has a newer version of
// (adapter.NewestVersions), is drawn again, from any table. Keys that are in a memtable alone are
// not drawn. The same key may come twice.
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
	newest := d.newestVersions(ctx, tables)
	defer func() { err = errors.Join(err, newest.Close()) }()

	weights, ranges := make([]uint64, len(tables)), make([]uint64, len(tables))
	for i, t := range tables {
		if a := d.recorder.TableLayout(t.Number); a != nil {
			// Of a virtual table all entries of its file are drawn, and those that are not its own
			// do not count.
			weights[i], ranges[i] = a.Entries, a.Ranges
		}
	}

	sample := adapter.TableSample{Weights: weights}
	sample.Draw = func(draws []int, round uint64) ([]adapter.Drawn, error) {
		met := make([][]adapter.Drawn, len(tables))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.NumCPU())
		for i, draws := range draws {
			if draws == 0 {
				continue
			}

			group.Go(func() (err error) {
				sampled := adapter.SampledTable{
					Rng:    rand.New(rand.NewPCG(seed+round, uint64(i))),
					Weight: weights[i],
					Others: ranges[i],
					Counts: func(e adapter.SampledEntry) (bool, error) {
						if is, err := newest.Is(i, e); !is || err != nil {
							return false, err
						}
						return aside.Has(e.Key)
					},
				}

				if met[i], err = d.sampleTable(ctx, &sampled, tables[i], draws); err != nil {
					return d.failed(fmt.Sprintf("sample table %06d of", tables[i].Number), err)
				}

				return nil
			})
		}

		err := group.Wait()
		return slices.Concat(met...), err
	}

	_, err = sample.Keys(ctx, n, seed, yield)
	return err
}

func (d *live) sampleTable(
	ctx context.Context, sampled *adapter.SampledTable, t blockio.LiveTable, draws int,
) (met []adapter.Drawn, err error) {
	table, err := openSampled(ctx, d.tablePath(t.Number), d.config.kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // compacted away meanwhile
	}

	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, table.reader.Close()) }()
	if len(table.data) == 0 {
		return nil, nil // nothing but deletions of ranges
	}

	sampled.Blocks = len(table.data)
	sampled.Block = func(i int) ([]adapter.SampledEntry, error) {
		entries, err := table.readBlock(ctx, i)
		for at := range entries {
			entries[at].Version = seqNumOf(t, entries[at].Version)
		}
		return entries, err
	}
	return sampled.Sample(ctx, draws)
}

// seqNumOf is the sequence number of an entry of t that the file has with the number stored. All
// entries of an ingested table have the one that it was given then, which only the manifest tells.
func seqNumOf(t blockio.LiveTable, stored uint64) uint64 {
	if t.SmallestSeqNum == t.LargestSeqNum {
		return t.LargestSeqNum
	}
	return stored
}

func (d *live) newestVersions(
	ctx context.Context, tables []blockio.LiveTable,
) *adapter.NewestVersions {
	listed := make([]adapter.LevelTable, len(tables))
	for i, t := range tables {
		listed[i] = adapter.LevelTable{Level: t.Level, Smallest: t.Smallest, Largest: t.Largest}
	}

	return adapter.NewNewestVersions(listed, func(i int) (adapter.VersionFinder, error) {
		return openSearched(ctx, d.tablePath(tables[i].Number), tables[i], d.config.kept)
	})
}

// searchedTable is a table in which keys are looked up. Its filter is asked on all levels.
type searchedTable struct {
	*sampledTable
	table  blockio.LiveTable
	filter []byte // nil: none
	iter   sstable.Iterator
}

func openSearched(
	ctx context.Context, path string, t blockio.LiveTable, kept dbformat.KeptByPebble,
) (adapter.VersionFinder, error) {
	opened, err := openSampled(ctx, path, kept)
	if err != nil {
		return nil, err
	}

	s := &searchedTable{sampledTable: opened, table: t}
	if s.filter, err = opened.readFilter(ctx); err == nil {
		s.iter, err = opened.reader.NewIter(sstable.NoTransforms, nil, nil,
			sstable.DebugHandlesBlobContext)
	}

	if err != nil {
		return nil, errors.Join(err, opened.reader.Close())
	}

	return s, nil
}

// Newest implements adapter.VersionFinder.
func (s *searchedTable) Newest(key []byte) (seqNum uint64, found bool, err error) {
	if s.filter != nil && !filterPolicy().MayContain(pebble.TableFilter, s.filter, key) {
		return 0, false, nil
	}

	if kv := s.iter.SeekGE(key, 0); kv != nil && bytes.Equal(kv.K.UserKey, key) {
		return seqNumOf(s.table, uint64(kv.K.SeqNum())), true, nil
	}

	return 0, false, s.iter.Error()
}

// Close implements adapter.VersionFinder.
func (s *searchedTable) Close() error { return errors.Join(s.iter.Close(), s.reader.Close()) }

// filterPolicy is the one filter Pebble has; the number of bits matters to writers only.
func filterPolicy() bloom.FilterPolicy { return bloom.FilterPolicy(10) }

// sampledTable is a table whose data blocks can be read one by one.
type sampledTable struct {
	reader   *sstable.Reader
	format   sstable.TableFormat
	data     []block.HandleWithProperties
	filterAt block.Handle
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
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}

	t := &sampledTable{reader: reader, format: layout.Format, data: layout.Data}
	for _, f := range layout.Filter {
		if f.Name == "fullfilter."+filterPolicy().Name() {
			t.filterAt = f.Handle
		}
	}

	return t, nil
}

func noMetadata(*block.Metadata, []byte) error { return nil }

// readFilter returns the filter; nil is none.
func (t *sampledTable) readFilter(ctx context.Context) ([]byte, error) {
	if t.filterAt.Length == 0 {
		return nil, nil
	}

	buffer, err := t.reader.BlockReader().Read(ctx, block.NoReadEnv, nil, t.filterAt,
		blockkind.Filter, noMetadata)
	if err != nil {
		return nil, fmt.Errorf("filter at %d: %w", t.filterAt.Offset, err)
	}

	defer buffer.Release()
	return bytes.Clone(buffer.BlockData()), nil
}

// readBlock returns the entries of a block, with the sequence numbers that the file has.
func (t *sampledTable) readBlock(
	ctx context.Context, i int,
) (entries []adapter.SampledEntry, err error) {
	handle := t.data[i].Handle
	buffer, err := t.reader.BlockReader().Read(ctx, block.NoReadEnv, nil, handle,
		blockkind.SSTableData, noMetadata)
	if err != nil {
		return nil, fmt.Errorf("data block at %d: %w", handle.Offset, err)
	}

	defer buffer.Release()
	if t.format.BlockColumnar() {
		entries, err = readColumnar(buffer.BlockData())
	} else {
		entries, err = readRows(buffer.BlockData())
	}

	if err == nil && len(entries) == 0 {
		err = errors.New("no keys")
	}

	if err != nil {
		return nil, fmt.Errorf("data block at %d: %w", handle.Offset, err)
	}

	return entries, nil
}

// keyTrailerBytes are the sequence number and the kind behind a key in a row.
const keyTrailerBytes = 8

func readRows(data []byte) (entries []adapter.SampledEntry, err error) {
	rows, err := rowblk.NewRawIter(pebble.DefaultComparer.Compare, data)
	if err != nil {
		return nil, err
	}

	for stored := range rows.All() {
		end := len(stored) - keyTrailerBytes
		if end < 0 {
			return nil, fmt.Errorf("a key of %d bytes, shorter than its trailer", len(stored))
		}
		entries = append(entries, adapter.SampledEntry{
			Key:     bytes.Clone(stored[:end]),
			Version: binary.LittleEndian.Uint64(stored[end:]) >> 8, // behind the kind
		})
	}

	return entries, rows.Close()
}

func readColumnar(data []byte) (entries []adapter.SampledEntry, err error) {
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
		entries = append(entries, adapter.SampledEntry{
			Key:     bytes.Clone(kv.K.UserKey),
			Version: uint64(kv.K.SeqNum()),
		})
	}

	return entries, rows.Close()
}

// prefixBundle is what Pebble's own default schema uses.
const prefixBundle = 16
