package predict

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
)

func smallInput() Input {
	return Input{
		Levels:     lsm.SteadyStateLevels(lsm.BenchKVDB(20_000_000)),
		Version:    cachesim.PebbleV1,
		Cores:      1,
		WarmupGets: 10_000,
		Gets:       100_000,
		CacheBytes: []int64{8 << 20},
		Seeds:      []uint64{7},
	}
}

func TestSameSeedSamePrediction(t *testing.T) {
	in := smallInput()
	first, err := Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}

	again, err := Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}

	if !reflect.DeepEqual(first, again) {
		t.Errorf("%+v, then %+v", first, again)
	}

	in.Seeds = []uint64{8}
	other, err := Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}

	if first[0].BlockReadsPerGet == other[0].BlockReadsPerGet {
		t.Error("another seed predicts the same to the last bit")
	}
}

func TestLimitsOfTheCache(t *testing.T) {
	in := smallInput()
	in.Levels = lsm.SteadyStateLevels(lsm.BenchKVDB(1_000_000))
	in.CacheBytes = []int64{1, 64 << 30}
	in.Gets = 500_000
	points, err := Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}

	none, all := points[0], points[1]
	accesses := 0.0
	for _, perGet := range none.AccessesPerGet {
		accesses += perGet
	}

	if math.Abs(none.BlockReadsPerGet-accesses) > 1e-9 {
		t.Errorf("without a cache %v block reads per Get, but %v accesses", none.BlockReadsPerGet,
			accesses)
	}

	if all.BlockReadsPerGet > 0.5 || all.SteadyState > all.BlockReadsPerGet {
		t.Errorf("with room for all %v block reads per Get, %v in steady state",
			all.BlockReadsPerGet, all.SteadyState)
	}
}

// An absent key reads every level's top index and filter, and an index and a
// data block of the last level alone.
func TestAbsentKeys(t *testing.T) {
	levels := lsm.SteadyStateLevels(lsm.BenchKVDB(200_000_000))
	in := Input{Levels: levels, Version: cachesim.PebbleV1, AbsentShare: 1}
	classes, err := in.accessRates(RandomLoad(levels))
	if err != nil {
		t.Fatal(err)
	}

	last := map[engine.BlockType]float64{}
	for _, c := range classes {
		if c.level == 6 {
			last[c.kind] += c.perGet
		}
	}

	want := map[engine.BlockType]float64{engine.TopIndex: 1, engine.Index: 1, engine.Data: 1}
	if !reflect.DeepEqual(last, want) {
		t.Errorf("the last level is asked for %v per Get, want %v", last, want)
	}
}

func TestVersion2SkipsGaps(t *testing.T) {
	levels := lsm.SteadyStateLevels(lsm.BenchKVDB(200_000_000))
	sum := func(version cachesim.PebbleVersion) (accesses float64) {
		classes, err := (&Input{Levels: levels, Version: version}).accessRates(RandomLoad(levels))
		if err != nil {
			t.Fatal(err)
		}

		for _, c := range classes {
			accesses += c.perGet
		}

		return accesses
	}

	if v1, v2 := sum(cachesim.PebbleV1), sum(cachesim.PebbleV2); v2 > v1-2 {
		t.Errorf("%v accesses per Get in v2, %v in v1", v2, v1)
	}
}

func TestAliasesKeepRates(t *testing.T) {
	rates := []float64{0.5, 3, 0.01, 1, 1.49}
	draws := make([]draw, len(rates))
	for i := range draws {
		draws[i] = draw{first: uint32(i), n: 1, bytes: 1, class: int32(i)}
	}

	plan := shardPlan{draws: draws, perGet: fillAliases(draws, rates)}
	if math.Abs(plan.perGet-6) > 1e-12 {
		t.Errorf("rates sum up to %v", plan.perGet)
	}

	count := newTally(len(rates))
	const n = 2_000_000
	plan.play(shardCache{clock: cachesim.NewClockPro(100)}, n, rand.NewPCG(1, 2), count)
	for i, rate := range rates {
		have, want := float64(count[i].accesses)/n, rate/6
		if math.Abs(have-want) > 4*math.Sqrt(want/n) {
			t.Errorf("row %d drawn %.5f of the times, want %.5f", i, have, want)
		}
	}
}

func TestEmbeddedFiles(t *testing.T) {
	for depth, files := range parseFiles(loadedFiles) {
		if len(files) < 80 {
			t.Errorf("depth %s: only %d files", depth, len(files))
		}

		for i, f := range files {
			if f.Bytes < 0 || f.Width < 0 || f.Gap < 0 {
				t.Errorf("depth %s, file %d: %+v", depth, i, f)
			}
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Input){
		"no version":       func(in *Input) { in.Version = 0 },
		"no cores":         func(in *Input) { in.Cores = 0 },
		"no Gets":          func(in *Input) { in.Gets = 0 },
		"no seeds":         func(in *Input) { in.Seeds = nil },
		"wild share":       func(in *Input) { in.AbsentShare = math.NaN() },
		"no cache":         func(in *Input) { in.CacheBytes = []int64{0} },
		"negative reserve": func(in *Input) { in.ReservedBytes = -1 },
		"no keys":          func(in *Input) { in.Levels = nil },
		"unknown sizes":    func(in *Input) { in.Levels[6].InCacheKnown = false },
		"no blocks":        func(in *Input) { in.Levels[6].DataBlocks = 0 },
		"wrong geometry":   func(in *Input) { in.Geometry = make([]Geometry, 1) },
	} {
		in := smallInput()
		spoil(&in)
		if points, err := Run(context.Background(), in); err == nil {
			t.Errorf("%s: %+v and no error", name, points)
		}
	}

	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(stopped, smallInput()); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped prediction returns %v", err)
	}
}
