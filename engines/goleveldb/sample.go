package goleveldb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sort"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/statelab/statelab/internal/observe/blockio"
)

const (
	// fullnessSample blocks are read of a table to learn how full they are.
	fullnessSample = 8
	// refusals bounds how often a block is refused for having few entries.
	refusals = 64
	// drawAttempts bounds how often a draw is repeated that hit a key which is
	// deleted by now.
	drawAttempts = 16
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
func (d *db) SampleKeys(ctx context.Context, n int, seed uint64, yield func(key []byte) error) error {
	return d.settings.table.Sample(ctx, d.dir, name, n, seed, d.sampleAll, yield)
}

func (d *db) sampleAll(ctx context.Context, n int, seed uint64, yield func(key []byte) error) (err error) {
	tables, err := d.tables()
	if err != nil {
		return fmt.Errorf("goleveldb: sample keys of %s: %w", d.dir, err)
	}
	aside, err := leveldb.Open(&readOnly{dir: d.dir}, &opt.Options{ReadOnly: true, ErrorIfMissing: true})
	if err != nil {
		return fmt.Errorf("goleveldb: open %s beside itself: %w", d.dir, err)
	}
	defer func() { err = errors.Join(err, aside.Close()) }()
	draws := d.drawTables(tables, n, seed)
	if len(draws) == 0 {
		return sampleJournals(ctx, aside, n, seed, yield)
	}
	for _, drawn := range draws {
		s := sampler{aside: aside, rng: rand.New(rand.NewPCG(seed, uint64(drawn.number))), yield: yield}
		err := s.sampleTable(ctx, d.storage.tablePath(drawn.number), drawn.keys)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
			return fmt.Errorf("goleveldb: sample table %d of %s: %w", drawn.number, d.dir, err)
		}
	}
	return nil
}

// sampleJournals draws from a database without tables: a young one, or one that was closed
// during its first flush.
func sampleJournals(ctx context.Context, db *leveldb.DB, n int, seed uint64, yield func(key []byte) error) error {
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

// drawn tells how many keys to draw from a table.
type drawn struct {
	number blockio.FileNumber
	keys   int
}

func (d *db) drawTables(tables []blockio.LiveTable, n int, seed uint64) []drawn {
	var total uint64
	ends := make([]uint64, len(tables))
	draws := make([]drawn, len(tables))
	for i, t := range tables {
		if a := d.recorder.Anatomy(t.Number); a != nil {
			total += a.Entries
		}
		ends[i], draws[i].number = total, t.Number
	}
	if total == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		entry := rng.Uint64N(total)
		draws[sort.Search(len(ends), func(i int) bool { return ends[i] > entry })].keys++
	}
	return draws
}

type sampler struct {
	aside *leveldb.DB
	rng   *rand.Rand
	yield func(key []byte) error
}

func (s sampler) sampleTable(ctx context.Context, path string, draws int) (err error) {
	if draws == 0 {
		return nil
	}
	file, err := blockio.OpenLearning(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	t, err := readTable(file)
	if err != nil {
		return err
	}
	if len(t.data) == 0 {
		return fmt.Errorf("%w: no data blocks", errDamaged)
	}
	fullest := 0
	for range fullnessSample {
		if _, err := s.block(t, &fullest); err != nil {
			return err
		}
	}
	for range draws {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.draw(t, &fullest); err != nil {
			return err
		}
	}
	return nil
}

// block returns the keys of some block, each with the same chance.
func (s sampler) block(t *table, fullest *int) ([][]byte, error) {
	keys, err := t.keys(t.data[s.rng.IntN(len(t.data))])
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("%w: an empty data block", errDamaged)
	}
	*fullest = max(*fullest, len(keys))
	return keys, err
}

func (s sampler) draw(t *table, fullest *int) error {
	for range drawAttempts {
		key, err := s.randomKey(t, fullest)
		if err != nil {
			return err
		}
		exists, err := s.aside.Has(key, nil)
		if err != nil {
			return fmt.Errorf("look up the sampled key %x: %w", key, err)
		}
		if exists {
			return s.yield(key)
		}
	}
	return nil
}

func (s sampler) randomKey(t *table, fullest *int) ([]byte, error) {
	for range refusals - 1 {
		keys, err := s.block(t, fullest)
		if err != nil {
			return nil, err
		}
		if s.rng.IntN(*fullest) < len(keys) {
			return keys[s.rng.IntN(len(keys))], nil
		}
	}
	keys, err := s.block(t, fullest)
	if err != nil {
		return nil, err
	}
	return keys[s.rng.IntN(len(keys))], nil
}
