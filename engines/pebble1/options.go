package pebble1

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/bloom"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
)

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
			return level, errors.New("compression zstd: Pebble v1 built with cgo cannot read the blocks that it writes with the libzstd that Pebble v2 needs: " +
				"set STATELAB_CGO=0 to measure in pure Go, or use none or snappy")
		}
		level.Compression = pebble.ZstdCompression
	default:
		return level, fmt.Errorf("compression %s is not in Pebble v1: use none, snappy or zstd", l.Compression)
	}
	return level, nil
}
