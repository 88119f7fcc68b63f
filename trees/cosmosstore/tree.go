// Package cosmosstore drives the Cosmos SDK's multistore, which a node commits
// its blocks through: iavl v1 trees in an application.db, and a record of every
// version that names their roots.
//
// Goals: what the SDK adds to the trees under it: compare with iavl1.
// Non-goals: the caches that a block is executed on (cachekv, gaskv). Changes go
// to the trees in the order they come in.
package cosmosstore

import (
	"context"
	"errors"
	"fmt"

	"cosmossdk.io/log/v2"
	db "github.com/cosmos/cosmos-db"
	"github.com/cosmos/cosmos-sdk/store/v2/rootmulti"
	"github.com/cosmos/cosmos-sdk/store/v2/types"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/iavlforest"
	"github.com/statelab/statelab/tree"
)

// Tree opens multistores.
type Tree struct{}

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name:         "cosmosstore",
		Version:      "v2.0.0 (iavl v1.2.8)",
		Route:        "go module github.com/cosmos/cosmos-sdk/store/v2",
		Licence:      "Apache-2.0",
		RootRule:     "iavl",
		Durability:   "kill or power cut: nothing lost (every commit ends with an fsync of goleveldb's journal)",
		History:      "every version",
		Capabilities: []tree.Capability{tree.IsDurable, tree.KeepsAll, tree.CountsReads},
		Profiles:     []engine.Profile{{Name: "goleveldb", About: iavlforest.AboutLevelDB + ", no pruning"}},
	}
}

func disableFastNode() tree.Override {
	return tree.Override{Name: "IAVLDisableFastNode", Default: 0, Low: 0, High: 1}
}

// Check names what is wrong with o.
func (t Tree) Check(o tree.Options) []error {
	return iavlforest.Problems(t.Info(), o, disableFastNode())
}

// Open opens or makes the forest in o.Dir.
func (t Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	o, err := iavlforest.Prepare("cosmosstore", o, t.Check(o))
	if err != nil {
		return nil, err
	}
	level, err := db.NewGoLevelDB(iavlforest.DatabaseName, o.Dir, nil)
	if err != nil {
		return nil, fmt.Errorf("cosmosstore: open %s: %w", o.Dir, err)
	}
	counter := &iavlforest.Counter{IsNode: isNode}
	f := &forest{
		level:       levelDB{level},
		counter:     counter,
		failures:    &failures{say: o.Log},
		names:       o.Stores,
		cacheNodes:  o.CacheNodes,
		noFastNodes: disableFastNode().In(o) == 1,
	}
	if err := f.open(o); err != nil {
		return nil, fmt.Errorf("cosmosstore: open %s: %w", o.Dir, errors.Join(err, level.Close()))
	}
	return f, nil
}

func (f *forest) open(o tree.Options) error {
	version, killed, err := iavlforest.Start(f.level, o)
	if err != nil {
		return err
	}
	f.multi = rootmulti.NewStore(counted{f.level, f.counter}, logger{log.NewNopLogger(), f.failures})
	f.multi.SetIAVLCacheSize(int(f.cacheNodes))
	f.multi.SetIAVLDisableFastNode(f.noFastNodes)
	f.multi.SetIAVLSyncPruning(true) // the multistore cannot stop the goroutines that prune behind it
	keys := make([]*types.KVStoreKey, len(f.names))
	for i, name := range f.names {
		keys[i] = types.NewKVStoreKey(name)
		f.multi.MountStoreWithDB(keys[i], types.StoreTypeIAVL, nil)
	}
	if err := f.multi.LoadLatestVersion(); err != nil {
		return err
	}
	if killed && version > 0 {
		if err := f.multi.RollbackToVersion(version); err != nil {
			return fmt.Errorf("take back what follows version %d: %w", version, err)
		}
	}
	f.next = version + 1
	if version == 0 && o.FirstVersion > 1 {
		f.next = o.FirstVersion
		if err := f.multi.SetInitialVersion(o.FirstVersion); err != nil {
			return err
		}
	}
	f.version = version
	for _, key := range keys {
		f.stores = append(f.stores, f.multi.GetStore(key).(types.CommitKVStore))
	}
	return f.failures.any()
}
