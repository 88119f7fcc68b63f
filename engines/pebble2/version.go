package pebble2

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
)

// version is an open database for pebbledb.
type version struct{ *pebble.DB }

type reader struct{ pebble *pebble.DB }

func (v version) Reader() engine.Reader { return reader{v.DB} }

func (r reader) Get(key, dst []byte) ([]byte, bool, error) {
	value, closer, err := r.pebble.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return dst[:0], false, nil
		}
		return dst[:0], false, err
	}
	dst = append(dst[:0], value...)
	return dst, true, closer.Close()
}

func (reader) Close() error { return nil }

func (v version) Writer(d *pebbledb.DB) engine.Writer {
	return pebbledb.NewWriter(d, v.NewBatch(), pebble.NoSync)
}

func (v version) Empty() (bool, error) {
	iterator, err := v.NewIter(nil)
	if err != nil {
		return false, err
	}
	found := iterator.First()
	return !found, errors.Join(iterator.Error(), iterator.Close())
}

// SyncWAL syncs an empty record, which takes everything before it along.
func (v version) SyncWAL() error { return v.LogData(nil, pebble.Sync) }

func (v version) Tables() ([]blockio.LiveTable, error) {
	levels, err := v.SSTables()
	if err != nil {
		return nil, err
	}
	var tables []blockio.LiveTable
	for level, infos := range levels {
		for _, t := range infos {
			tables = append(tables, blockio.LiveTable{
				Number:   blockio.FileNumber(t.BackingSSTNum),
				Level:    level,
				Bytes:    int64(t.Size),
				Virtual:  t.Virtual,
				Smallest: t.Smallest.UserKey,
				Largest:  t.Largest.UserKey,
			})
		}
	}
	return tables, nil
}

// OpenTables asks for properties, which are in the tables.
func (v version) OpenTables() error {
	_, err := v.SSTables(pebble.WithProperties())
	return err
}

func (v version) Metrics() pebbledb.Metrics {
	m := v.DB.Metrics()
	told := pebbledb.Metrics{
		CacheHits: m.BlockCache.Hits, CacheMisses: m.BlockCache.Misses, CacheUsedBytes: m.BlockCache.Size,
		FilterHits: m.Filter.Hits, FilterMisses: m.Filter.Misses,
		TableCacheHits: m.FileCache.Hits, TableCacheMisses: m.FileCache.Misses,
		MemtableBytes: int64(m.MemTable.Size), ZombieMemtableBytes: m.MemTable.ZombieSize, WALBytes: m.WAL.BytesWritten,
		Activity: pebbledb.Activity{
			Running:      int(m.Compact.NumInProgress + m.Flush.NumInProgress),
			PendingBytes: int64(m.Compact.EstimatedDebt),
		},
	}
	if !m.Table.InitialStatsCollectionComplete || m.Table.PendingStatsCollectionCount > 0 {
		told.Activity.Running++
	}
	for _, l := range m.Levels {
		told.Activity.Score = max(told.Activity.Score, l.Score)
		told.FlushBytes += l.TableBytesFlushed + l.BlobBytesFlushed
		told.CompactBytes += l.TableBytesCompacted + l.BlobBytesCompacted
		told.IngestBytes += l.TableBytesIngested
	}
	return told
}

// OpenAside opens dir once more, for reading only. The lock is ours already.
func (version) OpenAside(dir string) (pebbledb.Aside, error) {
	options := &pebble.Options{
		ReadOnly: true,
		FS:       pebble2fs.ReadOnly(vfs.Default, blockio.ReadOnly{IgnoreLock: true}),
		Logger:   pebbledb.Logger{Adapter: name},
		Cache:    pebble.NewCache(pebbledb.AsideCacheBytes),
	}
	defer options.Cache.Unref()
	opened, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}
	return pebbledb.NewAside(opened, pebble.ErrNotFound), nil
}
