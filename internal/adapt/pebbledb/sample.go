package pebbledb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"sort"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/sstable/rowblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/internal/observe/blockio"
)

// Aside is a second, read-only view of the files of an open database, with a
// cache of its own: looking there leaves counters and cache of the first alone.
type Aside interface {
	Has(key []byte) (bool, error)
	Close() error
}

// NewAside is the Aside that an open database is.
func NewAside(db Getter, notFound error) Aside { return aside{db, notFound} }

// Getter is a database of either version, opened for reading.
type Getter interface {
	Get(key []byte) ([]byte, io.Closer, error)
	Close() error
}

type aside struct {
	Getter
	notFound error
}

func (a aside) Has(key []byte) (bool, error) {
	_, closer, err := a.Get(key)
	if errors.Is(err, a.notFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

// AsideCacheBytes is the cache of an Aside.
const AsideCacheBytes = 32 << 20

// drawAttempts bounds how often a draw is repeated that hit a key which is
// deleted by now.
const drawAttempts = 16

// SampleKeys calls yield with n keys (fewer where nearly all are deleted).
//
// A draw chooses a table by its number of entries, one of its data blocks, and an
// entry of that block. Blocks of few entries (of large values) are refused as
// often as they have fewer than the fullest block seen of the table, so that each
// entry has the same chance, whatever the sizes. What bias is left: blocks
// fuller than any of the first few seen come up too seldom; keys with several
// versions come up more often, and keys that are in a memtable alone not at all.
// The same key may come twice.
//
// The tables are read apart from the database, by the reader of v2, which still
// knows the formats of v1: no counter moves and nothing enters the cache. The
// page cache, however, has the sampled blocks afterwards.
func (d *live) SampleKeys(ctx context.Context, n int, seed uint64, yield func(key []byte) error) error {
	return d.config.table.Sample(ctx, d.config.dir, d.config.adapter, n, seed, d.sampleAll, yield)
}

func (d *live) sampleAll(ctx context.Context, n int, seed uint64, yield func(key []byte) error) (err error) {
	tables, err := d.version.Tables()
	if err != nil {
		return d.failed("list the tables", err)
	}
	aside, err := d.version.OpenAside(d.config.dir)
	if err != nil {
		return d.failed("open beside itself", err)
	}
	defer func() { err = errors.Join(err, aside.Close()) }()

	var yielding sync.Mutex
	sampler := sampler{aside: aside, yield: func(key []byte) error {
		yielding.Lock()
		defer yielding.Unlock()
		return yield(key)
	}}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for number, draws := range d.drawTables(tables, n, seed) {
		group.Go(func() error {
			rng := rand.New(rand.NewPCG(seed, uint64(number)))
			err := sampler.sampleTable(ctx, d.tablePath(number), draws, rng)
			if err != nil {
				return d.failed(fmt.Sprintf("sample table %06d of", number), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// drawTables tells how many keys to draw from which table.
func (d *live) drawTables(tables []blockio.LiveTable, n int, seed uint64) map[blockio.FileNumber]int {
	var total uint64
	ends := make([]uint64, len(tables))
	for i, t := range tables {
		if a := d.recorder.Anatomy(t.Number); a != nil {
			total += a.EntriesOf(t)
		}
		ends[i] = total
	}
	draws := map[blockio.FileNumber]int{}
	if total == 0 {
		return draws
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		entry := rng.Uint64N(total)
		at := sort.Search(len(ends), func(i int) bool { return ends[i] > entry })
		draws[tables[at].Number]++
	}
	return draws
}

type sampler struct {
	aside Aside
	yield func(key []byte) error
}

func (s sampler) sampleTable(ctx context.Context, path string, draws int, rng *rand.Rand) (err error) {
	table, err := openSampled(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // compacted away meanwhile
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.reader.Close()) }()
	for range fullnessSample {
		if err := table.readBlock(ctx, rng); err != nil {
			return err
		}
	}
	for range draws {
		if err := s.draw(ctx, table, rng); err != nil {
			return err
		}
	}
	return nil
}

func (s sampler) draw(ctx context.Context, table *sampledTable, rng *rand.Rand) error {
	for range drawAttempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		key, err := table.randomKey(ctx, rng)
		if err != nil {
			return err
		}
		exists, err := s.aside.Has(key)
		if err != nil {
			return fmt.Errorf("look up the sampled key %x: %w", key, err)
		}
		if exists {
			return s.yield(key)
		}
	}
	return nil
}

// sampledTable is a table whose data blocks can be read one by one.
type sampledTable struct {
	reader *sstable.Reader
	format sstable.TableFormat
	data   []block.HandleWithProperties
	keys   [][]byte // of the block read last, reused
	most   int      // keys in the fullest block so far
}

const (
	// fullnessSample blocks are read of a table to learn how full they are.
	fullnessSample = 8
	// refusals bounds how often a block is refused for having few entries.
	refusals = 64
)

func openSampled(ctx context.Context, path string) (*sampledTable, error) {
	file, err := vfs.Default.Open(path)
	if err != nil {
		return nil, err
	}
	source, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	reader, err := sstable.NewReader(ctx, source, sstable.ReaderOptions{})
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

// randomKey returns the user key of some entry, each with the same chance. It is
// the caller's.
func (t *sampledTable) randomKey(ctx context.Context, rng *rand.Rand) ([]byte, error) {
	for range refusals {
		if err := t.readBlock(ctx, rng); err != nil {
			return nil, err
		}
		if rng.IntN(t.most) < len(t.keys) {
			break
		}
	}
	return append([]byte(nil), t.keys[rng.IntN(len(t.keys))]...), nil
}

// readBlock reads the keys of some block, each with the same chance.
func (t *sampledTable) readBlock(ctx context.Context, rng *rand.Rand) error {
	handle := t.data[rng.IntN(len(t.data))].Handle
	noMetadata := func(*block.Metadata, []byte) error { return nil }
	buffer, err := t.reader.BlockReader().Read(ctx, block.NoReadEnv, nil, handle, blockkind.SSTableData, noMetadata)
	if err != nil {
		return fmt.Errorf("data block at %d: %w", handle.Offset, err)
	}
	defer buffer.Release()
	t.keys = t.keys[:0]
	if t.format.BlockColumnar() {
		err = t.readColumnar(buffer.BlockData())
	} else {
		err = t.readRows(buffer.BlockData())
	}
	if err == nil && len(t.keys) == 0 {
		err = errors.New("no keys")
	}
	if err != nil {
		return fmt.Errorf("data block at %d: %w", handle.Offset, err)
	}
	t.most = max(t.most, len(t.keys))
	return nil
}

// keyTrailerBytes are the sequence number and the kind behind a key in a row.
const keyTrailerBytes = 8

func (t *sampledTable) readRows(data []byte) error {
	rows, err := rowblk.NewRawIter(pebble.DefaultComparer.Compare, data)
	if err != nil {
		return err
	}
	for stored := range rows.All() {
		if len(stored) < keyTrailerBytes {
			return fmt.Errorf("a key of %d bytes, shorter than its trailer", len(stored))
		}
		t.keys = append(t.keys, append([]byte(nil), stored[:len(stored)-keyTrailerBytes]...))
	}
	return rows.Close()
}

func (t *sampledTable) readColumnar(data []byte) error {
	schema := colblk.DefaultKeySchema(pebble.DefaultComparer, prefixBundle)
	var decoder colblk.DataBlockDecoder
	decoder.Init(&schema, data)
	var rows colblk.DataBlockIter
	rows.InitOnce(&schema, pebble.DefaultComparer, nil)
	if err := rows.Init(&decoder, block.NoTransforms); err != nil {
		return err
	}
	for kv := rows.First(); kv != nil; kv = rows.Next() {
		t.keys = append(t.keys, append([]byte(nil), kv.K.UserKey...))
	}
	return rows.Close()
}

// prefixBundle is what Pebble's own default schema uses.
const prefixBundle = 16
