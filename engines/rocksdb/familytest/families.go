//go:build cgo

// Package familytest writes a RocksDB database with four column families, as a client
// might have left it, for tests. RocksDB itself writes it.
package familytest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"

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

// Write makes the database in dir with that many keys in the large families, sha256(i) in
// order of i.
func Write(ctx context.Context, dir string, keys uint64) error {
	small := map[string]string{"write_buffer_size": "16777216", "target_file_size_base": "524288", "max_bytes_for_level_base": "1048576",
		"max_bytes_for_level_multiplier": "4", "max_background_jobs": "2", "create_missing_column_families": "true"}
	for i, f := range []struct {
		name    string
		keys    uint64
		bytes   int
		options map[string]string
	}{
		{Accounts, keys, valueBytes, nil},
		{Storage, keys, valueBytes, map[string]string{"filter_policy": "nullptr"}},
		{Code, keys / 200, codeBytes, map[string]string{"block_size": "16384"}},
	} {
		overrides := maps.Clone(small)
		maps.Copy(overrides, f.options)
		overrides["table"] = f.name
		if err := write(ctx, engine.Options{Dir: dir, Create: i == 0, Overrides: overrides}, f.keys, f.bytes); err != nil {
			return fmt.Errorf("write the family %s: %w", f.name, err)
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
