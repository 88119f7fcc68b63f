// Package iavl0 drives iavl v0, the state tree of Cosmos chains before 2023: one
// tree a store, all on one goleveldb laid out as an SDK node's application.db.
// Nodes are stored by hash, and every version writes what it orphans.
//
// Non-goals: pruning, and harvesting, which iavl1 does for both formats.
package iavl0

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"

	db "github.com/cosmos/cosmos-db"
	"github.com/cosmos/iavl"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/iavlforest"
	"github.com/statelab/statelab/tree"
)

// Tree opens iavl v0 forests.
type Tree struct{}

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name:     "iavl0",
		Version:  "v0.21.1",
		Route:    "go module github.com/cosmos/iavl",
		Licence:  "Apache-2.0",
		RootRule: "iavl",
		Durability: "kill: nothing lost (every commit is written to the kernel); power cut: " +
			"the newest commits lost (goleveldb's journal without fsync)",
		History: "every version",
		Capabilities: []tree.Capability{tree.IsDurable, tree.KeepsAll, tree.CountsReads,
			tree.CountsCache},
		Profiles: []engine.Profile{{Name: "goleveldb", About: iavlforest.AboutLevelDB},
			iavlforest.Bench("a goleveldb for every store, without filters, no fast nodes, " +
				"10,000 nodes cached a store")},
	}
}

// Check names what is wrong with o.
func (t Tree) Check(o tree.Options) []error {
	return iavlforest.Problems(t.Info(), o, iavlforest.SkipFastStorage(),
		iavlforest.SyncEveryBatch())
}

// Open opens or makes the forest in o.Dir.
func (t Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	o, err := iavlforest.Prepare("iavl0", o, t.Check(o))
	if err != nil {
		return nil, err
	}

	if o.Profile == iavlforest.BenchProfile {
		o.CacheNodes = cmp.Or(o.CacheNodes, 10_000)
		overrides := map[string]string{iavlforest.SkipFastStorage().Name: "1"}
		maps.Copy(overrides, o.Overrides)
		o.Overrides = overrides
	}

	level, err := db.NewGoLevelDB(iavlforest.DatabaseName, o.Dir, nil)
	if err != nil {
		return nil, fmt.Errorf("iavl0: open %s: %w", o.Dir, err)
	}

	return iavlforest.Open(library(o, levelDB{level}), o)
}

func library(o tree.Options, level levelDB) iavlforest.Library {
	skip, sync := iavlforest.SkipFastStorage().In(o) == 1, iavlforest.SyncEveryBatch().In(o) == 1
	counter := &iavlforest.Counter{IsNode: isNode}
	stats := &iavl.Statistics{}
	database, below := iavlforest.StoreOpener(o, level,
		func(prefix []byte) db.DB { return db.NewPrefixDB(level, prefix) },
		func(store string) (db.DB, error) {
			return db.NewGoLevelDBWithOpts(store, o.Dir, &opt.Options{})
		})

	return iavlforest.Library{
		Name:     "iavl0",
		Database: database,
		Counter:  counter,
		Cache: func() (hits, misses uint64) {
			return stats.GetCacheHitCnt(), stats.GetCacheMissCnt()
		},
		Effective: map[string]string{
			"CacheSize":              strconv.FormatInt(o.CacheNodes, 10),
			"SkipFastStorageUpgrade": strconv.FormatBool(skip),
			"Sync":                   strconv.FormatBool(sync),
		},
		Open: func(store string, version int64, repair bool) (iavlforest.Store, error) {
			level, prefixBytes, err := below(store)
			if err != nil {
				return nil, err
			}

			options := &iavl.Options{Sync: sync, Stat: stats}
			if version == 0 && o.FirstVersion > 1 {
				options.InitialVersion = uint64(o.FirstVersion)
			}

			t, err := iavl.NewMutableTreeWithOpts(counted{level, counter, prefixBytes},
				int(o.CacheNodes), options, skip)
			if err != nil {
				return nil, err
			}

			if repair && version > 0 {
				_, err = t.LoadVersionForOverwriting(version)
			} else {
				_, err = t.LoadVersion(version)
			}

			return t, err
		},
	}
}

type levelDB struct{ *db.GoLevelDB }

func (d levelDB) Scan(start, end []byte) (iavlforest.Iterator, error) {
	return d.Iterator(start, end)
}

// counted counts what a store's tree asks of its part of the database.
type counted struct {
	db.DB
	counter     *iavlforest.Counter
	prefixBytes int
}

func (d counted) Get(key []byte) ([]byte, error) {
	d.counter.Get()
	return d.DB.Get(key)
}

func (d counted) Has(key []byte) (bool, error) {
	d.counter.Get()
	return d.DB.Has(key)
}

func (d counted) NewBatch() db.Batch { return d.counter.Batch(d.DB.NewBatch(), d.prefixBytes) }

func (d counted) NewBatchWithSize(n int) db.Batch {
	return d.counter.Batch(d.DB.NewBatchWithSize(n), d.prefixBytes)
}

func isNode(key, _ []byte) bool { return key[0] == 'n' }
