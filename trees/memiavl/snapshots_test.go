package memiavl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cosmossdk.io/log"
	"github.com/cosmos/iavl"
	"github.com/cosmos/iavl/db"

	"github.com/statelab/statelab/tree"
)

const versions = 5000

func stores() []string { return []string{"bank", "empty", "staking", "wasm"} }

// TestSnapshotsAndAnAsyncLog is what memiavl up to v0.0.3 failed at: a snapshot
// that was finished before the log's writer had caught up took the tree back
// some versions. Every root is held against iavl's.
func TestSnapshotsAndAnAsyncLog(t *testing.T) {
	want := iavlRoots(t)
	for _, c := range []struct {
		name   string
		tree   tree.Tree
		buffer string
	}{
		{"sync", Sync(), ""},
		{"async 0", Async(), "0"},
		{"async 10", Async(), "10"},
		{"async 100", Async(), "100"},
	} {
		t.Run(c.name, func(t *testing.T) { playThroughSnapshots(t, c.tree, c.buffer, want) })
	}
}

func playThroughSnapshots(t *testing.T, tr tree.Tree, buffer string, want [][][]byte) {
	var switched atomic.Int64
	o := tree.Options{
		Dir: filepath.Join(t.TempDir(), "forest"), Create: true, Stores: stores(),
		Overrides: map[string]string{"SnapshotInterval": "100"},
		Log: func(line string) {
			if strings.HasPrefix(line, "switched to new snapshot") {
				switched.Add(1)
			}
		},
	}

	if buffer != "" {
		o.Overrides["AsyncCommitBuffer"] = buffer
	}

	f, err := tr.Open(t.Context(), o)
	must(t, err)
	for v := range versions {
		if v%100 == 50 { // a slow writer would leave most snapshots out
			must(t, poll(t.Context(), f.(*forest).behind.idle))
		}

		must(t, write(f, v))
		c, err := f.Commit(t.Context())
		must(t, err)
		if c.Version != int64(v+1) || !equal(c.Roots, want[v]) {
			t.Fatalf("version %d with roots %x, want %d with %x", c.Version, c.Roots, v+1, want[v])
		}
	}

	if n := switched.Load(); n < 10 {
		t.Errorf("switched to %d snapshots: too few to show anything", n)
	} else {
		t.Logf("switched to %d snapshots", n)
	}

	must(t, f.Sync(t.Context()))
	snapshots, err := filepath.Glob(filepath.Join(o.Dir, "snapshot-*"))
	must(t, err)
	if len(snapshots) > 2 { // the one opened and the one written since
		t.Errorf("%v are left after a Sync", snapshots)
	}

	must(t, f.Close())

	o.Create = false
	f, err = tr.Open(t.Context(), o)
	must(t, err)
	if f.Version() != versions {
		t.Errorf("reopened at version %d, want %d", f.Version(), versions)
	}

	c, err := f.Commit(t.Context())
	must(t, err)
	if c.Version != versions+1 || !equal(c.Roots, want[versions-1]) {
		t.Errorf("after reopening: version %d with roots %x, want %d with %x", c.Version, c.Roots,
			versions+1, want[versions-1])
	}

	must(t, f.Close())
}

// change number i of a version is seeded by both.
func change(version, i int) (store int, key, value []byte, remove bool) {
	rng := rand.New(rand.NewPCG(uint64(version), uint64(i)))
	store = []int{0, 2, 3}[rng.IntN(3)]
	key = binary.BigEndian.AppendUint32([]byte("account"), rng.Uint32N(5000)*2654435761)
	value = bytes.Repeat([]byte{byte(i), byte(version)}, rng.IntN(60)) // some are empty
	return store, key, value, rng.IntN(5) == 0
}

func changesIn(version int) int {
	if version%50 == 49 {
		return 0
	}
	return 3 + version%6
}

func write(f tree.Forest, version int) error {
	for i := range changesIn(version) {
		store, key, value, remove := change(version, i)
		var err error
		if remove {
			err = f.Remove(store, key)
		} else {
			err = f.Set(store, key, value)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// iavlRoots are of every version and store, by the library that memiavl stands
// in for.
func iavlRoots(t *testing.T) [][][]byte {
	t.Helper()
	var trees []*iavl.MutableTree
	for range stores() {
		trees = append(trees, iavl.NewMutableTree(db.NewMemDB(), 10_000, true, log.NewNopLogger()))
	}

	roots := make([][][]byte, versions)
	for v := range versions {
		for i := range changesIn(v) {
			store, key, value, remove := change(v, i)
			var err error
			if remove {
				_, _, err = trees[store].Remove(key)
			} else {
				_, err = trees[store].Set(key, value)
			}

			must(t, err)
		}

		for _, tr := range trees {
			root, _, err := tr.SaveVersion()
			must(t, err)
			roots[v] = append(roots[v], root)
		}
	}

	return roots
}

func equal(a, b [][]byte) bool { return fmt.Sprintf("%x", a) == fmt.Sprintf("%x", b) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
