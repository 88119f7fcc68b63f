//go:build cgo

package rocksdb_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestResolvedBlobs: values that Debian's db_bench put into blob files are read where RocksDB reads
// them: its counters of block types agree, and those of blob files.
func TestResolvedBlobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	bench(t, dir, "--benchmarks=filluniquerandom,overwrite,flush,waitforcompaction",
		"--key_size=16", "--value_size_distribution_type=uniform",
		"--value_size_min=100", "--value_size_max=900", "--enable_blob_files=true",
		"--min_blob_size=500", "--bloom_bits=10", "--write_buffer_size=1048576",
		"--target_file_size_base=262144", "--cache_index_and_filter_blocks=true",
		"--disable_wal=false")

	// Open for writing, RocksDB counts accesses.
	opened, err := rocksdb.Engine{}.Open(t.Context(), engine.Options{Dir: dir, CacheBytes: 1 << 20,
		Overrides: map[string]string{
			"disable_auto_compactions":      "true",
			"cache_index_and_filter_blocks": "true",
		}})
	if err != nil {
		t.Fatal(err)
	}

	resolver, err := blockbased.Open(dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}

	defer resolver.Close()
	r, err := opened.Reader()
	if err != nil {
		t.Fatal(err)
	}

	walk, numbers, value := resolver.Walk(), []uint32(nil), make([]byte, 0, 1<<10)
	// All blob files are opened first, which takes reads, too.
	for i := range benchKeys {
		if _, _, err := r.Get(benchKey(i, 16), value); err != nil {
			t.Fatal(err)
		}
	}

	before, said := opened.Counters(), [engine.NumBlockTypes]int64{}
	rng, bytes := rand.New(rand.NewPCG(5, 5)), int64(0)
	const gets = 4000
	for range gets {
		key := benchKey(rng.IntN(benchKeys*5/4), 16)
		_, found, err := r.Get(key, value)
		if err != nil {
			t.Fatal(err)
		}

		var foundToo bool
		if numbers, foundToo, err = walk.Get(key, found, numbers); err != nil || found != foundToo {
			t.Fatalf("%x: found %v and %v: %v", key, found, foundToo, err)
		}

		for _, number := range numbers {
			b, err := resolver.Block(number)
			if err != nil {
				t.Fatal(err)
			}

			said[b.Type]++
			if b.Type == engine.Value {
				bytes += int64(b.DiskBytes)
			}
		}
	}

	c := opened.Counters().Sub(before)
	for _, kind := range []engine.BlockType{engine.Data, engine.Filter} {
		if said[kind] != c.Accesses[kind] {
			t.Errorf("%d accesses of %s, RocksDB counts %d", said[kind], kind, c.Accesses[kind])
		}
	}

	values := c.Reads.Type(engine.Value)
	if said[engine.Value] != values.Count || values.Count == 0 || values.Count >= gets {
		t.Errorf("%d reads of values, RocksDB counts %d", said[engine.Value], values.Count)
	}

	if off := float64(bytes)/float64(values.Bytes) - 1; off > 0.03 || off < -0.03 {
		t.Errorf("%d bytes of values, RocksDB counts %d", bytes, values.Bytes)
	}

	t.Log(said, values)
	if err := r.Close(); err != nil {
		t.Error(err)
	}

	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}
