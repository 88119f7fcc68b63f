package pebble1

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/resolve"
)

const keptKeys = 1000

// TestOwnersOptions: the owner keeps its log in another folder, which alone tells that every second
// key is deleted, and has a merger of its own.
func TestOwnersOptions(t *testing.T) {
	merger := *pebble.DefaultMerger
	merger.Name = "owner.Merger"
	dir, logs := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "logs")
	owner, err := pebble.Open(dir, &pebble.Options{WALDir: logs, Merger: &merger})
	if err != nil {
		t.Fatal(err)
	}

	key := func(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }
	for i := range keptKeys {
		if err := owner.Set(key(i), key(i), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}

	if err := owner.Flush(); err != nil {
		t.Fatal(err)
	}

	for i := 0; i < keptKeys; i += 2 {
		if err := owner.Delete(key(i), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(owner.Merge([]byte("sum"), []byte("1"), pebble.NoSync),
		owner.Close()); err != nil {
		t.Fatal(err)
	}

	db, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if err != nil {
		t.Fatal(err)
	}

	r, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	for i := range keptKeys {
		if _, found, err := r.Get(key(i), nil); err != nil || found != (i%2 == 1) {
			t.Fatalf("key %d: found %v, %v", i, found, err)
		}
	}

	_, _, err = r.Get([]byte("sum"), nil)
	if f, is := errors.AsType[*engine.Failure](err); !is || f.Code != engine.CodeUnsupported ||
		f.Remedy == "" {
		t.Errorf("a key with merges: %v, want a failure with a way out", err)
	}

	if err := db.(engine.KeySampler).SampleKeys(t.Context(), 200, 1, func(sampled []byte) error {
		if last := sampled[len(sampled)-1]; (last-'0')%2 == 0 {
			return fmt.Errorf("%s is sampled, which is deleted", sampled)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}

	if err := errors.Join(r.Close(), db.Close()); err != nil {
		t.Error(err)
	}

	resolver, err := resolve.Open(dir, cachesim.PebbleV1)
	if err != nil {
		t.Fatal(err)
	}

	if err := resolver.Close(); err != nil {
		t.Error(err)
	}
}

func TestOwnersComparer(t *testing.T) {
	order := *pebble.DefaultComparer
	order.Name = "owner.Order"
	dir := filepath.Join(t.TempDir(), "db")
	owner, err := pebble.Open(dir, &pebble.Options{Comparer: &order})
	if err != nil {
		t.Fatal(err)
	}

	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}

	_, err = Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if f, is := errors.AsType[*engine.Failure](err); !is || f.Code != engine.CodeUnsupported ||
		f.Remedy == "" || !strings.Contains(err.Error(), order.Name) {
		t.Errorf("%v: want a failure that names the comparer, with a way out", err)
	}
}
