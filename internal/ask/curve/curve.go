package curve

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blocktable"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// MostGets bounds the memory of a trace: about 25 bytes a Get.
const MostGets = 4_000_000

// MostMetadata is how many bytes of filters and indexes are read for a trace.
const MostMetadata = 1 << 30

// Traceable reports whether the metadata of levels is small enough to be read for a trace.
func Traceable(levels []engine.Level) bool { return MetadataBytes(levels) <= MostMetadata }

// MetadataBytes are those of the filters and indexes that a trace reads.
func MetadataBytes(levels []engine.Level) (bytes int64) {
	for _, l := range levels {
		bytes += l.IndexBytes + l.TopIndexBytes
		if l.FilterConsulted {
			bytes += l.FilterBytes
		}
	}
	return bytes
}

// Reserve tells what memtables take of a cache.
type Reserve func(engine, profile string, cacheBytes int64, readOnly bool) (int64, error)

// Predict works the curve of runs out from the database's own filters and indexes: the runs'
// key stream, traced once and replayed against each cache size after as many warm-up Gets as
// its run had (nil: those of the Gets of o). It is exact for one thread; threads take turns
// here, and race in a run. The steady state is that of as many Gets again.
func Predict(ctx context.Context, o Of, cores int, reserve Reserve, cacheBytes []int64, warmups []uint64) ([]result.PredictedPoint, error) {
	if warmups == nil {
		warmups = slices.Repeat([]uint64{o.Spec.WarmupGets}, len(cacheBytes))
	}
	measured := o.Spec.Gets
	o.Spec.WarmupGets, o.Spec.Gets = slices.Max(warmups), 2*measured
	if o.Spec.WarmupGets+o.Spec.Gets > MostGets {
		return nil, fmt.Errorf("%d warm-up and %d measured Gets are too many for a trace in memory: use statelab trace and statelab simulate, or predict --levels",
			o.Spec.WarmupGets, measured)
	}
	accesses, header, err := Traced(ctx, o, func(result.Event) {})
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", o.Spec.Dir, err)
	}
	setup := Setup(header, cores)
	reserved := func(cacheBytes int64) (int64, error) {
		return reserve(header.Engine, header.Profile, cacheBytes, header.ReadOnly)
	}
	points := make([]result.PredictedPoint, len(cacheBytes))
	for warmup, members := range grouped(warmups) {
		steady := accesses.WithoutGets(header.WarmupGets-int(o.Spec.WarmupGets-warmup), header.WarmupGets)
		end := steady.WarmupGets + int(measured)
		run := *steady
		run.Accesses, run.Gets = steady.Accesses[:steady.Gets[end]], steady.Gets[:end]
		some := picked(cacheBytes, members)
		now, err := Simulate(ctx, &run, setup, some, reserved)
		if err != nil {
			return nil, err
		}
		steady.WarmupGets = end
		later, err := Simulate(ctx, steady, setup, some, reserved)
		if err != nil {
			return nil, err
		}
		for n, p := range now {
			reads := p.BlockReadsPerGet()
			taken, err := reserved(p.CacheBytes)
			if err != nil {
				return nil, err
			}
			points[members[n]] = result.PredictedPoint{CacheBytes: p.CacheBytes, BlockBytes: max(0, p.CacheBytes-taken), BlockReadsPerGet: reads,
				Low: reads, High: reads, HitRate: p.HitRates(), SteadyState: later[n].BlockReadsPerGet()}
		}
	}
	return points, nil
}

// Setup is the cache of the engine of a trace, on this machine.
func Setup(header trace.Header, cores int) cachesim.Setup {
	s := cachesim.Setup{Policy: cmp.Or(header.Cache, subject.Policy(header.Engine)), Cores: cores, EntryBytes: header.CacheEntryBytes}
	s.HashSeed, s.Before83 = blocktable.CacheOf(header.EngineVersion)
	return s
}

// Simulate replays t against caches of all sizes, those with the same reserve together.
func Simulate(ctx context.Context, t *cachesim.Trace, setup cachesim.Setup, sizes []int64, reserve func(cacheBytes int64) (int64, error)) ([]cachesim.Point,
	error) {
	reserves := make([]int64, len(sizes))
	for i, size := range sizes {
		var err error
		if reserves[i], err = reserve(size); err != nil {
			return nil, err
		}
	}
	points := make([]cachesim.Point, len(sizes))
	for bytes, members := range grouped(reserves) {
		setup.ReservedBytes = bytes
		simulated, err := cachesim.Curve(ctx, t, setup, picked(sizes, members))
		if err != nil {
			return nil, err
		}
		for n, i := range members {
			points[i] = simulated[n]
		}
	}
	return points, nil
}

// grouped are the places of equal values.
func grouped[T comparable](values []T) map[T][]int {
	at := map[T][]int{}
	for i, value := range values {
		at[value] = append(at[value], i)
	}
	return at
}

func picked[T any](from []T, at []int) (some []T) {
	for _, i := range at {
		some = append(some, from[i])
	}
	return some
}
