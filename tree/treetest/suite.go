// Package treetest is the admission suite for trees: what every adapter has to
// show before its figures are worth anything. It runs the real tree on real
// files, and holds its roots against those of another implementation.
//
// Non-goals: speed, and what is special to one tree.
package treetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/statelab/statelab/tree"
)

// Run tests tr. It must be called from a top-level test, directly: the suite
// runs that test again in a child process, to kill it.
func Run(t *testing.T, tr tree.Tree) {
	if dir := os.Getenv(childDir); dir != "" {
		child(tr, dir)
	}
	s := suite{tree: tr, info: tr.Info()}
	lasting := !s.info.Has(tree.IsVolatile)
	for _, c := range []struct {
		name  string
		run   func(suite, *testing.T)
		apply bool
	}{
		{"Info", suite.testInfo, true},
		{"Check", suite.testCheck, true},
		{"Changes", suite.testChanges, true},
		{"BuffersAreTheCallers", suite.testBuffersAreTheCallers, true},
		{"EmptyStores", suite.testEmptyStores, true},
		{"EmptyVersions", suite.testEmptyVersions, true},
		{"FirstVersion", suite.testFirstVersion, true},
		{"Roots", suite.testRoots, true},
		{"ReadersSideBySide", suite.testReadersSideBySide, true},
		{"CountersOnlyGrow", suite.testCountersOnlyGrow, true},
		{"CloseLeavesNothingBehind", suite.testCloseLeavesNothingBehind, true},

		{"Reopen", suite.testReopen, lasting},
		{"UncommittedIsDropped", suite.testUncommittedIsDropped, lasting},
		{"OtherStores", suite.testOtherStores, lasting},
		{"NotAForest", suite.testNotAForest, lasting},
		{"CreateNeedsAnEmptyDirectory", suite.testCreateNeedsAnEmptyDirectory, lasting},
		{"SurvivesKill", suite.testSurvivesKill, s.info.Has(tree.IsDurable)},
		{"Harvest", suite.testHarvest, s.info.Has(tree.Harvests)},
	} {
		if c.apply {
			t.Run(c.name, func(t *testing.T) { c.run(s, t) })
		}
	}
}

type suite struct {
	tree tree.Tree
	info tree.Info
}

// cacheNodes is small against what the tests commit.
const cacheNodes = 1000

func (s suite) open(t *testing.T, o tree.Options) tree.Forest {
	t.Helper()
	if o.Stores == nil {
		o.Stores = storeNames()
	}
	if o.CacheNodes == 0 {
		o.CacheNodes = cacheNodes
	}
	f, err := s.tree.Open(t.Context(), o)
	must(t, err)
	return f
}

// create makes a forest that is closed when the test ends.
func (s suite) create(t *testing.T) tree.Forest {
	t.Helper()
	f := s.open(t, tree.Options{Dir: newDir(t), Create: true})
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

func newDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "forest")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, f tree.Forest, store int, key, value string) {
	t.Helper()
	must(t, f.Set(store, []byte(key), []byte(value)))
}

func remove(t *testing.T, f tree.Forest, store int, key string) {
	t.Helper()
	must(t, f.Remove(store, []byte(key)))
}

// commit wants the next version and a root for every store.
func commit(t *testing.T, f tree.Forest) [][]byte {
	t.Helper()
	want := f.Version() + 1
	c, err := f.Commit(t.Context())
	must(t, err)
	must(t, complete(c, f, want))
	return c.Roots
}

func complete(c tree.Commit, f tree.Forest, want int64) error {
	if c.Version != want || f.Version() != want {
		return fmt.Errorf("the commit returned version %d and the forest is at %d, want %d", c.Version, f.Version(), want)
	}
	if len(c.Roots) != len(storeNames()) {
		return fmt.Errorf("version %d has %d roots for %d stores", want, len(c.Roots), len(storeNames()))
	}
	for store, root := range c.Roots {
		if len(root) != 32 {
			return fmt.Errorf("version %d: root %x of %s", want, root, storeNames()[store])
		}
	}
	return nil
}

func reader(t *testing.T, f tree.Forest) tree.Reader {
	t.Helper()
	r, err := f.Reader()
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// expect fails unless f holds exactly value under key.
func expect(t *testing.T, f tree.Forest, store int, key, value string) {
	t.Helper()
	got, found, err := reader(t, f).Get(store, []byte(key), nil)
	must(t, err)
	if !found || string(got) != value {
		t.Errorf("%s %q holds %q, %v; want %q", storeNames()[store], key, got, found, value)
	}
}

func expectMissing(t *testing.T, f tree.Forest, store int, key string) {
	t.Helper()
	got, found, err := reader(t, f).Get(store, []byte(key), []byte("old"))
	must(t, err)
	if found || len(got) > 0 {
		t.Errorf("%s %q holds %q, %v; want nothing", storeNames()[store], key, got, found)
	}
}

func expectLeaves(t *testing.T, f tree.Forest, want ...int64) {
	t.Helper()
	shape, err := f.Shape()
	must(t, err)
	if len(shape) != len(want) {
		t.Fatalf("%d stores have a shape, want %d", len(shape), len(want))
	}
	for i, s := range shape {
		if s.Leaves != want[i] {
			t.Errorf("%s has %d leaves, want %d", storeNames()[i], s.Leaves, want[i])
		}
	}
}

func sameRoots(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
