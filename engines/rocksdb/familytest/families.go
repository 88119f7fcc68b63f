//go:build cgo

// Package familytest writes RocksDB databases as clients leave them, for tests: with four column
// families, with the options of Besu, and with those of Nethermind. RocksDB itself writes them.
package familytest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
)

// Families besides the default one, which stays empty.
const (
	Accounts = "accounts" // with filters
	Storage  = "storage"  // the same keys, without filters
	Code     = "code"     // few keys with large values, in large blocks
)

const (
	valueBytes = 110
	codeBytes  = 6000
	rounds     = 12 // flushes of a family, each followed by the compactions that it causes
)

// family is what a client keeps in one column family.
type family struct {
	name    string
	keys    uint64
	bytes   int // of a value
	options map[string]string
}

// Write makes the database in dir with that many keys in the large families, sha256(i) in
// order of i.
func Write(ctx context.Context, dir string, keys uint64) error {
	return writeAll(ctx, dir, nil, []family{
		{Accounts, keys, valueBytes, nil},
		{Storage, keys, valueBytes, map[string]string{"filter_policy": "nullptr"}},
		{Code, keys / 200, codeBytes, map[string]string{"block_size": "16384"}},
	})
}

// WriteBesu makes a database with column families and options as Besu sets them, and the file that
// Besu keeps beside its folder, in DIR/database. The options are those of createColumnDescriptor,
// configureBlobDBForSegment and createBlockBasedTableConfig in RocksDBColumnarKeyValueStorage.java
// (besu-eth/besu, commit a14f728205ac), but for partitioned filters, which RocksDB drops where the
// index has one level only. The families are those of KeyValueSegmentIdentifier.java.
func WriteBesu(ctx context.Context, dir string, keys uint64) error {
	database := filepath.Join(dir, "database")
	if err := os.MkdirAll(database, 0o755); err != nil {
		return err
	}
	metadata := []byte(`{"v2":{"format":"BONSAI","version":3}}`)
	if err := os.WriteFile(filepath.Join(dir, "DATABASE_METADATA.json"), metadata, 0o644); err != nil {
		return err
	}
	options := map[string]string{
		"compression": "kLZ4Compression", "level_compaction_dynamic_level_bytes": "true", "ttl": "0",
		"format_version": "5", "filter_policy": "bloomfilter:10:false", "cache_index_and_filter_blocks": "false", "block_size": "32768",
		"stats_dump_period_sec": "0", "keep_log_file_num": "7", "log_file_time_to_roll": "86400",
		"max_total_wal_size": "1073741824", "recycle_log_file_num": "16",
	}
	static := map[string]string{"enable_blob_files": "true", "min_blob_size": "100", "blob_compression_type": "kLZ4Compression"}
	return writeAll(ctx, database, options, []family{
		{"\x01", keys / 20, codeBytes, static}, // blockchain
		{"\x06", keys, 70, nil},                // flat accounts
		{"\a", keys / 200, codeBytes, nil},     // code
		{"\b", keys, 32, nil},                  // flat storage slots
		{"\t", keys, valueBytes, nil},          // trie nodes
		{"\n", keys / 100, codeBytes, static},  // trie logs
	})
}

// WriteNethermind makes a database with the options of Nethermind's state, in
// DIR/nethermind_db/mainnet/state/0: AdditionalRocksDbOptions and StateDbAdditionalRocksDbOptions of
// DbConfig.cs (NethermindEth/nethermind, src/Nethermind/Nethermind.Db.Rocks/Config, of 2024).
func WriteNethermind(ctx context.Context, dir string, keys uint64) error {
	database := filepath.Join(dir, "nethermind_db", "mainnet", "state", "0")
	if err := os.MkdirAll(database, 0o755); err != nil {
		return err
	}
	return writeAll(ctx, database, map[string]string{
		"compression": "kLZ4Compression", "optimize_filters_for_hits": "true", "memtable_whole_key_filtering": "true",
		"memtable_prefix_bloom_size_ratio": "0.02", "target_file_size_multiplier": "2", "min_write_buffer_number_to_merge": "2",
		"format_version": "5", "filter_policy": "bloomfilter:15:false", "index_type": "kTwoLevelIndexSearch", "partition_filters": "true",
		"metadata_block_size": "4096", "block_size": "32000", "block_restart_interval": "4", "pin_l0_filter_and_index_blocks_in_cache": "true",
		"cache_index_and_filter_blocks_with_high_priority": "true", "data_block_index_type": "kDataBlockBinaryAndHash",
		"data_block_hash_table_util_ratio": "0.5",
	}, []family{{"default", keys, valueBytes, nil}})
}

// writeAll writes families with the same options but for their own. Files are small, so that few
// keys make several levels.
func writeAll(ctx context.Context, dir string, options map[string]string, families []family) error {
	small := map[string]string{"write_buffer_size": "16777216", "target_file_size_base": "524288", "max_bytes_for_level_base": "1048576",
		"max_bytes_for_level_multiplier": "4", "max_background_jobs": "2", "create_missing_column_families": "true"}
	for i, f := range families {
		overrides := maps.Clone(small)
		maps.Copy(overrides, options)
		maps.Copy(overrides, f.options)
		overrides["table"] = f.name
		if err := write(ctx, engine.Options{Dir: dir, Create: i == 0, Overrides: overrides}, f.keys, f.bytes); err != nil {
			return fmt.Errorf("write the family %q: %w", f.name, err)
		}
	}
	return nil
}

// Key is key number i.
func Key(i uint64) []byte {
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, i))
	return h[:]
}

func write(ctx context.Context, o engine.Options, keys uint64, valueBytes int) (err error) {
	db, err := rocksdb.Engine{}.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w, err := db.Writer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	rng := rand.NewChaCha8([32]byte{1})
	value := make([]byte, valueBytes)
	for i := range keys {
		if _, err := rng.Read(value); err != nil {
			return err
		}
		if err := w.Put(Key(i), value); err != nil {
			return err
		}
		if i%(keys/rounds) != keys/rounds-1 {
			continue
		}
		if err := errors.Join(w.Commit(), db.Settle(ctx, nil)); err != nil {
			return err
		}
	}
	return errors.Join(w.Commit(), db.Settle(ctx, nil))
}
