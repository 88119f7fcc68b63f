package pebble2

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
)

func key(i uint64) []byte {
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, i))
	return h[:]
}

func load(t *testing.T, dir string, n uint64) {
	t.Helper()
	ctx := context.Background()
	d, err := Engine{}.Open(ctx, engine.Options{Dir: dir, Create: true, CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.Writer()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 110)
	for i := range n {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		if err := w.Put(key(i), value); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 {
			if err := w.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := d.Settle(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	const n = 300_000
	load(t, dir, n)
	ctx := context.Background()
	for _, o := range []engine.Options{{}, {ReadOnly: true}, {Foreign: true, TraceAccesses: true}, {Direct: true}} {
		o.Dir, o.CacheBytes = dir, 1<<20
		d, err := Engine{}.Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		before := d.Counters()
		r, _ := d.Reader()
		rng := rand.New(rand.NewPCG(3, 4))
		var buf []byte
		for range 50_000 {
			v, found, err := r.Get(key(rng.Uint64N(n)), buf)
			if err != nil || !found || len(v) != 110 {
				t.Fatal(found, err)
			}
			buf = v
		}
		c := d.Counters().Sub(before)
		t.Log(o, c.Reads.Total(), *c.CacheMisses, *c.TableOpens, "background", *c.BackgroundReads)
		for _, k := range engine.BlockTypes() {
			t.Log(k, c.Reads.Type(k))
		}
		s, err := d.Shape()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", s)
		t.Log(d.Effective())
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
