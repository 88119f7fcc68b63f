package cachesim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
)

// mixedTrace is Gets of one to six accesses to blocks of all types and sizes,
// some popular; sizes are multiples of unit.
func mixedTrace(t testing.TB, seed uint64, gets, blocks, maxBytes, unit int) *Trace {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 11))
	popular := newZipf(random, blocks, 0.8)
	trace := &Trace{WarmupGets: gets / 5}
	for range gets {
		trace.BeginGet()
		for range 1 + random.IntN(6) {
			id := uint64(popular.next())
			b := Block{
				File:      1 + id%13,
				Offset:    id / 13 * 4096,
				Bytes:     int32(int(id*2654435769%uint64(maxBytes)) / unit * unit),
				DiskBytes: int32(id % 977),
				Type:      engine.BlockType(id % uint64(engine.NumBlockTypes)),
				Level:     uint8(id % (engine.MaxLevels + 1)),
			}

			if err := trace.Touch(b); err != nil {
				t.Fatal(err)
			}
		}
	}

	return trace
}

// oneAfterTheOther replays a trace to one cache, access for access.
func oneAfterTheOther(trace *Trace, setup Setup, cacheBytes int64) Point {
	p := Point{CacheBytes: cacheBytes, Gets: int64(len(trace.Gets) - trace.WarmupGets)}
	shards := newShards(setup, cacheBytes)
	for _, shard := range shards {
		if clock, is := shard.(*hyperClock); is {
			for i := range trace.Blocks {
				clock.keys = append(clock.keys, trace.clockKey(&trace.Blocks[i], setup.HashSeed))
			}
		}
	}

	for i, number := range trace.Accesses {
		b := &trace.Blocks[number]
		q := setup.request(trace, b, len(shards))
		q.id = number
		hit := false
		if marked, is := shards[q.shard].(markedCache); is {
			hit = marked.access(&q)
		} else {
			hit = shards[q.shard].Access(number, q.bytes)
		}

		if i < int(trace.Gets[trace.WarmupGets]) {
			continue
		}

		p.Accesses[b.Type]++
		if !hit {
			p.Reads[b.Type]++
			p.ReadsByLevel[b.Level]++
			p.DiskBytesRead += int64(b.DiskBytes)
		}
	}

	for _, shard := range shards {
		p.UsedBytesAtEnd += shard.UsedBytes()
	}

	return p
}

// TestCurveIsOneCacheAfterTheOther: dealing to shards, all sizes in one pass and
// LRU as one stack change nothing, whatever is reserved and however many
// processors there are.
func TestCurveIsOneCacheAfterTheOther(t *testing.T) {
	testring.Outer(t, "it plays each cache by itself")
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	// Not in order, one twice; some smaller than the largest block.
	sizes := []int64{3 << 20, 700, 40_000, 1 << 20, 90_000, 1, 1 << 20, 20 << 20, 250_000, 400_000,
		6_001}
	for seed, shape := range []struct{ gets, blocks, maxBytes, unit int }{
		{20_000, 3000, 6000, 1},
		{20_000, 300, 60_000, 1},
		{3, 5, 100, 1},
		{8000, 8000, 1, 1},
		{8000, 2000, 6000, 1000},
	} {
		if testing.Short() {
			shape.gets, shape.blocks = min(shape.gets, 5000), min(shape.blocks, 2000)
		}

		trace := mixedTrace(t, uint64(seed), shape.gets, shape.blocks, shape.maxBytes, shape.unit)
		for _, policy := range Policies() {
			for cores, reserved := range map[int]int64{1: 0, 3: 256 << 10, 2: 1 << 20} {
				setup := Setup{Policy: policy, Cores: cores, ReservedBytes: reserved}
				runtime.GOMAXPROCS(2*cores - 1)
				have, err := Curve(t.Context(), trace, setup, sizes)
				if err != nil {
					t.Fatal(err)
				}

				for i, size := range sizes {
					if diff := cmp.Diff(oneAfterTheOther(trace, setup, size), have[i]); diff != "" {
						t.Fatalf("trace %d, %+v, %d bytes: curve (+) differs:\n%s", seed, setup,
							size, diff)
					}
				}
			}
		}
	}
}

// TestLongTracesAreDealtWhole replays more than one stretch.
func TestLongTracesAreDealtWhole(t *testing.T) {
	defer func(before int) { batchAccesses = before }(batchAccesses)
	batchAccesses = 1 << 16
	trace := mixedTrace(t, 9, 2*batchAccesses/3, 20_000, 6000, 1)
	for _, policy := range []Policy{ClockPro2Policy, LRUPolicy, SievePolicy} {
		setup := Setup{Policy: policy, Cores: 1}
		have, err := Curve(t.Context(), trace, setup, []int64{8 << 20, 30 << 20})
		if err != nil {
			t.Fatal(err)
		}

		for _, p := range have {
			if diff := cmp.Diff(oneAfterTheOther(trace, setup, p.CacheBytes), p); diff != "" {
				t.Errorf("%s, %d bytes: curve (+) differs:\n%s", policy, p.CacheBytes, diff)
			}
		}
	}
}

// BenchmarkCurve is ten sizes of one trace; the metric counts an access for
// each size.
func BenchmarkCurve(b *testing.B) {
	for _, gets := range []int{200_000, 2_000_000} {
		trace := mixedTrace(b, 1, gets, gets/2, 6000, 1)
		var sizes []int64
		for i := range 10 {
			sizes = append(sizes, 1<<20<<i)
		}

		for _, policy := range []Policy{ClockPro1Policy, LRUPolicy, SievePolicy} {
			b.Run(fmt.Sprintf("%s/%dk", policy, gets/1000), func(b *testing.B) {
				for b.Loop() {
					if _, err := Curve(b.Context(), trace, Setup{Policy: policy, Cores: 2},
						sizes); err != nil {
						b.Fatal(err)
					}
				}

				perRun := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
				b.ReportMetric(perRun/float64(len(trace.Accesses))/10, "ns/access")
			})
		}
	}
}
