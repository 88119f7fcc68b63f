//go:build linux

package badger

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }

func key(i uint64) []byte {
	k := make([]byte, 32)
	binary.BigEndian.PutUint64(k, i*0x9e3779b97f4a7c15)
	return k
}

func filled(t testing.TB, n uint64, o engine.Options) *db {
	t.Helper()
	o.Dir, o.Create = filepath.Join(t.TempDir(), "db"), true
	opened, err := Engine{}.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, opened.Close()) })
	w, err := opened.Writer()
	must(t, err)
	value := make([]byte, 110)
	for i := range n {
		must(t, w.Put(key(i), value))
		if i%1000 == 999 || i == n-1 {
			must(t, w.Commit())
		}
	}

	must(t, w.Close())
	return opened.(*db)
}

// TestSettleFlushes checks that nothing is left in memory, nor of the key that
// made Badger flush.
func TestSettleFlushes(t *testing.T) {
	const n = 5000
	d := filled(t, n, engine.Options{})
	if shape, err := d.Shape(); err != nil || shape.Files != 0 {
		t.Fatalf("%d tables before Settle, %v: want everything in memory", shape.Files, err)
	}

	must(t, d.Settle(t.Context(), nil))
	shape, err := d.Shape()
	must(t, err)
	var keys int64
	for _, l := range shape.Levels {
		keys += l.Keys
	}

	if keys != n {
		t.Errorf("%d keys in the tables, want %d", keys, n)
	}

	if flushed := *d.Counters().FlushBytes; flushed == 0 {
		t.Error("no bytes were flushed")
	}

	r, err := d.Reader()
	must(t, err)
	if _, found, err := r.Get([]byte(flushMarker), nil); err != nil || found {
		t.Errorf("the marker: %v, %v", found, err)
	}

	must(t, r.Close())
}

func TestBatchBeyondATransaction(t *testing.T) {
	d := filled(t, 1, engine.Options{Overrides: map[string]string{"MemTableSize": "1MiB"}})
	w, err := d.Writer()
	must(t, err)
	for i := range uint64(10) {
		must(t, w.Put(key(i), make([]byte, 100<<10)))
	}

	if err := w.Commit(); !errors.Is(err, badger.ErrTxnTooBig) {
		t.Errorf("error %v, want the one of too large a transaction", err)
	}
}

// TestFiltersAreConsulted holds the filter counts against what Gets of absent keys
// must do: ask one filter per level at least, and be told no nearly always.
func TestFiltersAreConsulted(t *testing.T) {
	const n = 5000
	d := filled(t, n, engine.Options{})
	must(t, d.Settle(t.Context(), nil))
	r, err := d.Reader()
	must(t, err)
	before := d.Counters()
	for i := uint64(n); i < 2*n; i++ {
		if _, found, err := r.Get(key(i), nil); err != nil || found {
			t.Fatal(found, err)
		}
	}

	c := d.Counters().Sub(before)
	asked := *c.FilterNegative + *c.FilterPositive
	if asked < n*95/100 || *c.FilterPositive > asked/20 {
		t.Errorf("%d filters said no and %d maybe to %d Gets of absent keys", *c.FilterNegative,
			*c.FilterPositive, n)
	}

	must(t, r.Close())
}

// BenchmarkGet compares a Get that keeps its transaction with one that takes its
// own, as db.View does.
func BenchmarkGet(b *testing.B) {
	const n = 100_000
	d := filled(b, n, engine.Options{})
	must(b, d.Settle(b.Context(), nil))
	for _, c := range []struct {
		name    string
		commits int64 // pretended between Gets
	}{{"transaction kept", 0}, {"transaction per Get", 1}} {
		b.Run(c.name, func(b *testing.B) {
			r, err := d.Reader()
			must(b, err)
			defer func() { must(b, r.Close()) }()
			dst := make([]byte, 0, 256)
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				d.commits.Add(c.commits)
				if _, found, err := r.Get(key(i%n), dst); err != nil || !found {
					b.Fatal(found, err)
				}
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestValueLog: values of the value log are told apart from the tables, and Badger counts the Gets
// that were made.
func TestValueLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	owner, err := badger.Open(badger.DefaultOptions(dir).WithValueThreshold(1000).WithLogger(nil))
	must(t, err)
	const keys, large, largeBytes = 2000, 500, 4000
	batch := owner.NewWriteBatch()
	for i := range uint64(keys) {
		value := make([]byte, 100)
		if i < large {
			value = make([]byte, largeBytes)
		}
		must(t, batch.Set(key(i), value))
	}

	must(t, batch.Flush())

	// A copy of what a killed owner leaves: its log is in no table, and cannot be replayed without
	// a write.
	_, err = Engine{}.Open(t.Context(), engine.Options{
		Dir:      enginetest.CopyOpen(t, dir),
		ReadOnly: true,
	})

	if engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("of a log that cannot be replayed: %v", err)
	}

	must(t, owner.Close())

	opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
	must(t, err)
	if shape, err := opened.Shape(); err != nil || shape.Values == nil ||
		shape.Values.Bytes < large*largeBytes || shape.Values.Bytes > 2*large*largeBytes {
		t.Errorf("values %+v (%v), want %d bytes and what the log adds", shape.Values, err,
			large*largeBytes)
	}

	r, err := opened.Reader()
	must(t, err)
	before := opened.Counters()
	for i := range uint64(keys) {
		if _, found, err := r.Get(key(i), nil); err != nil || !found {
			t.Fatal(i, found, err)
		}
	}

	if gets := opened.Counters().Sub(before).Gets; gets == nil || *gets != keys {
		t.Errorf("Badger counts %v Gets of %d", gets, keys)
	}

	must(t, r.Close())
	must(t, opened.Close())
}

// expire gives some keys a version that has expired, and some one that does not for a long time.
func expire(t *testing.T, dir string, h *enginetest.History) {
	t.Helper()
	owner, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	must(t, err)
	batch := owner.NewWriteBatch()
	for i, key := range h.Keys() {
		if _, live := h.Live[key]; !live || i%7 > 1 {
			continue
		}

		entry := badger.NewEntry([]byte(key), []byte("for a time"))
		entry.ExpiresAt = 1 // 1970
		if i%7 == 1 {
			entry.ExpiresAt = 1 << 40
			h.Live[key] = "to expire"
		} else {
			delete(h.Live, key)
		}

		must(t, batch.SetEntry(entry))
	}

	must(t, batch.Flush())
	must(t, owner.Close())
}

// TestSampleIsUniform compares draws of keys with the list of all.
func TestSampleIsUniform(t *testing.T) {
	h := enginetest.NewHistory()
	dir := enginetest.BuildHistory(t, Engine{}, h, nil, nil)
	expire(t, dir, h)
	opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
	must(t, err)
	enginetest.CheckUniform(t, opened, h.Live)
	must(t, opened.Close())
}
