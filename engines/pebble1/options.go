package pebble1

import (
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/bloom"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/pebbledb"
)

// translate makes Pebble's options of settings; file system, cache and
// listeners are the caller's.
func translate(s pebbledb.Settings, o engine.Options) (*pebble.Options, error) {
	options := &pebble.Options{
		ReadOnly:                    o.ReadOnly || o.Foreign || o.IgnoreLock,
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
		if i > 0 && level.TargetFileSize == 0 {
			level.TargetFileSize = options.Levels[i-1].TargetFileSize * 2
		}
		options.Levels = append(options.Levels, level)
	}
	return options, nil
}

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
		level.Compression = pebble.ZstdCompression
	default:
		return level, fmt.Errorf("compression %s is not in Pebble v1: use none, snappy or zstd", l.Compression)
	}
	return level, nil
}

// effective are the options as Pebble prints them, and those that shape a
// measurement by names of ours.
func effective(options *pebble.Options, s pebbledb.Settings, gomaxprocs int) map[string]string {
	e := pebbledb.ParseOptions(options.String())
	e["cache_bytes"] = strconv.FormatInt(s.CacheBytes, 10)
	e["cache_shards"] = strconv.Itoa(pebbledb.CacheShards(s.CacheBytes, gomaxprocs))
	e["handles"] = strconv.Itoa(options.MaxOpenFiles)
	e["memtable_size"] = strconv.FormatUint(options.MemTableSize, 10)
	e["format_major_version"] = strconv.FormatUint(uint64(options.FormatMajorVersion), 10)
	e["gomaxprocs_at_open"] = strconv.Itoa(gomaxprocs)
	return e
}
