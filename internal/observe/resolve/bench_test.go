package resolve

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkGet reports the resolver's time per Get and how many times as long
// the engine takes that asks for the same blocks, on this machine, now.
//
//	go test -bench Get -benchtime 200000x ./internal/observe/resolve
func BenchmarkGet(b *testing.B) {
	const keys, engineGets = 1_000_000, 20_000
	for _, f := range flavours() {
		b.Run(f.name, func(b *testing.B) {
			dir := b.TempDir()
			buildPlain(b, f, dir, keys)
			r := openResolver(b, f, dir)
			o := openOracle(b, f, dir, admitsNothing)
			for _, kind := range []string{"present", "absent"} {
				random := rand.New(rand.NewPCG(1, 1))
				maker, key := testKeys(keys).Maker(), make([]byte, 32)
				next := func() []byte {
					index := random.Uint64N(keys)
					if kind == "absent" {
						index += keys
					}

					maker.Key(key, index)
					return key
				}

				start := time.Now()
				for range engineGets {
					o.ask(b, next())
				}

				engineNanos := float64(time.Since(start).Nanoseconds()) / engineGets
				w := r.Walker()
				var numbers []uint32
				b.Run(kind, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						var err error
						if numbers, _, err = w.Get(next(), kind == "present", numbers); err != nil {
							b.Fatal(err)
						}
					}

					nanos := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
					b.ReportMetric(engineNanos, "engine-ns/Get")
					b.ReportMetric(engineNanos/nanos, "times-faster")
				})
			}
		})
	}
}
