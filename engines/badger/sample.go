//go:build linux

package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/statelab/statelab/internal/adapt/adapter"
)

// SampleKeys calls yield with n keys (fewer where nearly all are deleted). A draw
// chooses a table by its number of keys, one of its blocks, refused as often as it
// has fewer keys than the fullest seen, and a key of that block. Keys with several
// versions come up more often, keys that are in a memtable alone not at all.
//
// Tables are mapped once more to read their blocks, but the keys are looked up in
// the database itself: its cache sees them.
func (d *db) SampleKeys(ctx context.Context, n int, seed uint64, yield func(key []byte) error) error {
	stored, err := d.compressions()
	if err != nil {
		return fmt.Errorf("badger: sample keys of %s: %w", d.dir, err)
	}
	tables := d.badger.Tables()
	entries := make([]uint64, len(tables))
	for i, t := range tables {
		entries[i] = uint64(t.KeyCount)
	}
	for i, draws := range adapter.DrawTables(entries, n, seed) {
		id := tables[i].ID
		err := d.sampleTable(ctx, id, stored[id].Compression, draws, rand.New(rand.NewPCG(seed, id)), yield)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
			return fmt.Errorf("badger: sample table %d of %s: %w", id, d.dir, err)
		}
	}
	return nil
}

// compressions asks the manifest how each table is stored: not always as the
// options say now.
func (d *db) compressions() (tables map[uint64]badger.TableManifest, err error) {
	file, err := os.Open(filepath.Join(d.dir, badger.ManifestFilename))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	manifest, _, err := badger.ReplayManifestFile(file, 0, d.badger.Opts())
	return manifest.Tables, err
}

func (d *db) sampleTable(
	ctx context.Context, id uint64, stored options.CompressionType, draws int, rng *rand.Rand, yield func(key []byte) error,
) (err error) {
	if draws == 0 {
		return nil
	}
	file, err := z.OpenMmapFile(table.NewFilename(id, d.dir), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	opened, err := table.OpenTable(file, table.Options{ReadOnly: true, Compression: stored, BlockSize: d.settings.BlockSize})
	if err != nil {
		return errors.Join(err, file.Close(-1))
	}
	// Close, not DecrRef, which deletes the file.
	defer func() { err = errors.Join(err, file.Close(-1)) }()
	blocks := opened.KeySplits(math.MaxInt, nil)
	if len(blocks) == 0 {
		return errors.New("a table without blocks")
	}
	sampled := adapter.SampledTable{Rng: rng, Exists: d.exists,
		Block: func() ([][]byte, error) { return readBlock(opened, blocks, rng.IntN(len(blocks))) }}
	return sampled.Sample(ctx, draws, yield)
}

func (d *db) exists(key []byte) (bool, error) {
	err := d.badger.View(func(transaction *badger.Txn) error {
		_, err := transaction.Get(key)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// readBlock returns the keys of a block; blocks are the first keys of all, with versions.
func readBlock(t *table.Table, blocks []string, chosen int) (keys [][]byte, err error) {
	iterator := t.NewIterator(table.NOCACHE)
	defer func() { err = errors.Join(err, iterator.Close()) }()
	for iterator.Seek([]byte(blocks[chosen])); iterator.Valid(); iterator.Next() {
		key := iterator.Key()
		if chosen+1 < len(blocks) && y.CompareKeys(key, []byte(blocks[chosen+1])) >= 0 {
			break
		}
		keys = append(keys, bytes.Clone(y.ParseKey(key)))
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("block %d is empty", chosen)
	}
	return keys, nil
}
