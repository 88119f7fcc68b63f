// Package pebble1 adapts Pebble v1, the engine of go-ethereum databases made
// before its move to v2.
//
// What does not name a type of Pebble's is in internal/adapt/pebbledb, for both
// versions. Block reads are counted at the file layer by internal/observe/blockio;
// what Pebble counts itself is passed on for self-checks.
package pebble1

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/bloom"
	"github.com/cockroachdb/pebble/sstable"
	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble1fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Engine is Pebble v1.
type Engine = pebbledb.Engine[library]

// library is Pebble v1 for pebbledb.
type library struct{}

const name = "pebble1"

func (library) About() pebbledb.About {
	return pebbledb.About{
		Name: name, Version: adapter.Version("github.com/cockroachdb/pebble", "v1.1.5"),
		Profiles: pebbledb.ProfilesV1(),
	}
}

func (library) Check(s pebbledb.Settings, o engine.Options) error {
	options, err := translate(s, o)
	if err != nil {
		return err
	}
	options.FS = vfs.Default
	return options.EnsureDefaults().Validate()
}

func (library) Open(
	s pebbledb.Settings, o engine.Options, recorder *blockio.Recorder, events *pebbledb.Events,
) (pebbledb.Version, pebbledb.Config, error) {
	options, err := translate(s, o)
	if err != nil {
		return nil, pebbledb.Config{}, err
	}

	base := vfs.Default
	if o.ReadOnly {
		base = pebble1fs.ReadOnly(base, blockio.ReadOnly{IgnoreLock: o.IgnoreLock})
	}

	options.FS = pebble1fs.Counting(base, recorder)
	pebble1fs.ApplyStoredOptions(options, s.Kept)
	options.EventListener = listener(events)
	options.Cache = pebble.NewCache(s.CacheBytes)
	defer options.Cache.Unref() // the database holds its own reference
	replayed := pebbledb.ReplayBesideCache(options.Cache, name, s.CacheBytes, o.ReadOnly)
	options = options.EnsureDefaults()
	opened, err := pebble.Open(o.Dir, options)
	if err != nil {
		return nil, pebbledb.Config{}, err
	}

	v := version{opened}
	return v, pebbledb.Config{
		Options:            options.String(),
		CacheBytes:         s.CacheBytes,
		Handles:            options.MaxOpenFiles,
		MemTableBytes:      options.MemTableSize,
		FormatMajorVersion: uint64(opened.FormatMajorVersion()),
		BesideCacheBytes:   replayed(v.Metrics()),
	}, nil
}

func listener(e *pebbledb.Events) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError:  e.Failed,
		CompactionEnd:    func(pebble.CompactionInfo) { e.TablesChanged() },
		FlushEnd:         func(pebble.FlushInfo) { e.TablesChanged() },
		TableIngested:    func(pebble.TableIngestInfo) { e.TablesChanged() },
		TableStatsLoaded: func(pebble.TableStatsInfo) { e.StatsLoaded() },
		WriteStallBegin:  func(pebble.WriteStallBeginInfo) { e.StallBegan() },
		WriteStallEnd:    e.StallEnded,
	}
}

func (version) SortedBuild(s pebbledb.Settings, o engine.Options) (pebbledb.SortedBuild, error) {
	options, err := translate(s, o)
	if err != nil {
		return pebbledb.SortedBuild{}, err
	}

	options = options.EnsureDefaults()
	build := pebbledb.SortedBuild{
		LBaseMaxBytes:         options.LBaseMaxBytes,
		MemTableBytes:         options.MemTableSize,
		L0CompactionThreshold: options.L0CompactionThreshold,
		NewTable: func(level int, file *pebbledb.TableFile) pebbledb.TableWriter {
			return tableWriter{sstable.NewWriter(file,
				options.MakeWriterOptions(level, tableFormat(options)))}
		},
		OpenForIngestion: func() (pebbledb.Version, error) {
			return openForIngestion(o.Dir, options)
		},
	}

	for level := range build.TargetFileBytes {
		build.TargetFileBytes[level] = options.Level(level).TargetFileSize
	}

	return build, nil
}

// tableFormat is the one a compaction writes.
func tableFormat(options *pebble.Options) sstable.TableFormat {
	format := options.FormatMajorVersion.MaxTableFormat()
	if format == sstable.TableFormatPebblev3 {
		return sstable.TableFormatPebblev2 // value blocks are not enabled
	}
	return format
}

type tableWriter struct{ *sstable.Writer }

func (w tableWriter) Set(key, value []byte, number uint64) error {
	return w.Add(pebble.InternalKey{
		UserKey: key,
		Trailer: number<<8 | uint64(pebble.InternalKeyKindSet),
	}, value)
}

func (w tableWriter) Delete(key []byte, number uint64) error {
	return w.Add(pebble.InternalKey{
		UserKey: key,
		Trailer: number<<8 | uint64(pebble.InternalKeyKindDelete),
	}, nil)
}

func openForIngestion(dir string, options *pebble.Options) (pebbledb.Version, error) {
	building := options.Clone()
	building.DisableAutomaticCompactions = true
	building.LBaseMaxBytes = 1 // a table may land on any level below L0
	opened, err := pebble.Open(dir, building)
	if err != nil {
		return nil, err
	}
	return version{opened}, nil
}

// translate makes Pebble's options of settings; file system, cache and
// listeners are the caller's. Both versions' options have most names in common,
// but no type through which one function could set them.
func translate(s pebbledb.Settings, o engine.Options) (*pebble.Options, error) {
	options := &pebble.Options{
		Logger:                      pebbledb.Logger{Adapter: name, Log: o.Log},
		ReadOnly:                    o.ReadsOnly(),
		MaxOpenFiles:                s.MaxOpenFiles,
		MemTableSize:                s.MemTableSize,
		MemTableStopWritesThreshold: s.MemTableStopWritesThreshold,
		L0CompactionThreshold:       s.L0CompactionThreshold,
		L0CompactionFileThreshold:   s.L0CompactionFileThreshold,
		L0StopWritesThreshold:       s.L0StopWritesThreshold,
		LBaseMaxBytes:               s.LBaseMaxBytes,
		FlushSplitBytes:             s.FlushSplitBytes,
		FormatMajorVersion:          pebble.FormatMajorVersion(s.FormatMajorVersion),
		DisableWAL:                  s.DisableWAL,
		DisableAutomaticCompactions: s.DisableAutomaticCompactions,
		BytesPerSync:                s.BytesPerSync,
		WALBytesPerSync:             s.WALBytesPerSync,
	}

	if s.UseL6Filters { // an iterator takes the prefix of a key for its filter
		order := *pebble.DefaultComparer
		order.Split = func(key []byte) int { return len(key) }
		options.Comparer = &order
	}

	options.Experimental.TableCacheShards = s.Kept.TableCacheShards // 0: the library's own
	options.Experimental.L0CompactionConcurrency = s.L0CompactionConcurrency
	options.Experimental.CompactionDebtConcurrency = s.CompactionDebtConcurrency
	options.Experimental.ReadSamplingMultiplier = s.ReadSamplingMultiplier
	if n := s.MaxConcurrentCompactions; n > 0 {
		options.MaxConcurrentCompactions = func() int { return n }
	}

	for i, l := range s.Levels {
		level, err := translateLevel(l)
		if err != nil {
			return nil, fmt.Errorf("level %d: %w", i, err)
		}

		if level.TargetFileSize == 0 {
			// What Pebble does for levels it is told nothing of; a level that is
			// given without a size would get that of level 0.
			level.TargetFileSize = defaultTargetFileSize << i
		}

		options.Levels = append(options.Levels, level)
	}

	return options, nil
}

const defaultTargetFileSize = 2 << 20

func translateLevel(l pebbledb.LevelSettings) (pebble.LevelOptions, error) {
	level := pebble.LevelOptions{
		BlockSize:      l.BlockSize,
		IndexBlockSize: l.IndexBlockSize,
		TargetFileSize: l.TargetFileSize,
	}

	if l.FilterBitsPerKey > 0 {
		level.FilterPolicy = bloom.FilterPolicy(l.FilterBitsPerKey)
	}

	switch l.Compression {
	case "":
	case "none":
		level.Compression = pebble.NoCompression
	case "snappy":
		level.Compression = pebble.SnappyCompression
	case "zstd":
		if pebbledb.BuiltAs == engine.WithCgo {
			return level, errors.New("compression zstd: Pebble v1 built with cgo cannot read the " +
				"blocks that it writes with the libzstd that Pebble v2 needs: set STATELAB_CGO=0 " +
				"to measure in pure Go, or use none or snappy")
		}
		level.Compression = pebble.ZstdCompression
	default:
		return level, fmt.Errorf("compression %s is not in Pebble v1: use none, snappy or zstd",
			l.Compression)
	}

	return level, nil
}

// version is an open database for pebbledb.
type version struct{ *pebble.DB }

type reader struct{ pebble *pebble.DB }

func (v version) Reader(lastFilters bool) engine.Reader {
	if lastFilters {
		return seeker{v.DB}
	}
	return reader{v.DB}
}

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

// seeker looks keys up with iterators that ask the filters of the last level.
type seeker struct{ pebble *pebble.DB }

var lastFilters = pebble.IterOptions{UseL6Filters: true}

func (s seeker) Get(key, dst []byte) ([]byte, bool, error) {
	i, err := s.pebble.NewIter(&lastFilters)
	if err != nil {
		return dst[:0], false, err
	}
	return pebbledb.GetBySeek(i, key, dst)
}

func (seeker) Close() error { return nil }

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

func (v version) Ingest(_ context.Context, paths []string) error { return v.DB.Ingest(paths) }

func (v version) Tables() ([]blockio.LiveTable, error) { return pebble1fs.Tables(v.DB) }

// OpenTables asks for properties, which are in the tables.
func (v version) OpenTables() error {
	_, err := v.SSTables(pebble.WithProperties())
	return err
}

// Values are in tables alone.
func (version) Values() (files int, bytes, decoded int64) {
	return 0, 0, 0
}

func (v version) Metrics() pebbledb.Metrics {
	m := v.DB.Metrics()
	told := pebbledb.Metrics{
		CacheHits:           m.BlockCache.Hits,
		CacheMisses:         m.BlockCache.Misses,
		CacheUsedBytes:      m.BlockCache.Size,
		FilterHits:          m.Filter.Hits,
		FilterMisses:        m.Filter.Misses,
		TableCacheHits:      m.TableCache.Hits,
		TableCacheMisses:    m.TableCache.Misses,
		MemtableBytes:       int64(m.MemTable.Size),
		ZombieMemtableBytes: m.MemTable.ZombieSize,
		WALBytes:            m.WAL.BytesWritten,
		Activity: pebbledb.Activity{
			Running:      int(m.Compact.NumInProgress + m.Flush.NumInProgress),
			PendingBytes: int64(m.Compact.EstimatedDebt),
		},
	}

	for _, l := range m.Levels {
		told.Activity.Score = max(told.Activity.Score, l.Score)
		told.FlushBytes += l.BytesFlushed
		told.CompactBytes += l.BytesCompacted
		told.IngestBytes += l.BytesIngested
	}

	return told
}

// OpenReadOnly opens dir once more, for reading only. The lock is ours already.
func (version) OpenReadOnly(dir string, kept dbformat.KeptByPebble) (pebbledb.ReadOnlyDB, error) {
	options := &pebble.Options{
		ReadOnly: true,
		FS:       pebble1fs.ReadOnly(vfs.Default, blockio.ReadOnly{IgnoreLock: true}),
		Logger:   pebbledb.Logger{Adapter: name},
		Cache:    pebble.NewCache(pebbledb.AsideCacheBytes),
	}

	defer options.Cache.Unref()
	pebble1fs.ApplyStoredOptions(options, kept)
	opened, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}

	return pebbledb.NewReadOnlyDB(opened, pebble.ErrNotFound), nil
}
