package pebbledb

import (
	"cmp"
	"runtime"
	"strconv"

	"github.com/statelab/statelab/internal/adapt/adapter"
)

// kinOfGeth are what op-geth and bsc share: the options of geth before 1.17, with filters on all
// levels. Their database gets half of --cache, 4096 on a main network; for the number of handles
// see geth.
func kinOfGeth(memTables int) Settings {
	s := Settings{
		CacheBytes:                  2048 * mib,
		MaxOpenFiles:                262_144,
		MemTablesPerHalfCache:       int64(memTables),
		MemTableStopWritesThreshold: memTables,
		MaxConcurrentCompactions:    runtime.NumCPU(),
		ReadSamplingMultiplier:      -1,
	}

	for i := range s.Levels {
		s.Levels[i] = LevelSettings{TargetFileSize: 2 * mib, FilterBitsPerKey: filterBits}
	}

	return s
}

// OpGeth is op-geth v1.101411 on Pebble v1 (New in ethdb/pebble/pebble.go,
// ethereum-optimism/op-geth, commit 7b56c731573a of 2024-10-23): files of 2 MiB on every level.
func OpGeth() Profile {
	return adapter.Named("op-geth-1.101411", "op-geth v1.101411, which is geth 1.14", kinOfGeth(2))
}

// BSC is bsc 1.7 on Pebble v1 (New in ethdb/pebble/pebble.go, bnb-chain/bsc, commit 3cf904341
// of 2026-04-22, 1.7.3): blocks of 32 KiB and indexes of 256 KiB.
func BSC() Profile {
	s := kinOfGeth(6)
	s.L0CompactionThreshold, s.WALBytesPerSync = 2, 5*100*kib
	for i := range s.Levels {
		s.Levels[i].TargetFileSize, s.Levels[i].BlockSize, s.Levels[i].IndexBlockSize = 2*mib<<i,
			32*kib, 256*kib
	}
	return adapter.Named("bsc-1.7", "bsc 1.7", s)
}

// Sei is the flat state of Sei 6.6 on Pebble v2 (Open in sei-db/db_engine/pebbledb/db.go,
// sei-protocol/sei-chain, commit 73f917bbd46f of 2026-08-21). Its history has the same tables in a
// cache of 32 MiB, in an order of its own.
func Sei() Profile {
	s := Settings{
		CacheBytes:                  512 * mib,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 * mib,
		MemTableSize:                64 * mib,
		MemTableStopWritesThreshold: 4,
		FormatMajorVersion:          16,
	}

	for i := range s.Levels {
		s.Levels[i] = LevelSettings{
			BlockSize:        32 * kib,
			IndexBlockSize:   256 * kib,
			FilterBitsPerKey: filterBits,
			Compression:      "zstd",
		}
	}

	s.Levels[Levels-1].FilterBitsPerKey = 0 // as in geth
	return adapter.Named("sei-6.6", "the flat state of Sei 6.6", s)
}

// Written are the options that decide how many blocks a Get reads as the OPTIONS file of a database
// has them, in small letters, by section: "Options", "Level 0" and so on.
func (s *Settings) Written(engineName string) map[string]map[string]string {
	size := func(n, otherwise int64) string { return strconv.FormatInt(cmp.Or(n, otherwise), 10) }
	all := map[string]map[string]string{"Options": {
		"l0_compaction_threshold": size(int64(s.L0CompactionThreshold), 4),
		"lbase_max_bytes":         size(s.LBaseMaxBytes, 64*mib),
	}}

	filters := false
	for i, l := range s.Levels {
		// A level that says nothing has, with v2, the filters of the level above.
		filters = l.FilterBitsPerKey > 0 || filters && !l.NoFilter && engineName != "pebble1"
		policy := "none"
		if filters {
			policy = "rocksdb.builtinbloomfilter"
		}

		all["Level "+strconv.Itoa(i)] = map[string]string{
			"block_size":       size(int64(l.BlockSize), 4*kib),
			"index_block_size": size(int64(l.IndexBlockSize), cmp.Or(int64(l.BlockSize), 4*kib)),
			"target_file_size": size(l.TargetFileSize, 2*mib<<i),
			"filter_policy":    policy,
			"compression":      cmp.Or(l.Compression, "snappy"),
		}
	}

	return all
}
