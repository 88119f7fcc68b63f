package iavlforest

import (
	"fmt"

	"github.com/statelab/statelab/tree"
)

// defaultCacheNodes is what was measured before.
const defaultCacheNodes = 1_000_000

// AboutLevelDB describes the one profile of a tree on the SDK's database.
const AboutLevelDB = "goleveldb as the SDK opens it (filters of 10 bits a key), fast nodes, 1,000,000 nodes cached a store"

// SkipFastStorage is iavl's option to keep no index of newest values.
func SkipFastStorage() tree.Override {
	return tree.Override{Name: "SkipFastStorageUpgrade", Default: 0, Low: 0, High: 1}
}

// SyncEveryBatch is iavl's option to write batches with an fsync.
func SyncEveryBatch() tree.Override {
	return tree.Override{Name: "Sync", Default: 0, Low: 0, High: 1}
}

// Problems names what is wrong with o for a tree of iavl's, which counts nodes of its
// cache, not bytes.
func Problems(i tree.Info, o tree.Options, known ...tree.Override) []error {
	errs := o.Problems(i, known...)
	if o.MemoryBytes > 0 {
		errs = append(errs, fmt.Errorf("%s does not support a memory budget: use --cache-nodes N", i.Name))
	}
	return errs
}

// Prepare fails where there are problems or o.Dir does not hold a database as o expects,
// and returns o with a cache.
func Prepare(name string, o tree.Options, problems []error) (tree.Options, error) {
	if len(problems) > 0 {
		return o, fmt.Errorf("%s: open: %w", name, problems[0])
	}
	expect := func() error { return o.NeedsFile(databaseDir + "/CURRENT") }
	if o.Create {
		expect = o.MakeDir
	}
	if err := expect(); err != nil {
		return o, fmt.Errorf("%s: %w", name, err)
	}
	return WithCache(o), nil
}

// WithCache returns o with the cache of its profile; what iavl-bench gives a tree is
// the tree's to say.
func WithCache(o tree.Options) tree.Options {
	if o.CacheNodes == 0 && o.Profile != BenchProfile {
		o.CacheNodes = defaultCacheNodes
	}
	return o
}
