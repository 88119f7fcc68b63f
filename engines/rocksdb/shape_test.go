//go:build cgo

package rocksdb_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb/familytest"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestShapeOfFiles: what a database's files tell without RocksDB is what RocksDB tells of it.
func TestShapeOfFiles(t *testing.T) {
	written := map[string]func(dir string){
		"families": func(dir string) {
			if err := familytest.Write(t.Context(), dir, familyKeys); err != nil {
				t.Fatal(err)
			}
		},
		"one family, level 0, no filters": func(dir string) {
			bench(t, dir, "--benchmarks=fillrandom,flush", "--write_buffer_size=262144",
				"--disable_auto_compactions=true", "--level0_slowdown_writes_trigger=1000",
				"--level0_stop_writes_trigger=1000")
		},
		"levels, partitioned filters and indexes": func(dir string) {
			bench(t, dir, "--benchmarks=fillrandom,flush,waitforcompaction", "--bloom_bits=10",
				"--write_buffer_size=262144", "--target_file_size_base=131072",
				"--max_bytes_for_level_base=524288", "--partition_index_and_filters=true",
				"--metadata_block_size=512")
		},
		"values in blob files": func(dir string) {
			bench(t, dir, "--benchmarks=fillrandom,flush,waitforcompaction", "--value_size=400",
				"--enable_blob_files=true", "--min_blob_size=100", "--write_buffer_size=262144")
		},
	}

	for name, write := range written {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			write(dir)
			d := open(t, engine.Options{Dir: dir, ReadOnly: true, Foreign: true})
			told, err := d.Shape()
			if err != nil {
				t.Fatal(err)
			}

			read, warnings, err := blockbased.ReadShape(dir)
			if err != nil || len(warnings) > 0 {
				t.Fatal(warnings, err)
			}

			if read.Bytes == 0 && len(read.Tables) < 2 {
				t.Errorf("nothing was written: %+v", read)
			}

			if diff := cmp.Diff(told, read); diff != "" {
				t.Errorf("RocksDB tells (-), its files (+):\n%s", diff)
			}
		})
	}
}
