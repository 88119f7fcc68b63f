package goleveldb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// SampleKeys calls yield with n keys (fewer where nearly all are deleted). A draw
// chooses a table by its number of entries, one of its data blocks, refused as
// often as it has fewer entries than the fullest seen, and an entry of that block.
// Keys with several versions come up more often, keys that are in a write buffer
// alone not at all, unless no key is anywhere else.
//
// The tables are read, and the keys looked up, by a second view of the files: no
// counter moves and nothing enters the cache. The page cache has the sampled
// blocks afterwards.
func (d *db) SampleKeys(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) error {
	return d.settings.table.Sample(ctx, d.dir, name, n, seed, d.sampleAll, yield)
}

func (d *db) sampleAll(
	ctx context.Context, n int, seed uint64, yield func(key []byte) error,
) (err error) {
	tables, err := d.tables()
	if err != nil {
		return fmt.Errorf("goleveldb: sample keys of %s: %w", d.dir, err)
	}

	aside, err := leveldb.Open(&readOnly{dir: d.dir},
		&opt.Options{ReadOnly: true, ErrorIfMissing: true})
	if err != nil {
		return fmt.Errorf("goleveldb: open %s beside itself: %w", d.dir, err)
	}

	defer func() { err = errors.Join(err, aside.Close()) }()
	entries := make([]uint64, len(tables))
	for i, t := range tables {
		if a := d.recorder.TableLayout(t.Number); a != nil {
			entries[i] = a.Entries
		}
	}

	exists := func(key []byte) (bool, error) { return aside.Has(key, nil) }
	sample := func(draws []int, round uint64, yield func(key []byte) error) error {
		for i, number := range draws {
			file := tables[i].Number
			sampled := adapter.SampledTable{
				Rng:    rand.New(rand.NewPCG(seed+round, uint64(file))),
				Exists: exists,
			}

			err := sampleTable(ctx, &sampled, d.storage.tablePath(file), number, yield)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
				return fmt.Errorf("goleveldb: sample table %d of %s: %w", file, d.dir, err)
			}
		}

		return nil
	}

	if sampled, err := adapter.SampleTables(ctx, entries, n, seed, sample, yield); sampled ||
		err != nil {
		return err
	}

	return sampleJournals(ctx, aside, n, seed, yield)
}

// sampleJournals draws from a database without tables: a young one, or one that was closed
// during its first flush.
func sampleJournals(
	ctx context.Context, db *leveldb.DB, n int, seed uint64, yield func(key []byte) error,
) error {
	var keys [][]byte
	all := db.NewIterator(nil, nil)
	defer all.Release()
	for all.Next() {
		keys = append(keys, bytes.Clone(all.Key()))
	}

	if err := errors.Join(all.Error(), ctx.Err()); err != nil || len(keys) == 0 {
		return err
	}

	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		if err := yield(keys[rng.IntN(len(keys))]); err != nil {
			return err
		}
	}

	return nil
}

func sampleTable(
	ctx context.Context, sampled *adapter.SampledTable, path string, draws int,
	yield func(key []byte) error,
) error {
	if draws == 0 {
		return nil
	}

	return withTable(path, func(t *blockbased.Table) error {
		if t.DataBlocks() == 0 {
			return fmt.Errorf("%w: no data blocks", errDamaged)
		}

		sampled.Blocks, sampled.Block = t.DataBlocks(), func(i int) ([][]byte, error) {
			keys, _, err := t.Keys(i)
			return keys, asDamaged(err)
		}

		return sampled.Sample(ctx, draws, yield)
	})
}
