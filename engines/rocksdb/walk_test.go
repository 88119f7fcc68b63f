//go:build cgo

package rocksdb

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

const walkedKeys = 100_000

func walked(t testing.TB, set map[string]string) *blockbased.Resolver {
	t.Helper()
	o := engine.Options{Dir: filepath.Join(t.TempDir(), "db"), Create: true, Overrides: set}
	d := openAt(t, o)
	fill(t, d, walkedKeys)
	r, err := blockbased.Open(o.Dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})

	return r
}

func TestResolvingAllocatesNothing(t *testing.T) {
	r := walked(t, map[string]string{"cache_index_and_filter_blocks": "true"})
	walk, numbers := r.Walk(), make([]uint32, 0, 64)
	present, absent := keyOf(500), keyOf(walkedKeys+1)
	n := testing.AllocsPerRun(2000, func() {
		for _, key := range [][]byte{present, absent} {
			var err error
			if numbers, _, err = walk.Get(key, false, numbers); err != nil {
				t.Fatal(err)
			}
		}
	})

	if n != 0 {
		t.Errorf("%v allocations for two Gets, want none", n)
	}
}

// BenchmarkResolve compares Gets that are resolved with those that RocksDB makes with a cache that
// holds nothing, while its files are in the page cache.
func BenchmarkResolve(b *testing.B) {
	set := map[string]string{"cache_index_and_filter_blocks": "true"}
	r := walked(b, set)
	d := create(b, engine.Options{CacheBytes: 1, Overrides: set})
	fill(b, d, walkedKeys)
	reader := reading(b, d)
	for name, c := range map[string]struct {
		first uint64
		known bool
	}{"present": {0, true}, "absent": {walkedKeys, false}} {
		keys := make([][]byte, walkedKeys)
		for i := range keys {
			keys[i] = keyOf(c.first + uint64(i)*7919%walkedKeys)
		}

		b.Run(name, func(b *testing.B) {
			const made = 3000
			dst := make([]byte, 0, 256)
			start := time.Now()
			for i := range made {
				if _, _, err := reader.Get(keys[i], dst); err != nil {
					b.Fatal(err)
				}
			}

			rocks := float64(time.Since(start).Nanoseconds()) / made
			walk, numbers := r.Walk(), []uint32(nil)
			b.ReportAllocs()
			b.ResetTimer()
			defer func() {
				b.ReportMetric(rocks/(float64(b.Elapsed().Nanoseconds())/float64(b.N)),
					"times-RocksDB's")
			}()

			for i := range b.N {
				var err error
				if numbers, _, err = walk.Get(keys[i%walkedKeys], c.known, numbers); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
