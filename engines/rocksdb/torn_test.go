//go:build cgo

package rocksdb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb/familytest"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestTornManifest: a manifest that ends in the middle of a record is read as it stood before, as
// RocksDB reads it, with a warning: each key is found or missing there, too.
func TestTornManifest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	bench(t, dir, "--benchmarks=filluniquerandom,flush,overwrite,flush", "--key_size=16",
		"--value_size=100", "--disable_auto_compactions=true",
		"--write_buffer_size=262144")
	manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil || len(manifests) != 1 {
		t.Fatal(manifests, err)
	}

	info, err := os.Stat(manifests[0])
	if err == nil {
		err = os.Truncate(manifests[0], info.Size()-3)
	}

	if err != nil {
		t.Fatal(err)
	}

	r := sameKeys(t, dir)
	if w := r.Warnings(); len(w) != 1 || w[0].Code != "torn_manifest" {
		t.Errorf("warnings %v", w)
	}
}

// TestEscapedFolder: the folder of the log is found whatever is in its name, which RocksDB's
// OPTIONS file has with escapes.
func TestEscapedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	bench(t, dir, "--benchmarks=filluniquerandom", "--key_size=16", "--value_size=100",
		"--write_buffer_size=67108864", "--wal_dir="+dir+"/lo:g#s")
	if r := sameKeys(t, dir); r.Warnings() != nil {
		t.Errorf("warnings %v", r.Warnings())
	}
}

// TestRefusedByName: what RocksDB's own programs write and the resolver does not know is refused by
// what it is.
func TestRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name, says string
		arguments  []string // of db_bench; nil: keys with timestamps
	}{
		{"plain tables", "a plain table, which is not supported",
			[]string{"--use_plain_table=1", "--mmap_read=1", "--prefix_size=8"}},
		{"cuckoo tables", "a cuckoo table, which is not supported",
			[]string{"--use_cuckoo_table=1", "--mmap_read=1", "--key_size=8",
				"--allow_concurrent_memtable_write=false"}},
		{"comparator", "its keys are ordered by rocksdb.Uint64Comparator",
			[]string{"--use_uint64_comparator=1", "--key_size=8"}},
		{"encrypted files", "the files are encrypted, which is not supported",
			[]string{
				"--fs_uri=provider={id=CTR;cipher={id=ROT13;block_size=32}};id=EncryptedFileSystem",
			}},
		{"timestamps", "its keys are ordered by leveldb.BytewiseComparator.u64ts", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			if c.arguments == nil {
				if err := familytest.WriteTimes(dir, 1000); err != nil {
					t.Fatal(err)
				}
			} else {
				bench(t, dir,
					append([]string{"--benchmarks=filluniquerandom,flush"}, c.arguments...)...)
			}

			r, err := blockbased.Open(dir, "", nil)
			if err == nil {
				r.Close()
			}

			if engine.CodeOf(err) != engine.CodeUnsupported ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

// TestWhileItIsWritten: a database that another process overwrites is read as it stands at each
// moment, and as it is left when that process is killed. All its keys are there all the time.
func TestWhileItIsWritten(t *testing.T) {
	dir, sized := filepath.Join(t.TempDir(), "db"), []string{"--key_size=16", "--value_size=100"}
	bench(t, dir, append(sized, "--benchmarks=filluniquerandom,flush")...)
	writer := benchCommand(t, dir,
		append(sized, "--benchmarks=overwrite", "--use_existing_db=1", "--writes=1000000000")...)
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- writer.Wait() }()
	states, numbers := map[string]bool{}, []uint32(nil)
	for len(states) < 5 {
		r, err := blockbased.Open(dir, "", nil)
		if err != nil {
			t.Fatal(err)
		}

		states[r.Identity()] = true
		walk := r.Walk()
		for i := 0; i < benchKeys; i += 29 {
			var found bool
			if numbers, found, err = walk.Get(benchKey(i, 16), false,
				numbers); err != nil || !found {
				t.Fatalf("key %d: found %v: %v", i, found, err)
			}
		}

		if err := r.Close(); err != nil {
			t.Fatal(err)
		}

		select {
		case err := <-ended:
			t.Fatal("the other process ended by itself: ", err)
		default:
		}
	}

	if err := writer.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	<-ended
	sameKeys(t, dir)
}

// sameKeys gets all keys of db_bench, and the same from the resolver, which stays open.
func sameKeys(t *testing.T, dir string) *blockbased.Resolver {
	t.Helper()
	db := open(t, engine.Options{Dir: dir, CacheBytes: benchCache})
	reader, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	resolver, err := blockbased.Open(dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { resolver.Close() })
	walk, numbers, value, all := resolver.Walk(), []uint32(nil), make([]byte, 0, 1<<10), 0
	for i := range benchKeys * 11 / 10 {
		_, found, err := reader.Get(benchKey(i, 16), value)
		if err != nil {
			t.Fatal(err)
		}

		var foundToo bool
		if numbers, foundToo, err = walk.Get(benchKey(i, 16), false, numbers); err != nil ||
			found != foundToo {
			t.Fatalf("key %d: found %v and %v: %v", i, found, foundToo, err)
		}

		if found {
			all++
		}
	}

	if all == 0 || all > benchKeys {
		t.Errorf("%d keys of %d", all, benchKeys)
	}

	t.Log(all, "keys")
	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	return resolver
}
