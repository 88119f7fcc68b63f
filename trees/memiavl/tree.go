// Package memiavl drives memiavl of Cronos: the whole tree in memory, a
// write-ahead log of the change sets, and snapshots written in the background
// that are mapped back into memory.
//
// There are two trees, as the log can be written by the commit (memiavl) or by a
// goroutine behind it (memiavl-async): a commit of the second returns before its
// changes are in a file.
//
// Goals: the version of every commit is checked; what memiavl does in the
// background is waited for before a Sync or a Close returns.
// Non-goals: old versions, whose snapshots memiavl can be told to keep.
package memiavl

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/crypto-org-chain/cronos/memiavl"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// Sync writes the log inside Commit.
func Sync() tree.Tree { return opener{async: false} }

// Async writes the log behind Commit.
func Async() tree.Tree { return opener{async: true} }

type opener struct{ async bool }

// Info describes the adapter.
func (o opener) Info() tree.Info {
	i := tree.Info{
		Name:         "memiavl",
		Version:      "v0.1.0",
		Route:        "go module github.com/crypto-org-chain/cronos/memiavl",
		Licence:      "Apache-2.0",
		RootRule:     "iavl",
		Durability:   "kill: nothing lost; power cut: all since the newest snapshot (log without fsync)",
		History:      "the newest version, and the log since the newest snapshot",
		Capabilities: []tree.Capability{tree.IsDurable},
		Profiles:     []engine.Profile{{Name: "default", About: "memiavl's defaults: a snapshot every 1000 versions, none kept but the newest"}},
	}
	if o.async {
		i.Name = "memiavl-async"
		i.Profiles = append(i.Profiles, engine.Profile{Name: benchProfile,
			About: "as iavl-bench sets it up: every change is applied by a call of its own, and the log's writer has no buffer (AsyncCommitBuffer=0)"})
		i.Durability = "kill: the versions still in the buffer since the last Sync; power cut: all since the newest snapshot (log without fsync)"
	}
	return i
}

func snapshotInterval() tree.Override {
	return tree.Override{Name: "SnapshotInterval", Default: memiavl.DefaultSnapshotInterval, Low: 1, High: math.MaxUint32}
}

const benchProfile = "iavl-bench"

func commitBuffer(profile string) tree.Override {
	buffer := int64(100)
	if profile == benchProfile {
		buffer = 0
	}
	return tree.Override{Name: "AsyncCommitBuffer", Default: buffer, Low: 0, High: 1 << 20}
}

func (o opener) overrides(profile string) []tree.Override {
	if o.async {
		return []tree.Override{snapshotInterval(), commitBuffer(profile)}
	}
	return []tree.Override{snapshotInterval()}
}

// Check names what is wrong with options.
func (o opener) Check(options tree.Options) []error {
	return options.Problems(o.Info(), o.overrides(options.Profile)...)
}

// Open opens or makes the forest in options.Dir.
func (o opener) Open(_ context.Context, options tree.Options) (tree.Forest, error) {
	name := o.Info().Name
	if errs := o.Check(options); len(errs) > 0 {
		return nil, fmt.Errorf("%s: open: %w", name, errs[0])
	}
	if err := expectDir(options); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &forest{
		name:     name,
		dir:      options.Dir,
		stores:   options.Stores,
		interval: snapshotInterval().In(options),
		buffer:   -1,
		oneByOne: options.Profile == benchProfile,
		pending:  make([][]*memiavl.KVPair, len(options.Stores)),
		behind:   &background{say: options.Log, step: options.Tell},
	}
	if o.async {
		f.buffer = commitBuffer(options.Profile).In(options)
	}
	if err := f.open(options); err != nil {
		return nil, fmt.Errorf("%s: open %s: %w", name, options.Dir, err)
	}
	return f, nil
}

// metadataFile is in every forest.
const metadataFile = "current/" + memiavl.MetadataFileName

func expectDir(o tree.Options) error {
	if o.Create {
		return o.MakeDir()
	}
	return o.NeedsFile(metadataFile)
}

// shapeOf reads a tree's size and height from the proof of one of its keys:
// memiavl keeps the root node to itself, but the last step of a proof is the root
// and starts with its height and size.
func shapeOf(t *memiavl.Tree) (tree.StoreShape, error) {
	keys := t.Iterator(nil, nil, true)
	if !keys.Valid() {
		return tree.StoreShape{}, keys.Close()
	}
	proof, err := t.GetMembershipProof(keys.Key())
	if err != nil {
		return tree.StoreShape{}, err
	}
	steps := proof.GetExist().GetPath()
	if len(steps) == 0 {
		return tree.StoreShape{Leaves: 1}, keys.Close()
	}
	root := steps[len(steps)-1].GetPrefix()
	height, n := binary.Varint(root)
	leaves, m := binary.Varint(root[max(n, 0):])
	if n <= 0 || m <= 0 {
		return tree.StoreShape{}, fmt.Errorf("the proof's last step %x does not start with two numbers", root)
	}
	return tree.StoreShape{Leaves: leaves, Height: int(height)}, keys.Close()
}
