package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// maxCurveGets bounds the memory of a trace: about 25 bytes a Get.
const maxCurveGets = 4_000_000

// curveOf is curvesOf with the warm-up of spec for every cache size.
func (a *app) curveOf(t target, spec bench.Spec, cores int, reserve reserveOf, cacheBytes []int64) ([]result.PredictedPoint, error) {
	return a.curvesOf(t, spec, cores, reserve, cacheBytes, slices.Repeat([]uint64{spec.WarmupGets}, len(cacheBytes)))
}

// curvesOf works the curve of runs out from the database's own filters and
// indexes: the runs' key stream, traced once and replayed against each cache size
// after as many warm-up Gets as its run had. It is exact for one thread; threads take
// turns here, and race in a run. The steady state is that of as many Gets again.
func (a *app) curvesOf(t target, spec bench.Spec, cores int, reserve reserveOf, cacheBytes []int64, warmups []uint64) ([]result.PredictedPoint, error) {
	measured := spec.Gets
	spec.WarmupGets = slices.Max(warmups)
	if spec.WarmupGets+2*spec.Gets > maxCurveGets {
		return nil, fmt.Errorf("%d warm-up and %d measured Gets are too many for a trace in memory: use statelab trace and statelab simulate, or predict --levels",
			spec.WarmupGets, spec.Gets)
	}
	spec.Gets *= 2
	var file bytes.Buffer
	if _, _, _, err := a.record(&file, t, &spec, trace.Sample{}, engine.Part{}, func(result.Event) {}); err != nil {
		return nil, fmt.Errorf("trace %s: %w", spec.Dir, err)
	}
	accesses, header, err := trace.Load(&file)
	if err != nil {
		return nil, err
	}
	setup := cachesim.Setup{Policy: policyOf(spec.Engine), Cores: cores}
	reserved := func(cacheBytes int64) (int64, error) {
		return reserve(header.Engine, header.Profile, cacheBytes, header.ReadOnly)
	}
	members := map[uint64][]int{}
	for i, warmup := range warmups {
		members[warmup] = append(members[warmup], i)
	}
	points := make([]result.PredictedPoint, len(cacheBytes))
	for warmup, indexes := range members {
		steady := accesses.WithoutGets(header.WarmupGets-int(spec.WarmupGets-warmup), header.WarmupGets)
		end := steady.WarmupGets + int(measured)
		run := *steady
		run.Accesses, run.Gets = steady.Accesses[:steady.Gets[end]], steady.Gets[:end]
		some := make([]int64, len(indexes))
		for n, i := range indexes {
			some[n] = cacheBytes[i]
		}
		now, err := curve(a.ctx, &run, setup, some, reserved)
		if err != nil {
			return nil, err
		}
		steady.WarmupGets = end
		later, err := curve(a.ctx, steady, setup, some, reserved)
		if err != nil {
			return nil, err
		}
		for n, p := range now {
			reads := p.BlockReadsPerGet()
			taken, err := reserved(p.CacheBytes)
			if err != nil {
				return nil, err
			}
			points[indexes[n]] = result.PredictedPoint{CacheBytes: p.CacheBytes, BlockBytes: max(0, p.CacheBytes-taken), BlockReadsPerGet: reads,
				Low: reads, High: reads, HitRate: p.HitRates(), SteadyState: later[n].BlockReadsPerGet()}
		}
	}
	return points, nil
}

// curve simulates all sizes, those with the same reserve together.
func curve(ctx context.Context, t *cachesim.Trace, setup cachesim.Setup, sizes []int64, reserve func(cacheBytes int64) (int64, error)) ([]cachesim.Point,
	error) {
	points := make([]cachesim.Point, len(sizes))
	byReserve := map[int64][]int{}
	for i, size := range sizes {
		bytes, err := reserve(size)
		if err != nil {
			return nil, err
		}
		byReserve[bytes] = append(byReserve[bytes], i)
	}
	for bytes, members := range byReserve {
		setup.ReservedBytes = bytes
		some := make([]int64, len(members))
		for n, i := range members {
			some[n] = sizes[i]
		}
		simulated, err := cachesim.Curve(ctx, t, setup, some)
		if err != nil {
			return nil, err
		}
		for n, i := range members {
			points[i] = simulated[n]
		}
	}
	return points, nil
}

// reserveOf tells what memtables take of a cache.
type reserveOf func(engine, profile string, cacheBytes int64, readOnly bool) (int64, error)
