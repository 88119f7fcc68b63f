// Package predict works out block reads per Get from a database's level table
// alone: no database, no trace.
//
// It draws block accesses at the rates the level table implies (geometry.go) and
// plays them to the model of Pebble's cache, shard by shard (simulation.go), for as
// many Gets as the run that is predicted makes (predict.go). Closed forms for
// LRU caches do not fit: Pebble's cache keeps the set of blocks it found first,
// and a run on a large database ends long before it is in steady state.
//
// The model is of uniformly random Gets on a database at rest. It knows nothing
// of skewed keys, range reads, or threads that miss one block together.
package predict

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/result"
)

// Input describes the run to predict.
type Input struct {
	// Levels with what their blocks take in a cache, the engine's charge
	// included (lsm.WithCharge adds it to tables that lack it).
	Levels []engine.Level
	// Geometry of each of Levels; nil: RandomLoad.
	Geometry []Geometry

	Version       cachesim.PebbleVersion
	Blocks        *BlockTables // of a database that is not Pebble's
	Cores         int          // of the machine that runs: they set the number of shards
	ReservedBytes int64        // of the cache, taken by memtables; OpenReserve at least

	WarmupGets  uint64 // made before counting begins, the cache empty at first
	Gets        uint64
	AbsentShare float64 // of the Gets: keys that are not there
	// FilterRate is the share of the keys of others that the filter of a table of a level lets
	// pass; nil: FalsePositives.
	FilterRate func(engine.Level) float64
	// NoEarlyExit: a Get looks into the levels below the one that has its key, too.
	NoEarlyExit bool

	CacheBytes []int64
	Seeds      []uint64 // how often to draw which file meets which shard
}

// OpenReserve is what an open, writable database takes of its cache before
// anything is written: its first memtable.
const OpenReserve = 256 << 10

// Point is a predicted point with what it consists of.
type Point struct {
	result.PredictedPoint
	AccessesPerGet [engine.NumBlockTypes]float64
	ReadsPerGet    [engine.NumBlockTypes]float64
	// Extrapolated says that the hands of the cache went round so often that
	// the simulation stopped early: its last stretch stands for the rest.
	Extrapolated bool
}

// Run predicts a point for each of in.CacheBytes, in that order. The band of a
// point spans the seeds: with few shards it is a matter of luck which large
// blocks compete for one.
func Run(ctx context.Context, in Input) ([]Point, error) {
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}

	geometry := in.Geometry
	if geometry == nil {
		geometry = RandomLoad(in.Levels)
		if in.Blocks != nil {
			geometry = in.Blocks.randomLoad(in.Levels)
		}
	}

	classes, err := in.accessRates(geometry)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}

	points := make([]Point, len(in.CacheBytes))
	for i, cacheBytes := range in.CacheBytes {
		if points[i], err = in.point(ctx, classes, cacheBytes); err != nil {
			return nil, fmt.Errorf("predict: %w", err)
		}
	}

	return points, nil
}

func (in *Input) check() error {
	switch {
	case in.Blocks == nil && in.Version != cachesim.PebbleV1 && in.Version != cachesim.PebbleV2:
		return fmt.Errorf("no model of version %d of Pebble's cache", in.Version)
	case in.Cores < 1:
		return fmt.Errorf("%d cores", in.Cores)
	case in.Gets == 0:
		return fmt.Errorf("no Gets to predict")
	case !(in.AbsentShare >= 0 && in.AbsentShare <= 1):
		return fmt.Errorf("%v of the Gets for absent keys: want a share from 0 to 1",
			in.AbsentShare)
	case in.ReservedBytes < 0:
		return fmt.Errorf("%d bytes reserved", in.ReservedBytes)
	case len(in.Seeds) == 0:
		return fmt.Errorf("no seeds")
	case in.Geometry != nil && len(in.Geometry) != len(in.Levels):
		return fmt.Errorf("geometry of %d levels out of %d", len(in.Geometry), len(in.Levels))
	}

	for _, size := range in.CacheBytes {
		if size < 1 {
			return fmt.Errorf("a cache of %d bytes", size)
		}
	}

	return nil
}

// layout is how a cache is divided and how much of it is simulated.
type layout struct {
	shards, simulated int
	shardBytes        int64
	reservedBytes     int64 // of each shard
}

const (
	// Half of a large shard with half of its blocks behaves as the whole, and takes half the
	// time. Where the largest blocks do not all fit, how many of them fit must not be small.
	calmShardBytes, tightShardBytes = 64 << 20, 256 << 20
	// Shards to simulate, per seed, where they are many: shards differ by which
	// large blocks they got, which matters while those do not fit.
	calmShards, tightShards = 16, 32
	// A few suffice to see where it all leads.
	steadyShards = 8
)

func (in *Input) layout(cacheBytes int64) layout {
	var l layout
	maximum, simulated := int64(calmShardBytes), calmShards
	if ip1 := lsm.Inflect(in.Levels, nil,
		0).IP1.CacheBytes; float64(cacheBytes-in.ReservedBytes) < 1.3*float64(ip1) {
		maximum, simulated = tightShardBytes, tightShards
	}

	l.shards = cachesim.ShardCount(cacheBytes, in.Cores)
	if in.Blocks != nil {
		l.shards = cachesim.PooledShards(cacheBytes)
	}

	for cacheBytes/int64(l.shards) > maximum {
		l.shards *= 2
	}

	l.shardBytes = cacheBytes / int64(l.shards)
	l.reservedBytes = (min(cacheBytes, in.reserved()) + int64(l.shards) - 1) / int64(l.shards)
	if in.Blocks != nil { // whose shards differ by the few large blocks that they got
		simulated = max(simulated, cachesim.PooledShards(math.MaxInt64))
	}

	l.simulated = min(l.shards, simulated)
	return l
}

// point predicts for one cache size: all seeds and shards are independent.
func (in *Input) point(ctx context.Context, classes []class, cacheBytes int64) (Point, error) {
	l := in.layout(cacheBytes)
	runs := make([][]outcome, len(in.Seeds))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	run := func(at *outcome, sim simulation, toSteadyState bool) {
		sim.classes = len(classes)
		work.Go(func() (err error) {
			*at, err = sim.run(ctx, float64(in.WarmupGets), float64(in.Gets), toSteadyState)
			return err
		})
	}

	accesses := 0.0
	for _, c := range classes {
		accesses += c.perGet
	}

	inOrder := inOrder(classes, l.shardBytes)
	for i, seed := range in.Seeds {
		minimum := accessesPerBlock * float64(l.shardBytes-l.reservedBytes) / usualBlockBytes
		if inOrder {
			runs[i] = make([]outcome, 1)
			run(&runs[i][0], simulation{
				draw: planGets(classes, l, seed).play, perGet: 1, steps: func() int64 { return 0 },
				random: rand.NewPCG(seed, 1), minStretch: minimum * float64(l.shards) / accesses,
			}, i == 0)

			continue
		}

		runs[i] = make([]outcome, l.simulated)
		plans := planShards(classes, l.shards, l.simulated, rand.New(rand.NewPCG(seed, 0)))
		for s := range plans {
			cache := in.newShard(l)
			run(&runs[i][s], simulation{
				draw: func(n int64, random *rand.PCG, count tally) {
					plans[s].play(cache, n, random, count)
				},
				perGet: plans[s].perGet, steps: cache.steps,
				random:     rand.NewPCG(seed, uint64(s)+1),
				stepsLeft:  maxSteps / int64(l.simulated*len(in.Seeds)),
				minStretch: minimum,
			}, i == 0 && s < steadyShards)
		}
	}

	if err := work.Wait(); err != nil {
		return Point{}, err
	}

	p := summarise(classes, cacheBytes, l, runs)
	p.BlockBytes = max(0, cacheBytes-in.reserved())
	return p, nil
}

// newShard is an empty shard, less what is reserved.
func (in *Input) newShard(l layout) shardCache {
	if in.Blocks != nil {
		return shardCache{pooled: cachesim.NewPooledLRU(l.shardBytes-l.reservedBytes,
			cachesim.DefaultHighShare)}
	}
	clock := cachesim.NewClockPro(l.shardBytes)
	clock.Reserve(l.reservedBytes)
	return shardCache{clock: clock}
}

// reserved are the bytes of the cache that hold no block that may leave.
func (in *Input) reserved() int64 {
	if in.Blocks != nil {
		return in.Blocks.pinned(in.Levels)
	}
	return in.ReservedBytes
}

// summarise turns counts of the simulated shards into figures of the whole
// cache: hit rates are those counted, rates of access are exact.
func summarise(classes []class, cacheBytes int64, l layout, runs [][]outcome) Point {
	p := Point{PredictedPoint: result.PredictedPoint{
		CacheBytes: cacheBytes,
		HitRate:    map[string]float64{},
	}}

	var totals []float64
	for _, shards := range runs {
		measured := newTally(len(classes))
		for _, shard := range shards {
			measured.add(shard.measured)
			p.Extrapolated = p.Extrapolated || shard.extrapolated
		}

		total := 0.0
		for i, rate := range measured.missRates(classes) {
			c := classes[i]
			reads := c.perGet * rate
			total += reads
			p.ReadsPerGet[c.kind] += reads / float64(len(runs))
		}

		p.BlockReadsPerGet += total / float64(len(runs))
		totals = append(totals, total)
	}

	// Part of the shards deviates more than all of them would.
	shrink := math.Sqrt(float64(l.simulated) / float64(l.shards))
	p.Low = p.BlockReadsPerGet - shrink*(p.BlockReadsPerGet-slices.Min(totals))
	p.High = p.BlockReadsPerGet + shrink*(slices.Max(totals)-p.BlockReadsPerGet)
	accesses := 0.0
	for _, c := range classes {
		p.AccessesPerGet[c.kind] += c.perGet
		accesses += c.perGet
	}

	p.SteadyState = p.BlockReadsPerGet + driftToSteadyState(classes, runs[0])
	for kind, perGet := range p.AccessesPerGet {
		if perGet > 0 {
			p.HitRate[engine.BlockType(kind).String()] = max(0, 1-p.ReadsPerGet[kind]/perGet)
		}
	}

	p.HitRate["all"] = 1 - p.BlockReadsPerGet/accesses
	return p
}

// driftToSteadyState is by how much block reads per Get go on changing after the
// measured Gets, on those shards that were played on.
func driftToSteadyState(classes []class, shards []outcome) (drift float64) {
	measured, steady := newTally(len(classes)), newTally(len(classes))
	for _, shard := range shards[:min(steadyShards, len(shards))] {
		measured.add(shard.measured)
		// Some shards play on for longer than others: each counts by its share of the Gets.
		steady.addTimes(shard.steady, float64(shard.measured.accesses())/float64(max(1,
			shard.steady.accesses())))
	}

	before, after := measured.missRates(classes), steady.missRates(classes)
	for i, c := range classes {
		drift += c.perGet * (after[i] - before[i])
	}

	return drift
}
