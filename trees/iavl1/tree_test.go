package iavl1

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/statelab/statelab/tree"
	"github.com/statelab/statelab/tree/treetest"
)

func TestTree(t *testing.T) { treetest.Run(t, Tree{}) }

func TestMapTree(t *testing.T) { treetest.Run(t, MapTree{}) }

// TestSmallBatches is the suite with batches so small that a kill leaves a part
// of a version behind.
func TestSmallBatches(t *testing.T) { treetest.Run(t, smallBatches{}) }

type smallBatches struct{ Tree }

func (s smallBatches) Open(ctx context.Context, o tree.Options) (tree.Forest, error) {
	if len(o.Overrides) == 0 {
		o.Overrides = map[string]string{"FlushThreshold": "1000"}
	}
	return s.Tree.Open(ctx, o)
}

// TestCountersMatchTheDatabase holds what was counted against what goleveldb has,
// and against another run of the same: the counters are exact.
func TestCountersMatchTheDatabase(t *testing.T) {
	run := func() (tree.Counters, string) {
		dir := filepath.Join(t.TempDir(), "forest")
		f, err := Tree{}.Open(t.Context(), tree.Options{
			Dir: dir, Create: true, Stores: []string{"bank", "empty"}, CacheNodes: 100,
			Overrides: map[string]string{"SkipFastStorageUpgrade": "1"},
		})

		must(t, err)
		for v := range 20 {
			for i := range 50 * min(v%3, 1) { // every third version is empty
				must(t,
					f.Set(0, fmt.Appendf(nil, "key%d", i*(v+7)%300),
						fmt.Appendf(nil, "value%030d", v)))
			}

			must(t, f.Remove(0, fmt.Appendf(nil, "key%d", v)))
			commit(t, f)
		}

		counters := f.Counters()
		must(t, f.Close())
		return counters, dir
	}

	c, dir := run()
	level, err := openLevelDB(dir, "application", true)
	must(t, err)
	all, err := level.Iterator([]byte("s/k:"), []byte("s/k;"))
	must(t, err)
	var entries, bytes, roots int64
	for ; all.Valid(); all.Next() {
		entries++
		bytes += int64(len(all.Key()) + len(all.Value()))
		if len(all.Value()) < 20 { // empty, or the key of another root: no node is so short
			roots++
		}
	}

	must(t, errors.Join(all.Error(), all.Close(), level.Close()))
	if *c.DBSets != entries || *c.DBBytes != bytes || *c.Nodes != entries-roots {
		t.Errorf("counted %d sets of %d bytes, %d nodes; the database has %d entries of %d "+
			"bytes, %d of them roots without a node",
			*c.DBSets, *c.DBBytes, *c.Nodes, entries, bytes, roots)
	}

	again, _ := run()
	if !reflect.DeepEqual(c, again) {
		t.Errorf("the same run counted %v, then %v", c, again)
	}

	if *c.DBGets == 0 || *c.CacheHits == 0 || *c.CacheMisses == 0 || *c.CacheMisses > *c.DBGets {
		t.Errorf("%d lookups, %d cache hits and %d misses", *c.DBGets, *c.CacheHits, *c.CacheMisses)
	}
}
