//go:build cgo

package rocksdb

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
)

const (
	benchKeys  = 200_000
	benchCache = 128 << 20 // all of it
	benchTurn  = 500       // Gets, before the other side has its turn
)

// BenchmarkGet holds Gets from Go against a loop that is wholly in C, in turns, so
// that a busy machine slows both: medians of the turns, and what Go adds.
func BenchmarkGet(b *testing.B) {
	r, keys := benchReader(b)
	dst := make([]byte, 0, 256)
	var fromGo, fromC []float64
	at := 0
	next := func() []byte { // keys that no turn had lately
		turn := keys[at : at+benchTurn*keyBytes]
		at = (at + len(turn)) % len(keys)
		return turn
	}

	b.ReportAllocs()
	b.ResetTimer()
	for range (b.N + benchTurn - 1) / benchTurn {
		turn := next()
		fromGo = append(fromGo, timed(func() {
			for i := 0; i < len(turn); i += keyBytes {
				if _, found, err := r.Get(turn[i:i+keyBytes], dst); err != nil || !found {
					b.Fatal(found, err)
				}
			}
		}))

		turn = next()
		fromC = append(fromC, timed(func() {
			if found, err := r.getAll(turn, keyBytes, dst[:cap(dst)]); err != nil ||
				found != benchTurn {
				b.Fatal(found, err)
			}
		}))
	}

	slices.Sort(fromGo)
	slices.Sort(fromC)
	ours, floor := fromGo[len(fromGo)/2], fromC[len(fromC)/2]
	b.ReportMetric(ours, "ns/Get")
	b.ReportMetric(floor, "ns/Get-in-C")
	b.ReportMetric(100*(ours/floor-1), "%more")
	b.ReportMetric(0, "ns/op")
}

// timed is the time of f per Get of a turn.
func timed(f func()) float64 {
	start := time.Now()
	f()
	return float64(time.Since(start).Nanoseconds()) / benchTurn
}

// benchReader returns a reader of a warm database and its keys in random order.
func benchReader(b *testing.B) (*reader, []byte) {
	b.Helper()
	d := create(b, engine.Options{CacheBytes: benchCache})
	fill(b, d, benchKeys)
	var keys []byte
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(benchKeys) {
		keys = append(keys, keyOf(uint64(i))...)
	}

	r := reading(b, d)
	if found, err := r.getAll(keys, keyBytes, make([]byte, 256)); err != nil || found != benchKeys {
		b.Fatal(found, err)
	}

	return r, keys
}
