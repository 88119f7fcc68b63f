package bbolt

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
)

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }

func key(i uint64) []byte {
	k := make([]byte, 32)
	binary.BigEndian.PutUint64(k, i*0x9e3779b97f4a7c15)
	return k
}

// filled is a database of n keys with values of 110 bytes.
func filled(t testing.TB, n uint64) *db {
	t.Helper()
	opened, err := Engine{}.Open(t.Context(), engine.Options{
		Dir:    filepath.Join(t.TempDir(), "db"),
		Create: true,
	})

	must(t, err)
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
	t.Cleanup(func() { must(t, opened.Close()) })
	return opened.(*db)
}

// TestPagesPerGet holds the pages counted against the depth that bbolt itself
// measures by walking the whole tree.
func TestPagesPerGet(t *testing.T) {
	for _, n := range []uint64{1, 100, 50_000} {
		d := filled(t, n)
		var depth int64
		must(t, d.bolt.View(func(tx *bbolt.Tx) error {
			depth = int64(tx.Bucket(bucketName()).Stats().Depth)
			return nil
		}))

		r, err := d.Reader()
		must(t, err)
		const gets = 100
		before := d.Counters().Accesses[engine.Page]
		for i := range uint64(gets) {
			if _, found, err := r.Get(key(i%n), nil); err != nil || !found {
				t.Fatal(found, err)
			}
		}

		got := d.Counters().Accesses[engine.Page] - before
		want := gets * depth
		if !d.inline.Load() {
			want++ // finding the bucket, once
		}

		if got != want {
			t.Errorf("%d keys: %d pages by %d Gets, want %d at a depth of %d", n, got, gets, want,
				depth)
		}

		must(t, r.Close())
		if after := d.Counters().Accesses[engine.Page] - before; after != want {
			t.Errorf("%d keys: %d pages after the reader was closed, want %d", n, after, want)
		}
	}
}

// TestCommitsPastAnIdleReader grows the file under a reader that has just read:
// bbolt waits for its transaction before it maps the file anew.
func TestCommitsPastAnIdleReader(t *testing.T) {
	d := filled(t, 10)
	r, err := d.Reader()
	must(t, err)
	w, err := d.Writer()
	must(t, err)
	value := make([]byte, 100<<10)
	for i := uint64(10); i < 60; i++ {
		if _, found, err := r.Get(key(i-1), nil); err != nil || !found {
			t.Fatalf("key %d: %v, %v", i-1, found, err)
		}
		must(t, w.Put(key(i), value))
		must(t, w.Commit())
	}

	must(t, w.Close())
	must(t, r.Close())
}

// TestFileOfAnotherProgram: a bbolt file without our bucket is refused.
func TestFileOfAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	other, err := bbolt.Open(filepath.Join(dir, fileName), 0o644, nil)
	must(t, err)
	must(t, other.Close())
	if opened, err := (Engine{}).Open(t.Context(), engine.Options{Dir: dir}); err == nil {
		t.Error("opened")
		must(t, opened.Close())
	}
}

// FuzzPage wants an error, never a panic, for whatever a page may hold.
func FuzzPage(f *testing.F) {
	f.Add(make([]byte, 64))
	leaf := make([]byte, 64)
	leaf[0], leaf[8], leaf[10] = 3, leafFlag, 1
	f.Add(leaf)
	branch := append([]byte(nil), leaf...)
	branch[8], branch[10] = branchFlag, 2
	f.Add(branch)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) < headerBytes {
			return
		}

		p, err := parse(3, bytes)
		if err != nil {
			return
		}

		for i := range p.elements {
			if !p.leaf {
				p.child(i)
			} else if k, err := p.key(i); err == nil && len(k) > len(bytes) {
				t.Errorf("a key of %d bytes in a page of %d", len(k), len(bytes))
			}
		}
	})
}

// BenchmarkGet compares a Get that keeps its transaction with one that takes its
// own, as db.View does.
func BenchmarkGet(b *testing.B) {
	const n = 100_000
	d := filled(b, n)
	for _, c := range []struct {
		name string
		own  bool
	}{{"transaction kept", false}, {"transaction per Get", true}} {
		b.Run(c.name, func(b *testing.B) {
			r, err := d.Reader()
			must(b, err)
			defer func() { must(b, r.Close()) }()
			d.committing.Store(c.own)
			defer d.committing.Store(false)
			dst := make([]byte, 0, 256)
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
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

// TestSampleIsUniform compares draws of keys with the list of all.
func TestSampleIsUniform(t *testing.T) {
	h := enginetest.NewHistory()
	h.Batch = 1 // pages that a larger one changes are merged in random order
	dir := enginetest.BuildHistory(t, Engine{}, h, nil, nil)
	opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
	must(t, err)
	enginetest.CheckUniform(t, opened, h.Live)
	must(t, opened.Close())
}
