package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// maxCurveGets bounds the memory of a trace: about 25 bytes a Get.
const maxCurveGets = 4_000_000

// curveOf works the curve of a run out from the database's own filters and
// indexes: the run's key stream, traced and replayed against each cache size. It
// is exact for one thread; threads take turns here, and race in a run. The
// steady state is that of as many Gets again.
func (a *app) curveOf(t target, spec bench.Spec, cores int, reserve reserveOf, cacheBytes []int64) ([]result.PredictedPoint, error) {
	measured := spec.Gets
	if spec.WarmupGets+2*spec.Gets > maxCurveGets {
		return nil, fmt.Errorf("%d warm-up and %d measured Gets are more than a trace in memory holds: trace and simulate them, or predict from --layout",
			spec.WarmupGets, spec.Gets)
	}
	spec.Gets *= 2
	var file bytes.Buffer
	if _, _, err := a.record(&file, t, &spec, trace.Sample{}, func(result.Event) {}); err != nil {
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
	run, end := *accesses, header.WarmupGets+int(measured)
	run.Accesses, run.Gets = accesses.Accesses[:accesses.Gets[end]], accesses.Gets[:end]
	steady := *accesses
	steady.WarmupGets = end
	now, err := curve(a.ctx, &run, setup, cacheBytes, reserved)
	if err != nil {
		return nil, err
	}
	later, err := curve(a.ctx, &steady, setup, cacheBytes, reserved)
	if err != nil {
		return nil, err
	}
	points := make([]result.PredictedPoint, len(now))
	for i, p := range now {
		reads := p.BlockReadsPerGet()
		points[i] = result.PredictedPoint{CacheBytes: p.CacheBytes, BlockReadsPerGet: reads, Low: reads, High: reads, HitRate: p.HitRates(),
			SteadyState: later[i].BlockReadsPerGet()}
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
