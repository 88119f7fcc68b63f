//go:build cgo

package rocksdb

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// TestResolverRefuses: what could not be resolved exactly is refused by its name.
func TestResolverRefuses(t *testing.T) {
	cut := func(by int) func([]byte) []byte {
		return func(b []byte) []byte { return b[:len(b)-by] }
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			at := (len(b) + at) % len(b)
			b[at] ^= 0x55
			return b
		}
	}

	for _, c := range []struct {
		name    string
		set     map[string]string
		pattern string // of the file that is changed
		change  func([]byte) []byte
		want    string
	}{
		{"manifest", nil, "MANIFEST-*", flip(9), "checksum of a record does not match"},
		{"magic", nil, "*.sst", flip(-1), "unknown kind of table"},
		{"newer format", nil, "*.sst", flip(-12), "format version"},
		{"metadata", nil, "*.sst", flip(-200), "checksum does not match"},
		{"length", nil, "*.sst", cut(1), "in the manifest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := engine.Options{
				Dir:       filepath.Join(t.TempDir(), "db"),
				Create:    true,
				Overrides: c.set,
			}

			t.Run("write", func(t *testing.T) { fill(t, openAt(t, o), 500) })
			if c.change != nil {
				files, err := filepath.Glob(filepath.Join(o.Dir, c.pattern))
				if err != nil || len(files) == 0 {
					t.Fatal(files, err)
				}

				content, err := os.ReadFile(files[0])
				if err != nil {
					t.Fatal(err)
				}

				if err := os.WriteFile(files[0], c.change(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			r, err := blockbased.Open(o.Dir, "", nil)
			if err == nil {
				r.Close()
			}

			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestKeysOfAllLengths: hashes of filters depend on the length of a key, and each generation has
// its own.
func TestKeysOfAllLengths(t *testing.T) {
	key := func(i uint64) []byte {
		h := sha256.Sum256(keyOf(i))
		return bytes.Repeat(h[:], 10)[:1+i%300]
	}

	for name, set := range map[string]map[string]string{
		"bloom":     {},
		"old bloom": {"format_version": "4"},
		"ribbon":    {"filter_policy": "ribbonfilter:10:0"},
	} {
		t.Run(name, func(t *testing.T) {
			set["cache_index_and_filter_blocks"], set["disable_auto_compactions"] = "true", "true"
			o := engine.Options{Dir: filepath.Join(t.TempDir(), "db"), Create: true, Overrides: set}
			t.Run("write", func(t *testing.T) {
				w, err := openAt(t, o).Writer()
				if err != nil {
					t.Fatal(err)
				}

				for i := uint64(0); i < 6000; i += 2 {
					if err := w.Put(key(i), key(i)); err != nil {
						t.Fatal(err)
					}
				}

				if err := w.Commit(); err != nil {
					t.Fatal(err)
				}

				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			})

			o.Create = false
			t.Run("flush the log", func(t *testing.T) { openAt(t, o) })
			d := openAt(t, o)
			r := reading(t, d)
			resolver, err := blockbased.Open(o.Dir, "", nil)
			if err != nil {
				t.Fatal(err)
			}

			defer resolver.Close()
			walk := resolver.Walk()
			before := d.Counters()
			accesses, numbers, dst := int64(0), []uint32(nil), make([]byte, 0, 512)
			for i := range uint64(6000) {
				_, found, err := r.Get(key(i), dst) // with too little room it would ask twice
				if err != nil {
					t.Fatal(err)
				}

				var foundToo bool
				if numbers, foundToo, err = walk.Get(key(i), false, numbers); err != nil ||
					found != foundToo {
					t.Fatalf("key %d: found %v and %v: %v", i, found, foundToo, err)
				}

				accesses += int64(len(numbers))
			}

			counted := int64(0)
			for _, n := range d.Counters().Sub(before).Accesses {
				counted += n
			}

			if accesses != counted {
				t.Errorf("%d accesses, RocksDB counts %d", accesses, counted)
			}
		})
	}
}
