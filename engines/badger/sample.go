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
	"sort"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"
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
	for _, drawn := range drawTables(d.badger.Tables(), n, seed) {
		s := sampler{db: d, rng: rand.New(rand.NewPCG(seed, drawn.id)), yield: yield}
		err := s.sampleTable(ctx, drawn, stored[drawn.id].Compression)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
			return fmt.Errorf("badger: sample table %d of %s: %w", drawn.id, d.dir, err)
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

// drawn tells how many keys to draw from a table.
type drawn struct {
	id   uint64
	keys int
}

func drawTables(tables []badger.TableInfo, n int, seed uint64) []drawn {
	var total uint64
	ends := make([]uint64, len(tables))
	draws := make([]drawn, len(tables))
	for i, t := range tables {
		total += uint64(t.KeyCount)
		ends[i], draws[i].id = total, t.ID
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
	db    *db
	rng   *rand.Rand
	yield func(key []byte) error
}

func (s sampler) sampleTable(ctx context.Context, d drawn, stored options.CompressionType) (err error) {
	if d.keys == 0 {
		return nil
	}
	file, err := z.OpenMmapFile(table.NewFilename(d.id, s.db.dir), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	opened, err := table.OpenTable(file, table.Options{ReadOnly: true, Compression: stored, BlockSize: s.db.settings.BlockSize})
	if err != nil {
		return errors.Join(err, file.Close(-1))
	}
	// Close, not DecrRef, which deletes the file.
	defer func() { err = errors.Join(err, file.Close(-1)) }()
	blocks := opened.KeySplits(math.MaxInt, nil)
	if len(blocks) == 0 {
		return errors.New("a table without blocks")
	}
	t := sampledTable{table: opened, blocks: blocks, rng: s.rng}
	for range fullnessSample {
		if _, err := t.someBlock(); err != nil {
			return err
		}
	}
	for range d.keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.draw(&t); err != nil {
			return err
		}
	}
	return nil
}

func (s sampler) draw(t *sampledTable) error {
	for range drawAttempts {
		key, err := t.randomKey()
		if err != nil {
			return err
		}
		err = s.db.badger.View(func(transaction *badger.Txn) error {
			_, err := transaction.Get(key)
			return err
		})
		if err == nil {
			return s.yield(key)
		}
		if !errors.Is(err, badger.ErrKeyNotFound) {
			return fmt.Errorf("look up the sampled key %x: %w", key, err)
		}
	}
	return nil
}

// sampledTable is a table whose blocks can be read one by one.
type sampledTable struct {
	table   *table.Table
	blocks  []string // their first keys, with versions
	rng     *rand.Rand
	fullest int // keys in the fullest block so far
}

func (t *sampledTable) randomKey() ([]byte, error) {
	for attempt := 1; ; attempt++ {
		keys, err := t.someBlock()
		if err != nil {
			return nil, err
		}
		if attempt == refusals || t.rng.IntN(t.fullest) < len(keys) {
			return keys[t.rng.IntN(len(keys))], nil
		}
	}
}

// someBlock returns the keys of some block, each with the same chance.
func (t *sampledTable) someBlock() (keys [][]byte, err error) {
	chosen := t.rng.IntN(len(t.blocks))
	iterator := t.table.NewIterator(table.NOCACHE)
	defer func() { err = errors.Join(err, iterator.Close()) }()
	for iterator.Seek([]byte(t.blocks[chosen])); iterator.Valid(); iterator.Next() {
		key := iterator.Key()
		if chosen+1 < len(t.blocks) && y.CompareKeys(key, []byte(t.blocks[chosen+1])) >= 0 {
			break
		}
		keys = append(keys, bytes.Clone(y.ParseKey(key)))
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("block %d is empty", chosen)
	}
	t.fullest = max(t.fullest, len(keys))
	return keys, nil
}
