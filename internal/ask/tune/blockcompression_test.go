//go:build cgo

package tune

import (
	"maps"
	"strconv"
	"testing"

	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/result"
)

// TestBlockCompressionIsBuilt is TestCompressionIsBuilt with RocksDB, whose last level takes all
// keys, so that each load makes the same levels.
func TestBlockCompressionIsBuilt(t *testing.T) {
	keys := uint64(600_000)
	if testing.Short() {
		keys = 150_000
	}

	e := rocksdb.Engine{}
	build := func(options map[string]string) database {
		all := map[string]string{
			"max_bytes_for_level_base":           "1073741824",
			"target_file_size_base":              "1073741824",
			"level0_file_num_compaction_trigger": "1",
		}

		maps.Copy(all, options)
		return load(t, e, "partitioned", workload.FillRandom, keyspace.TrieNode, keys, all)
	}

	base := build(nil)
	a := Request{
		Gets:  base.gets(100_000, 0.5),
		Seeds: []uint64{5},
		Cores: 2,
		Tell:  func(result.Event) {},
	}

	if err := a.Choose(t.Context(), base.run, ""); err != nil {
		t.Fatal(err)
	}

	if err := a.ReadStoredOptions(a.Gets.Spec.Dir); err != nil {
		t.Fatal(err)
	}

	proveCompressions(t, &a, int64(keys)*5, build)
}

// TestBlockPassesAreCounted is TestPassesAreCounted with RocksDB.
func TestBlockPassesAreCounted(t *testing.T) {
	for _, buffer := range []int{1 << 20, 4 << 20} {
		comparePasses(t, rocksdb.Engine{}, "default",
			map[string]string{
				"write_buffer_size":        strconv.Itoa(buffer),
				"target_file_size_base":    strconv.Itoa(buffer),
				"max_bytes_for_level_base": strconv.Itoa(4 * buffer),
			}, "rocksdb")
	}
}
