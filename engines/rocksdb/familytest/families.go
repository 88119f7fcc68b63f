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
	hashBytes  = 32
	rounds     = 12 // flushes of a family, each followed by the compactions that it causes
	// of the largest family: with so many, files and levels are as large as the client's
	manyKeys = 500_000
)

// family is what a client keeps in one column family.
type family struct {
	name            string
	keys            uint64
	keyBytes, bytes int // of a key and of a value
	profile         string
	options         map[string]string // besides those of the profile
}

// Write makes the database in dir with that many keys in the large families, sha256(i) in
// order of i.
func Write(ctx context.Context, dir string, keys uint64) error {
	return writeAll(ctx, dir, []family{
		{Accounts, keys, hashBytes, valueBytes, "", nil},
		{Storage, keys, hashBytes, valueBytes, "", map[string]string{"filter_policy": "nullptr"}},
		{Code, keys / 200, hashBytes, codeBytes, "", map[string]string{"block_size": "16384"}},
	})
}

// WriteBesu makes a database with column families and options as Besu sets them, and the file that
// Besu keeps beside its folder, in DIR/database: the profile of Besu, with the blob files of
// configureBlobDBForSegment in RocksDBColumnarKeyValueStorage.java. The families are those of
// KeyValueSegmentIdentifier.java.
func WriteBesu(ctx context.Context, dir string, keys uint64) error {
	database := filepath.Join(dir, "database")
	if err := os.MkdirAll(database, 0o755); err != nil {
		return err
	}

	metadata := []byte(`{"v2":{"format":"BONSAI","version":3}}`)
	if err := os.WriteFile(filepath.Join(dir, "DATABASE_METADATA.json"), metadata,
		0o644); err != nil {
		return err
	}

	const profile = "besu-26.3"
	static := map[string]string{
		"enable_blob_files":     "true",
		"min_blob_size":         "100",
		"blob_compression_type": "kLZ4Compression",
	}

	return writeAll(ctx, database, []family{
		{"\x01", keys / 20, hashBytes, codeBytes, profile, static}, // blockchain
		{"\x06", keys, hashBytes, 70, profile, nil},                // flat accounts
		{"\a", keys / 200, hashBytes, codeBytes, profile, nil},     // code
		{"\b", keys, 2 * hashBytes, 32, profile, nil},              // flat storage slots
		{"\t", keys, hashBytes, valueBytes, profile, nil},          // trie nodes
		{"\n", keys / 100, hashBytes, codeBytes, profile, static},  // trie logs
	})
}

// WriteNethermind makes a database with the options of Nethermind's state by paths, in
// DIR/nethermind_db/mainnet/state/0.
func WriteNethermind(ctx context.Context, dir string, keys uint64) error {
	return writeAll(ctx, filepath.Join(dir, "nethermind_db", "mainnet", "state", "0"), []family{
		{"default", keys, hashBytes, valueBytes, "nethermind-1.39-state", nil}})
}

// WriteNethermindFlat makes the large families of Nethermind's flat state, whose keys have the
// lengths that pull request 9854 of NethermindEth/nethermind tells, in
// DIR/nethermind_db/mainnet/flat.
func WriteNethermindFlat(ctx context.Context, dir string, keys uint64) error {
	return writeAll(ctx, filepath.Join(dir, "nethermind_db", "mainnet", "flat"), []family{
		{"Account", keys, 20, 40, "nethermind-1.39-accounts", nil},
		{"Storage", keys, 52, 20, "nethermind-1.39-storage", nil},
		{"StateNodes", keys / 2, 8, valueBytes, "nethermind-1.39-nodes", nil},
		{"StorageNodes", keys / 2, 28, valueBytes, "nethermind-1.39-nodes", nil},
	})
}

// writeAll writes families. Unless there are many keys, files are small, so that few
// keys make several levels.
func writeAll(ctx context.Context, dir string, families []family) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	maximum := uint64(0)
	for _, f := range families {
		maximum = max(maximum, f.keys)
	}

	small := map[string]string{
		"write_buffer_size":              "16777216",
		"target_file_size_base":          "524288",
		"max_bytes_for_level_base":       "1048576",
		"max_bytes_for_level_multiplier": "4",
	}

	for i, f := range families {
		overrides := map[string]string{
			"max_background_jobs":            "2",
			"create_missing_column_families": "true",
			"table":                          f.name,
		}

		if maximum < manyKeys {
			maps.Copy(overrides, small)
		}

		maps.Copy(overrides, f.options)
		if err := write(ctx,
			engine.Options{Dir: dir, Create: i == 0, Profile: f.profile, Overrides: overrides},
			f); err != nil {
			return fmt.Errorf("write the family %q: %w", f.name, err)
		}
	}

	return nil
}

// Key is key number i.
func Key(i uint64) []byte { return key(i, hashBytes) }

// key is key number i, of up to two hashes.
func key(i uint64, length int) []byte {
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, i))
	if length <= len(h) {
		return h[:length]
	}
	second := sha256.Sum256(h[:])
	return append(h[:], second[:length-len(h)]...)
}

func write(ctx context.Context, o engine.Options, f family) (err error) {
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
	value := make([]byte, f.bytes)
	for i := range f.keys {
		if _, err := rng.Read(value); err != nil {
			return err
		}

		if err := w.Put(key(i, f.keyBytes), value); err != nil {
			return err
		}

		if i%(f.keys/rounds) != f.keys/rounds-1 {
			continue
		}

		if err := errors.Join(w.Commit(), db.Settle(ctx, nil)); err != nil {
			return err
		}
	}

	return errors.Join(w.Commit(), db.Settle(ctx, nil))
}
