package pebble2

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
)

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
