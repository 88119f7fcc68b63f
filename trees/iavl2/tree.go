//go:build cgo

// Package iavl2 drives iavl v2: leaves are written to SQLite at every version,
// inner nodes at checkpoints; what lies between is replayed when a store opens.
//
// Stores commit side by side, as in the library's own multi-store, which cannot
// be used itself: it stumbles over empty stores.
//
// Goals: the roots of iavl, and a forest that opens again at its newest version
// whatever was written to it.
// Non-goals: pruning. A kill between the steps with which the library puts a
// pruned file in place of the others leaves a store that it cannot open.
package iavl2

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/cosmos/iavl/v2"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// Tree opens iavl v2 forests.
type Tree struct{}

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name:         "iavl2",
		Version:      "v2.0.0-alpha.5.0.20250829183505-8e11ef38d394",
		Route:        "go module github.com/cosmos/iavl/v2 (cgo, SQLite)",
		Licence:      "Apache-2.0",
		RootRule:     "iavl",
		Durability:   "kill: nothing lost; power cut: the forest may not open (SQLite with synchronous=OFF)",
		History:      "every version",
		Capabilities: []tree.Capability{tree.IsDurable, tree.KeepsAll, tree.CountsReads},
		Profiles: []engine.Profile{{
			Name:  "default",
			About: "the library's defaults but for pruning, which is off: a checkpoint every 1000 versions, nothing cached beyond it",
		}, {
			Name:  benchProfile,
			About: "as iavl-bench sets it up: stores commit one after the other, and a version that cannot be replayed makes no checkpoint (ForceCheckpoints=0)",
		}},
	}
}

const benchProfile = "iavl-bench"

func checkpointInterval() tree.Override {
	return tree.Override{Name: "CheckpointInterval", Default: 1000, Low: 1, High: math.MaxInt32}
}

// evictionDepth is the depth from which a checkpoint drops nodes from memory.
func evictionDepth() tree.Override {
	return tree.Override{Name: "EvictionDepth", Default: -1, Low: -1, High: math.MaxInt8}
}

// heightFilter is 1 to drop leaves from memory at every version, 0 to keep them.
func heightFilter() tree.Override {
	return tree.Override{Name: "HeightFilter", Default: 1, Low: 0, High: 1}
}

// forceCheckpoints is 0 to leave versions that cannot be replayed as the library
// leaves them: the forest then opens again only if a checkpoint follows them.
func forceCheckpoints(profile string) tree.Override {
	force := int64(1)
	if profile == benchProfile {
		force = 0
	}
	return tree.Override{Name: "ForceCheckpoints", Default: force, Low: 0, High: 1}
}

// Check names what is wrong with o.
func (t Tree) Check(o tree.Options) []error {
	errs := o.Problems(t.Info(), checkpointInterval(), evictionDepth(), heightFilter(), forceCheckpoints(o.Profile))
	for _, path := range append([]string{o.Dir}, o.Stores...) {
		if strings.ContainsAny(path, "?#%'") {
			errs = append(errs, fmt.Errorf("path %s: SQLite is given it as an address: use one without ? # %% and '", path))
		}
	}
	return errs
}

// Open opens or makes the forest in o.Dir.
func (t Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	if errs := t.Check(o); len(errs) > 0 {
		return nil, fmt.Errorf("iavl2: open: %w", errs[0])
	}
	if err := expectDir(o); err != nil {
		return nil, fmt.Errorf("iavl2: %w", err)
	}
	f := &forest{
		options: treeOptions(o),
		force:   forceCheckpoints(o.Profile).In(o) == 1,
		inTurn:  o.Profile == benchProfile,
		next:    max(1, o.FirstVersion),
		ignored: o.CacheNodes > 0 || o.MemoryBytes > 0,
	}
	f.options.MetricsProxy = &f.counts
	if err := f.open(o); err != nil {
		return nil, fmt.Errorf("iavl2: open %s: %w", o.Dir, err)
	}
	return f, nil
}

func treeOptions(o tree.Options) iavl.TreeOptions {
	options := iavl.DefaultTreeOptions()
	options.CheckpointInterval = checkpointInterval().In(o)
	options.EvictionDepth = int8(evictionDepth().In(o))
	options.HeightFilter = int8(heightFilter().In(o))
	options.PruneRatio = 0
	return options
}

// rootsFile is in the folder of every store.
const rootsFile = "root.sqlite"

// expectDir wants an empty directory, or the folders of exactly these stores.
func expectDir(o tree.Options) error {
	if o.Create {
		return o.MakeDir()
	}
	roots, err := filepath.Glob(filepath.Join(o.Dir, "*", rootsFile))
	if err != nil {
		return fmt.Errorf("open %s: %w", o.Dir, err)
	}
	if len(roots) == 0 {
		return o.NeedsFile(filepath.Join(o.Stores[0], rootsFile))
	}
	var held []string
	for _, path := range roots {
		held = append(held, filepath.Base(filepath.Dir(path)))
	}
	return o.SameStores(held)
}
