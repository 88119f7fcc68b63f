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

// SampleKeys calls yield with n keys (fewer where nearly all are deleted), each key that is there
// with the same chance, whatever the sizes and however often it was written: a draw chooses a data
// block, each of all tables with the same chance, and an entry of it; it is refused as often as the
// block has fewer entries than the fullest seen, since no table tells how many it has
// (adapter.SampledTable). An entry that is deleted, or that another table has a newer version of
// (adapter.NewestVersions), begins another draw. Keys that are in a write buffer alone are not
// drawn, unless no key is anywhere else.
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
	sample := adapter.TableSample{Weights: make([]uint64, len(tables)), Fullest: new(int)}
	listed := make([]adapter.LevelTable, len(tables))
	for i, t := range tables {
		listed[i].Level = t.Level
		err := withTable(d.storage.tablePath(t.Number), func(t *blockbased.Table) (err error) {
			sample.Weights[i] = uint64(t.DataBlocks())
			listed[i].Smallest, listed[i].Largest, err = boundsOf(t)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
			return fmt.Errorf("goleveldb: sample table %d of %s: %w", t.Number, d.dir, err)
		}
	}

	newest := adapter.NewNewestVersions(listed, func(i int) (adapter.VersionFinder, error) {
		return blockbased.OpenTable(d.storage.tablePath(tables[i].Number))
	})
	defer func() { err = errors.Join(err, newest.Close()) }()
	sample.Draw = func(draws []int, round uint64) (met []adapter.Drawn, err error) {
		for i, number := range draws {
			file := tables[i].Number
			sampled := adapter.SampledTable{
				Rng:     rand.New(rand.NewPCG(seed+round, uint64(file))),
				Fullest: sample.Fullest,
				Counts: func(e adapter.SampledEntry) (bool, error) {
					if is, err := newest.Is(i, e); !is || err != nil {
						return false, asDamaged(err)
					}
					return aside.Has(e.Key, nil)
				},
			}

			further, err := sampleTable(ctx, &sampled, d.storage.tablePath(file), number)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
				return nil, fmt.Errorf("goleveldb: sample table %d of %s: %w", file, d.dir, err)
			}

			met = append(met, further...)
		}

		return met, nil
	}

	if sampled, err := sample.Keys(ctx, n, seed, yield); sampled || err != nil {
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
) (met []adapter.Drawn, err error) {
	if draws == 0 {
		return nil, nil
	}

	err = withTable(path, func(t *blockbased.Table) (err error) {
		sampled.Blocks = t.DataBlocks()
		sampled.Block = func(i int) (all []adapter.SampledEntry, err error) {
			entries, _, err := t.Versions(i)
			for _, e := range entries {
				all = append(all, adapter.SampledEntry{Key: e.Key, Version: e.SeqNum})
			}
			return all, asDamaged(err)
		}

		met, err = sampled.Sample(ctx, draws)
		return err
	})

	return met, err
}
