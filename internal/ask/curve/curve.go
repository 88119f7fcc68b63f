package curve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// MaxGets bounds the memory of a trace: about 25 bytes a Get.
const MaxGets = 4_000_000

// MaxMetadata is how many bytes of filters and indexes are read for a trace.
const MaxMetadata = 1 << 30

// Traceable reports whether the metadata of levels is small enough to be read for a trace.
func Traceable(levels []engine.Level) bool { return MetadataBytes(levels) <= MaxMetadata }

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
func Predict(
	ctx context.Context, o TraceRequest, cores int, reserve Reserve, cacheBytes []int64,
	warmups []uint64,
) ([]result.PredictedPoint, error) {
	if warmups == nil {
		warmups = slices.Repeat([]uint64{o.Spec.WarmupGets}, len(cacheBytes))
	}

	measured := o.Spec.Gets
	o.Spec.WarmupGets, o.Spec.Gets = slices.Max(warmups), 2*measured
	if o.Spec.WarmupGets+o.Spec.Gets > MaxGets {
		return nil, fmt.Errorf("%d warm-up and %d measured Gets are too many for a trace in "+
			"memory: use statelab trace and statelab simulate, or predict --levels",
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
		steady := accesses.WithoutGets(header.WarmupGets-int(o.Spec.WarmupGets-warmup),
			header.WarmupGets)
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

			points[members[n]] = result.PredictedPoint{
				CacheBytes:       p.CacheBytes,
				BlockBytes:       max(0, p.CacheBytes-taken),
				BlockReadsPerGet: reads,
				Low:              reads,
				High:             reads,
				HitRate:          p.HitRates(),
				SteadyState:      later[n].BlockReadsPerGet(),
			}
		}
	}

	return points, nil
}

// Setup is the cache of the engine of a trace, on this machine.
func Setup(header trace.Header, cores int) cachesim.Setup {
	s := cachesim.Setup{
		Policy:     cmp.Or(header.Cache, subject.Policy(header.Engine)),
		Cores:      cores,
		EntryBytes: header.CacheEntryBytes,
		HighShare:  header.CacheHighShare,
	}
	s.HashSeed, s.Before83 = blockbased.CacheOf(header.EngineVersion)
	return s
}

// Simulate replays t against caches of all sizes, those with the same reserve together.
func Simulate(
	ctx context.Context, t *cachesim.Trace, setup cachesim.Setup, sizes []int64,
	reserve func(cacheBytes int64) (int64, error),
) ([]cachesim.Point,
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

// simulateSample is Simulate of a trace that holds one of rate blocks: its caches are as many times
// smaller, and their reads stand for as many (SHARDS, Waldspurger et al., FAST 2015).
func simulateSample(
	ctx context.Context, t *cachesim.Trace, setup cachesim.Setup, sizes []int64, rate int64,
	reserve func(cacheBytes int64) (int64, error),
) ([]cachesim.Point, error) {
	smaller := make([]int64, len(sizes))
	for i, size := range sizes {
		smaller[i] = size / rate
	}

	points, err := Simulate(ctx, t, setup, smaller, func(cacheBytes int64) (int64, error) {
		bytes, err := reserve(cacheBytes * rate)
		return bytes / rate, err
	})
	if err != nil {
		return nil, err
	}

	chosen := chosenError(t, rate)
	for i := range points {
		p := &points[i]
		p.CacheBytes = sizes[i]
		for kind := range p.Reads {
			p.Reads[kind], p.Accesses[kind] = p.Reads[kind]*rate, p.Accesses[kind]*rate
		}

		if rate > 1 {
			p.ReadsPerGetError = math.Hypot(p.ReadsPerGetError*float64(rate),
				chosen*p.BlockReadsPerGet())
		}
	}

	return points, nil
}

// chosenError is half the 95 % interval of how many accesses the whole trace has, as a share of
// them, where each block was chosen with the probability 1/rate: the variance of the estimate is
// that of a Horvitz-Thompson sum.
func chosenError(t *cachesim.Trace, rate int64) float64 {
	accesses := make([]float64, len(t.Blocks))
	for _, number := range t.Accesses {
		accesses[number]++
	}

	squares := 0.0
	for _, n := range accesses {
		squares += n * n
	}

	const normal95 = 1.96
	return normal95 * math.Sqrt((1-1/float64(rate))*squares) / float64(max(1, len(t.Accesses)))
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

// Taken is what memtables take of a cache; nil is as in an open database.
type Taken struct{ bytes *int64 }

// TakenKind reads auto or a size.
var TakenKind = setting.Kind[Taken]{Name: "size", Parse: func(text string) (t Taken, err error) {
	if text == "auto" {
		return t, nil
	}
	bytes, err := unit.ParseBytes(text)
	if err != nil {
		err = fmt.Errorf("%w, or auto", err)
	}
	return Taken{&bytes}, err
}}

// ReserveBytes returns what memtables take of the cache of an engine; it is a Reserve.
func (t Taken) ReserveBytes(
	engine, profile string, cacheBytes int64, readOnly bool,
) (int64, error) {
	if t.bytes == nil {
		return pebbledb.OpenReserveBytes(engine, profile, cacheBytes, readOnly)
	}
	return *t.bytes, nil
}

// Pipe as the name of a trace is standard input or output.
const Pipe = "-"

// Load reads a trace, or of a shift above 0 one of 2^shift blocks of it.
func Load(path string, shift int) (t *cachesim.Trace, header trace.Header, err error) {
	file := os.Stdin
	if path != Pipe {
		if file, err = os.Open(path); err != nil {
			return nil, header, err
		}
		defer file.Close() // it was only read
	}

	if shift > 0 {
		t, header, err = trace.LoadSample(file, shift)
	} else {
		t, header, err = trace.Load(file)
	}

	if err != nil {
		return nil, header, fmt.Errorf("%s: %w", path, err)
	}

	return t, header, nil
}

// Policies replays a trace against caches of several policies, none for that of the traced
// engine, at all sizes.
func Policies(ctx context.Context, t *cachesim.Trace, header trace.Header, setup cachesim.Setup,
	policies []cachesim.Policy, sizes []int64, reserve Reserve,
	tell func(policy string, e result.Event),
) (out enginereport.Simulation, err error) {
	out = enginereport.Simulation{Schema: schema.Simulation, Trace: header}
	setup = Setup(header, setup.Cores)
	if len(policies) == 0 {
		policies = []cachesim.Policy{setup.Policy}
	}

	for i, policy := range policies {
		tell(string(policy), result.Event{
			Phase: "simulating",
			Done:  uint64(i),
			Total: uint64(len(policies)),
			Unit:  "policies",
		})

		setup.Policy = policy
		points, err := simulateSample(ctx, t, setup, sizes, max(1, header.SampledBlocks),
			func(cacheBytes int64) (int64, error) {
				return reserve(header.Engine, header.Profile, cacheBytes, header.ReadOnly)
			})
		if err != nil {
			return out, fmt.Errorf("simulate %s: %w", policy, err)
		}

		for _, p := range points {
			s := enginereport.SimulatedPoint{
				Policy:      string(policy),
				CacheBytes:  p.CacheBytes,
				ReadsPerGet: p.BlockReadsPerGet(),
				ByType:      map[string]float64{},
				HitRate:     p.HitRates(),
			}

			if p.ReadsPerGetError > 0 { // of a sample
				s.Error = figure.Known(p.ReadsPerGetError)
			}

			for _, kind := range engine.BlockTypes() {
				if p.Accesses[kind] > 0 {
					s.ByType[kind.String()] = float64(p.Reads[kind]) / float64(p.Gets)
				}
			}

			out.Gets, out.Points = p.Gets, append(out.Points, s)
		}
	}

	return out, nil
}

// Predictable reports whether the curve of a sweep can be worked out: the cache alone varies, of an
// engine whose Gets are resolved, the keys are known here, and nothing is written. A single cache
// is no curve unless others are to be simulated.
func Predictable(s sweep.Sweep) bool {
	for _, axis := range s.Axes {
		varies := len(axis.Values) > 1
		if axis.Name == sweep.CacheAxis && len(s.Simulated) > 0 {
			continue
		}

		if (axis.Name == sweep.CacheAxis) != varies {
			return false
		}
	}

	one := s.Settings()[0].Read
	w := one.Workload
	known := subject.Descriptor(one.Engine).SimulatesLevels() ||
		slices.Contains(subject.Traced(), one.Engine) && !one.Foreign
	return known && (w == workload.ReadRandom || w == workload.ReadMissing) && one.Gets*2 < MaxGets
}

// AddPrediction adds the curve that the database's own filters and indexes imply to a measured
// sweep. open finds the database. Where the curve cannot be worked out the sweep is as good without
// it; why is a warning, and an error where further caches were to be simulated.
func AddPrediction(
	ctx context.Context, s sweep.Sweep, done *result.Sweep,
	open func(sweep.Wanted) (sweep.Target, engine.Engine, error),
) error {
	points := slices.DeleteFunc(slices.Clone(done.Points), func(p result.Point) bool {
		return p.Status != result.OK
	})
	if !Predictable(s) || len(points) == 0 {
		return nil
	}

	spec := s.Settings()[0].Read
	t, linked, err := open(sweep.Wanted{
		Dir:      done.Database.Dir,
		Engine:   spec.Engine,
		Profile:  spec.Profile,
		Existing: true,
		ReadOnly: true,
	})
	if err == nil {
		spec.Dir, spec.Foreign = done.Database.Dir, t.Foreign
		var sizes []int64
		var warmups []uint64
		for _, point := range points {
			sizes, warmups = append(sizes, point.CacheBytes), append(warmups, point.WarmupGets)
		}

		measured, longest := len(sizes), slices.Max(warmups)
		for _, cache := range s.Simulated {
			if bytes := cache.BytesFor(done.Database.Bytes); !slices.Contains(sizes, bytes) {
				sizes, warmups = append(sizes, bytes), append(warmups, longest)
			}
		}

		o := TraceRequest{Engine: linked, Version: t.Engine.Info().Version, Spec: spec}
		var all []result.PredictedPoint
		all, err = Predict(ctx, o, done.Host.Cores, pebbledb.OpenReserveBytes, sizes, warmups)
		if err == nil {
			done.Predicted, done.Simulated = all[:measured:measured], all[measured:]
		}
	}

	switch {
	case err != nil && len(s.Simulated) > 0:
		return fmt.Errorf("simulate further caches: %w", err)
	case err != nil:
		done.Predicted, done.Warnings = nil,
			append(done.Warnings, engine.Warning{
				Code: "not_predicted",
				Text: "no predicted curve: " + err.Error(),
			})

		return nil
	}

	for _, points := range [][]result.PredictedPoint{done.Predicted, done.Simulated} {
		slices.SortFunc(points, func(a, b result.PredictedPoint) int {
			return cmp.Compare(a.CacheBytes, b.CacheBytes)
		})
	}

	return nil
}

// Steady is what Gets of some column families read with a block cache that they share, when it has
// been in use for long.
type Steady struct {
	trace *cachesim.Trace
	setup cachesim.Setup
	bytes int64 // of all blocks in a cache, about
	// Metadata are blocks of filters and indexes among those that the cache is asked for.
	Metadata bool
	// ValueReads are reads per Get of values outside the tables, which no block cache spares.
	ValueReads float64
	// Uncached are reads per Get, but for ValueReads, that no block cache spares: of blocks that
	// never enter it, and of tables that are opened again.
	Uncached float64
	// OpenFiles tells whether the limit of open files keeps all tables open.
	OpenFiles trace.OpenFiles
}

// A trace of random Gets fills a cache after it has asked for each block some times.
const (
	steadyWarmups = 3 // Gets for each block
	steadyGets    = 100_000
	maxSteady     = MaxGets / (steadyWarmups + 1) // blocks
)

// NewSteady draws keys of the families in dir evenly, of which missing is the share of absent ones,
// and resolves their Gets as version of the engine would make them, with these options instead of
// the owner's. A database that is too large for that is an error.
func NewSteady(
	ctx context.Context, dir, name, version string, families []adapter.Portion, missing float64,
	seed uint64, replaced blockbased.Options,
) (s *Steady, err error) {
	var members []*blockbased.Resolver
	defer func() {
		for _, r := range members {
			err = errors.Join(err, r.Close())
		}
	}()

	var shares []float64
	for _, f := range families {
		r, err := blockbased.Open(dir, f.Name, replaced)
		if err != nil {
			return nil, err
		}
		members, shares = append(members, r), append(shares, f.Share)
	}

	files := trace.OpenFiles{Limit: members[0].OpenFiles()}
	for _, r := range members {
		files.Tables += len(r.All)
	}
	if files.Enough, err = blockbased.LimitOpenTables(members...); err != nil {
		return nil, err
	}

	mix := blockbased.NewMix(members...)
	blocks := uint64(mix.Blocks())
	if blocks > maxSteady {
		return nil, fmt.Errorf("%d blocks are too many to be traced in memory: at most %d are",
			blocks, maxSteady)
	}

	header := trace.Header{
		Engine:        name,
		EngineVersion: version,
		CacheKeys:     mix.CacheKeys(),
		WarmupGets:    int(max(steadyGets, steadyWarmups*blocks)),
	}

	opening := mix.Opening()
	gets := uint64(header.WarmupGets) + max(steadyGets, blocks)
	if len(opening) > 0 {
		header.Opening = true
		header.WarmupGets++
	}

	var file bytes.Buffer
	out, err := trace.NewWriter(&file, header)
	if err != nil {
		return nil, err
	}

	var failed error
	offered, err := lookuppath.Record(ctx, mix, opening,
		mix.Keys(shares, missing, gets, seed, &failed), gets, trace.Sample{}, out)
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}

	if _, err := out.Close(offered); err != nil {
		return nil, err
	}

	s = &Steady{setup: Setup(header, 1), OpenFiles: files}
	if s.trace, _, err = trace.Load(&file); err != nil {
		return nil, err
	}

	for i := range s.trace.Blocks {
		b := &s.trace.Blocks[i]
		if b.Marks&cachesim.Uncached != 0 {
			continue
		}

		s.bytes += s.setup.Charge(b)
		s.Metadata = s.Metadata || b.Type != engine.Data
	}

	for _, number := range s.trace.Accesses[s.trace.Gets[s.trace.WarmupGets]:] {
		switch b := &s.trace.Blocks[number]; {
		case b.Type == engine.Value:
			s.ValueReads++
		case b.Marks&cachesim.Uncached != 0:
			s.Uncached++
		}
	}

	counted := float64(len(s.trace.Gets) - s.trace.WarmupGets)
	s.ValueReads, s.Uncached = s.ValueReads/counted, s.Uncached/counted
	s.bytes = int64(float64(s.bytes) * float64(blocks) / float64(max(1, len(s.trace.Blocks))))
	return s, nil
}

// Reads are block reads per Get with a cache, but for ValueReads, those of metadata among them if
// they are in the cache. A cache that holds all blocks reads Uncached.
func (s *Steady) Reads(ctx context.Context, cacheBytes int64) (perGet float64, err error) {
	const roomForUnevenShards = 1.25
	if float64(cacheBytes) > roomForUnevenShards*float64(s.bytes) {
		return s.Uncached, nil
	}

	points, err := cachesim.Curve(ctx, s.trace, s.setup, []int64{cacheBytes})
	if err != nil {
		return 0, err
	}

	return points[0].BlockReadsPerGet() - s.ValueReads, nil
}

// Cost is what Gets of a column family read while the block cache is empty, estimated from keys
// that are drawn evenly from its tables, and as many that begin like them and are absent.
type Cost struct {
	Table string `json:"table,omitempty"` // "": the whole database
	Keys  int    `json:"keys"`            // of each kind
	// Present and Absent are by block type, and "all".
	Present map[string]PerGet `json:"present"`
	Absent  map[string]PerGet `json:"absent"`
	// Outside: filters and indexes stay in memory with open tables, so that they are not read.
	Outside bool `json:"metadata_outside_cache"`
}

// PerGet are means over Gets.
type PerGet struct {
	Reads float64 `json:"reads"`
	Bytes float64 `json:"bytes"` // as stored
}

// maxInspected bounds how much is read to look into the tables of a family: filters and indexes are
// about one percent of it.
const maxInspected = 64 << 30

// Inspect looks into the tables of a family ("" is the default one): what their filters and indexes
// take goes into levels, what keys Gets read is returned; nil for a family without values, one that
// is too large, or keys 0. warnings are about the database.
func Inspect(
	ctx context.Context, dir, name, version, family string, levels []engine.Level, keys int,
) (cost *Cost, warnings []engine.Warning, err error) {
	bytes := int64(0)
	for _, l := range levels {
		bytes += l.Bytes
	}

	switch {
	case bytes == 0:
		return nil, nil, nil
	case bytes > maxInspected:
		return nil, []engine.Warning{{Code: "not_inspected",
			Text: fmt.Sprintf("the tables of %s were not looked into, since they have %s, more "+
				"than %s: what their filters and indexes take in a cache is not known",
				cmp.Or(family, "the database"), unit.Bytes(bytes), unit.Bytes(maxInspected)),
			Remedy: "measure what a Get reads with statelab sweep"}}, nil
	}

	r, err := blockbased.Open(dir, family, nil)
	if err != nil {
		return nil, nil, err
	}

	defer func() { err = errors.Join(err, r.Close()) }()
	setup := Setup(trace.Header{Engine: name, EngineVersion: version}, 1)
	if err := r.Describe(levels, setup.Charge); err != nil || keys == 0 {
		return nil, r.Warnings(), err
	}

	cost = &Cost{Table: family, Keys: keys, Outside: r.MetadataOutsideCache()}
	if cost.Present, err = emptyCache(ctx, r, 0, keys); err == nil {
		cost.Absent, err = emptyCache(ctx, r, 1, keys)
	}

	return cost, r.Warnings(), err
}

// emptyCache are the means over so many Gets, of which missing is the share of absent keys.
func emptyCache(
	ctx context.Context, r *blockbased.Resolver, missing float64, keys int,
) (map[string]PerGet, error) {
	mix, sums, numbers := blockbased.NewMix(r), [engine.NumBlockTypes]PerGet{}, []uint32(nil)
	walk := mix.Walk()
	var undrawn error
	next := mix.Keys([]float64{1}, missing, uint64(keys), 1, &undrawn)
	for key, known, more := next(); more; key, known, more = next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		var err error
		if numbers, _, err = walk.Get(key, known, numbers); err != nil {
			return nil, err
		}

		for _, number := range numbers {
			var b cachesim.Block
			if b, err = mix.Block(number); err != nil {
				return nil, err
			}

			sums[b.Type].Reads++
			sums[b.Type].Bytes += float64(b.DiskBytes)
		}
	}

	if undrawn != nil {
		return nil, fmt.Errorf("draw keys: %w", undrawn)
	}

	means := map[string]PerGet{}
	for kind, sum := range sums {
		if sum.Reads > 0 {
			mean := PerGet{sum.Reads / float64(keys), sum.Bytes / float64(keys)}
			means[engine.BlockType(kind).String()] = mean
			means["all"] = PerGet{means["all"].Reads + mean.Reads, means["all"].Bytes + mean.Bytes}
		}
	}

	return means, nil
}
