//go:build cgo

package rocksdb

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
)

const keyBytes, valueBytes = 32, 110

func keyOf(i uint64) []byte {
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, i))
	return h[:]
}

func create(t testing.TB, o engine.Options) *db {
	t.Helper()
	o.Dir, o.Create = filepath.Join(t.TempDir(), "db"), true
	return openAt(t, o)
}

func openAt(t testing.TB, o engine.Options) *db {
	t.Helper()
	opened, err := Engine{}.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}

	d := opened.(*db)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})

	return d
}

// fill writes keys 0..n-1 with values that do not compress, and settles.
func fill(t testing.TB, d *db, n uint64) {
	t.Helper()
	put(t, d, n, func() {})
}

// fillInSteps is fill, with nothing left to compact before more is written: the tables do not
// depend on how busy the machine is.
func fillInSteps(t testing.TB, d *db, n uint64) {
	t.Helper()
	put(t, d, n, func() {
		for quiet := 0; quiet < 2; { // one look is not of one moment
			if quiet++; d.working() || d.compactionDue() {
				quiet = 0
				time.Sleep(time.Millisecond)
			}
		}
	})
}

// TestSettleWithoutCompactions: tables that nothing will compact are settled.
func TestSettleWithoutCompactions(t *testing.T) {
	d := create(t, engine.Options{Overrides: map[string]string{
		"disable_auto_compactions": "true",
		"write_buffer_size":        "131072",
	}})

	fill(t, d, 10_000)
	if shape, err := d.Shape(); err != nil || shape.Levels[0].Level != 0 ||
		shape.Levels[0].Files < 4 || d.number("rocksdb.compaction-pending") == 0 {
		t.Errorf("%+v, %v: nothing waits to be compacted", shape, err)
	}
}

// TestSettleWithUniversalCompaction: sorted runs that RocksDB calls due, and never merges, since
// each is much larger than the one before, are settled.
func TestSettleWithUniversalCompaction(t *testing.T) {
	d := create(t, engine.Options{Overrides: map[string]string{
		"compaction_style":                   "kCompactionStyleUniversal",
		"level0_file_num_compaction_trigger": "4",
	}})

	for _, keys := range []uint64{27_000, 9_000, 3_000, 1_000} {
		fill(t, d, keys)
	}

	shape, err := d.Shape()
	if err != nil || shape.Levels[0].Files != 4 || !d.compactionDue() {
		t.Errorf("%+v, %v: no compaction is due", shape, err)
	}
}

// put writes keys, and calls committed after each thousand.
func put(t testing.TB, d *db, n uint64, committed func()) {
	t.Helper()
	w, err := d.Writer()
	if err != nil {
		t.Fatal(err)
	}

	rng := rand.NewChaCha8([32]byte{1})
	value := make([]byte, valueBytes)
	for i := range n {
		if _, err := rng.Read(value); err != nil {
			t.Fatal(err)
		}

		if err := w.Put(keyOf(i), value); err != nil {
			t.Fatal(err)
		}

		if i%1000 == 999 || i == n-1 {
			if err := w.Commit(); err != nil {
				t.Fatal(err)
			}
			committed()
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	if err := d.Settle(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

func reading(t testing.TB, d *db) *reader {
	t.Helper()
	r, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})

	if many, is := r.(*manyReader); is {
		return &many.reader
	}

	return r.(*reader)
}

// getRandom gets keys of 0..n-1, all of which exist.
func getRandom(t testing.TB, r *reader, n uint64, gets int, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	dst := make([]byte, 0, 128)
	for range gets {
		if _, found, err := r.Get(keyOf(rng.Uint64N(n)), dst); err != nil || !found {
			t.Fatal(found, err)
		}
	}
}
