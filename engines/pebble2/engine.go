// Package pebble2 adapts Pebble v2, the engine of go-ethereum databases made
// since version 1.17.
//
// What does not name a type of Pebble's is in internal/adapt/pebbledb, for both
// versions. Block reads are counted at the file layer by internal/observe/blockio;
// what Pebble counts itself is passed on for self-checks.
package pebble2

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Engine is Pebble v2.
type Engine = pebbledb.Engine[library]

// library is Pebble v2 for pebbledb.
type library struct{}

const name = "pebble2"

func (library) About() pebbledb.About {
	return pebbledb.About{
		Name: name, Version: adapter.Version("github.com/cockroachdb/pebble/v2", "v2.1.7"),
		Profiles: pebbledb.ProfilesV2(uint64(pebble.FormatNewest)),
		Also:     []engine.Capability{engine.SharesReads},
	}
}

func (library) Check(s pebbledb.Settings, o engine.Options) error {
	options, err := translate(s, o)
	if err != nil {
		return err
	}
	options.FS = vfs.Default
	options.EnsureDefaults()
	return options.Validate()
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
		base = pebble2fs.ReadOnly(base, blockio.ReadOnly{IgnoreLock: o.IgnoreLock})
	}

	options.FS = pebble2fs.Counting(base, recorder)
	pebble2fs.ApplyStoredOptions(options, s.Kept)
	options.EventListener = listener(events)
	options.Cache = pebble.NewCache(s.CacheBytes)
	defer options.Cache.Unref() // the database holds its own reference
	replayed := pebbledb.ReplayBesideCache(options.Cache, name, s.CacheBytes, o.ReadOnly)
	options.EnsureDefaults()
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
		BlockChargeBytes:   block.MetadataSize,
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

func (v version) SortedBuild(s pebbledb.Settings, o engine.Options) (pebbledb.SortedBuild, error) {
	options, err := translate(s, o)
	if err != nil {
		return pebbledb.SortedBuild{}, err
	}

	options.EnsureDefaults()
	format := v.TableFormat()
	return pebbledb.SortedBuild{
		TargetFileBytes:       options.TargetFileSizes,
		LBaseMaxBytes:         options.LBaseMaxBytes,
		MemTableBytes:         options.MemTableSize,
		L0CompactionThreshold: options.L0CompactionThreshold,
		NewTable: func(level int, file *pebbledb.TableFile) pebbledb.TableWriter {
			return tableWriter{sstable.NewWriter(file, options.MakeWriterOptions(level, format))}
		},
		OpenForIngestion: func() (pebbledb.Version, error) {
			return openForIngestion(o.Dir, options)
		},
	}, nil
}

type tableWriter struct{ *sstable.Writer }

func (w tableWriter) Set(key, value []byte, number uint64) error {
	return w.Raw().Add(pebble.InternalKey{
		UserKey: key,
		Trailer: pebble.InternalKeyTrailer(number<<8) |
			pebble.InternalKeyTrailer(pebble.InternalKeyKindSet),
	},
		value, false)
}

func (w tableWriter) Delete(key []byte, number uint64) error {
	return w.Raw().Add(pebble.InternalKey{
		UserKey: key,
		Trailer: pebble.InternalKeyTrailer(number<<8) |
			pebble.InternalKeyTrailer(pebble.InternalKeyKindDelete),
	},
		nil, false)
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
// listeners are the caller's.
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

	options.Experimental.FileCacheShards = s.Kept.TableCacheShards // 0: the library's own
	options.Experimental.L0CompactionConcurrency = s.L0CompactionConcurrency
	options.Experimental.CompactionDebtConcurrency = s.CompactionDebtConcurrency
	options.Experimental.ReadSamplingMultiplier = s.ReadSamplingMultiplier
	if n := s.MaxConcurrentCompactions; n > 0 {
		options.CompactionConcurrencyRange = func() (int, int) { return 1, n }
	}

	for i, l := range s.Levels {
		options.TargetFileSizes[i] = l.TargetFileSize
		level, err := translateLevel(l)
		if err != nil {
			return nil, fmt.Errorf("level %d: %w", i, err)
		}

		options.Levels[i] = level
	}

	return options, nil
}

func translateLevel(l pebbledb.LevelSettings) (pebble.LevelOptions, error) {
	level := pebble.LevelOptions{BlockSize: l.BlockSize, IndexBlockSize: l.IndexBlockSize}
	// A level without a policy inherits that of the level above.
	if l.FilterBitsPerKey > 0 {
		level.FilterPolicy = bloom.FilterPolicy(l.FilterBitsPerKey)
	} else if l.NoFilter {
		level.FilterPolicy = pebble.NoFilterPolicy
	}

	var profile *sstable.CompressionProfile
	switch l.Compression {
	case "":
		return level, nil
	case "none":
		profile = sstable.NoCompression
	case "snappy":
		profile = sstable.SnappyCompression
	case "zstd":
		profile = sstable.ZstdCompression
	case "minlz":
		profile = sstable.MinLZCompression
	default:
		return level, fmt.Errorf("unknown compression %s", l.Compression)
	}

	level.Compression = func() *sstable.CompressionProfile { return profile }
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

func (v version) Tables() ([]blockio.LiveTable, error) { return pebble2fs.Tables(v.DB) }

// OpenTables asks for properties, which are in the tables.
func (v version) OpenTables() error {
	_, err := v.SSTables(pebble.WithProperties())
	return err
}

// Values are in blob files.
func (v version) Values() (files int, bytes, decoded int64) {
	m := v.DB.Metrics().BlobFiles
	return int(m.LiveCount), int64(m.LiveSize), int64(m.ValueSize)
}

func (v version) Metrics() pebbledb.Metrics {
	m := v.DB.Metrics()
	told := pebbledb.Metrics{
		CacheHits:           m.BlockCache.Hits,
		CacheMisses:         m.BlockCache.Misses,
		CacheUsedBytes:      m.BlockCache.Size,
		FilterHits:          m.Filter.Hits,
		FilterMisses:        m.Filter.Misses,
		TableCacheHits:      m.FileCache.Hits,
		TableCacheMisses:    m.FileCache.Misses,
		MemtableBytes:       int64(m.MemTable.Size),
		ZombieMemtableBytes: m.MemTable.ZombieSize,
		WALBytes:            m.WAL.BytesWritten,
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

// OpenReadOnly opens dir once more, for reading only. The lock is ours already.
func (version) OpenReadOnly(dir string, kept dbformat.KeptByPebble) (pebbledb.ReadOnlyDB, error) {
	options := &pebble.Options{
		ReadOnly: true,
		FS:       pebble2fs.ReadOnly(vfs.Default, blockio.ReadOnly{IgnoreLock: true}),
		Logger:   pebbledb.Logger{Adapter: name},
		Cache:    pebble.NewCache(pebbledb.AsideCacheBytes),
	}

	defer options.Cache.Unref()
	pebble2fs.ApplyStoredOptions(options, kept)
	opened, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}

	return pebbledb.NewReadOnlyDB(opened, pebble.ErrNotFound), nil
}
