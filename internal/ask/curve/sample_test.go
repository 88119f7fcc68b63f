package curve

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/result"
)

// A trace of one block in eight, which says so, gives the curve of the whole trace within the
// interval that it states: of Gets with Zipf's distribution, whose reads fall with the cache.
func TestSimulatesATraceOfSampledBlocks(t *testing.T) {
	const blocks, gets, blockBytes, rate = 20_000, 200_000, 4096, 8
	random := rand.New(rand.NewPCG(3, 4))
	zipf := rand.NewZipf(random, 1.05, 50, blocks-1)
	chosen := make([]bool, blocks)
	for i := range chosen {
		chosen[i] = random.IntN(rate) == 0
	}

	stream := make([]uint64, gets)
	for i := range stream {
		stream[i] = zipf.Uint64()
	}

	load := func(sampledBlocks int64) (*cachesim.Trace, trace.Header) {
		var file bytes.Buffer
		w, err := trace.NewWriter(&file, trace.Header{Schema: schema.Trace, Engine: "rocksdb",
			EngineVersion: "7.8", SampledBlocks: sampledBlocks})
		if err != nil {
			t.Fatal(err)
		}

		numbers := map[uint64]uint32{}
		for _, block := range stream {
			var accessed []uint32
			if sampledBlocks <= 1 || chosen[block] {
				if _, known := numbers[block]; !known {
					numbers[block] = w.Block(cachesim.Block{File: 1, Offset: block * blockBytes,
						Bytes: blockBytes, Type: engine.Data})
				}
				accessed = append(accessed, numbers[block])
			}

			if err := w.Get(true, accessed); err != nil {
				t.Fatal(err)
			}
		}

		if _, err := w.Close(gets); err != nil {
			t.Fatal(err)
		}

		loaded, header, err := trace.Load(&file)
		if err != nil {
			t.Fatal(err)
		}

		return loaded, header
	}

	sizes := []int64{8 << 20, 16 << 20, 32 << 20}
	curve := func(sampledBlocks int64) (reads, errors []float64) {
		loaded, header := load(sampledBlocks)
		out, err := Policies(t.Context(), loaded, header, cachesim.Setup{Cores: 1},
			[]cachesim.Policy{cachesim.LRUPolicy}, sizes,
			func(string, string, int64, bool) (int64, error) { return 0, nil },
			func(string, result.Event) {})
		if err != nil {
			t.Fatal(err)
		}

		if out.Gets != gets {
			t.Errorf("one block in %d: %d Gets", sampledBlocks, out.Gets)
		}

		for i, p := range out.Points {
			if p.CacheBytes != sizes[i] {
				t.Errorf("cache of %d bytes, not %d", p.CacheBytes, sizes[i])
			}
			reads, errors = append(reads, p.ReadsPerGet), append(errors, p.Error.OrZero())
		}

		return reads, errors
	}

	exact, _ := curve(0)
	sampled, interval := curve(rate)
	for i := range sizes {
		t.Logf("%d bytes: %.4f, sampled %.4f +- %.4f", sizes[i], exact[i], sampled[i], interval[i])
		if math.Abs(sampled[i]-exact[i]) > interval[i] || interval[i] > exact[i]/2 {
			t.Errorf("cache of %d bytes: %.4f reads a Get of the whole trace, %.4f +- %.4f of the "+
				"sample", sizes[i], exact[i], sampled[i], interval[i])
		}
	}
}
