package tune

import (
	"context"
	"math"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/reblock"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// others are built and predicted from the first one. The short form builds the first four.
var others = []reblock.Tables{
	{BlockBytes: 4 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 4 << 10, IndexBytes: 4 << 10, FilterBits: 10, LastFilters: true},
	{BlockBytes: 16 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 2 << 10, IndexBytes: 4 << 10, FilterBits: 16},
	{BlockBytes: 4 << 10, IndexBytes: 4 << 10, FilterBits: 5},
	{BlockBytes: 1 << 10, IndexBytes: 4 << 10, FilterBits: 10},
	{BlockBytes: 8 << 10, IndexBytes: 64 << 10, FilterBits: 10},
	{BlockBytes: 4 << 10, IndexBytes: 256 << 10, FilterBits: 10},
	{BlockBytes: 32 << 10, IndexBytes: 32 << 10, FilterBits: 20},
	{BlockBytes: 2 << 10, IndexBytes: 16 << 10, FilterBits: 8, LastFilters: true},
}

// TestPredictedIsBuilt predicts from the accesses of one database what others would read, which are
// built and whose own accesses are replayed. Two databases that are loaded in random order with the same
// options differ, too, as compactions happen to run: so these are built from sorted tables, in the shape
// that such a load has.
//
//	go test -v -run PredictedIsBuilt ./internal/ask/tune
func TestPredictedIsBuilt(t *testing.T) {
	keys, gets, shrink := uint64(1_000_000), uint64(200_000), int64(1)
	some := others
	if testing.Short() {
		keys, gets, shrink, some = 250_000, 100_000, 4, others[:4]
	}
	for name, e := range map[string]engine.Engine{"pebble1": pebble1.Engine{}, "pebble2": pebble2.Engine{}} {
		t.Run(name, func(t *testing.T) {
			built := make([]database, len(some))
			for i, tables := range some {
				options := optionsOf(tables)
				options["LBaseMaxBytes"], options["TargetFileSize"] = size(16<<20/shrink), size(2<<20/shrink)
				built[i] = load(t, e, pebbledb.BenchKVDB().Name, workload.FillSorted, keyspace.Table32, keys, options)
			}
			worst := 0.0
			for _, missing := range []float64{0, 0.5} {
				from := built[0].gets(gets, missing)
				traced := map[reblock.Tables]*cachesim.Trace{} // of caches of all sizes
				for _, cache := range []int64{1 << 20, 2 << 20, 8 << 20} {
					s := search{Asked: &Asked{Gets: from, Seeds: []uint64{5}, Cores: 2, Tell: func(result.Event) {}}, kind: pebble(name),
						cache: cache, reserve: 256 << 10, gets: gets, rates: map[rateOf]float64{}}
					s.kind.Rate = s.filterRate
					var err error
					if s.levels, err = reblock.Of(built[0].levels, s.kind, some[0]); err != nil {
						t.Fatal(err)
					}
					if err := s.sample(t.Context(), 1); err != nil {
						t.Fatal(err)
					}
					setup := s.setup
					setup.ReservedBytes = s.reserve
					for i, tables := range some {
						predicted := reads(t, s.samples[0].With(tables, 1), setup, s.cache)
						of := built[i].gets(gets, missing)
						of.Spec.WarmupGets, of.Spec.Seed = s.warmup(), s.Seeds[0]
						if s.warmup() != gets {
							t.Fatal("caches of other sizes have other traces")
						}
						if traced[tables] == nil {
							var err error
							if traced[tables], _, err = curve.Traced(t.Context(), of, s.Tell); err != nil {
								t.Fatal(err)
							}
						}
						measured := reads(t, traced[tables], setup, s.cache)
						off := predicted/measured - 1
						t.Logf("%v, %.0f %% absent, cache %d KiB: predicted %.4f, built %.4f (%+.2f %%)", tables, 100*missing, s.cache>>10, predicted, measured, 100*off)
						if s.fits(tables) {
							worst = max(worst, math.Abs(off))
						}
						if s.fits(tables) && math.Abs(off) > tracedError {
							t.Errorf("%v, %.0f %% absent, cache %d KiB: off by %.2f %%", tables, 100*missing, s.cache>>10, 100*off)
						}
						if i == 0 && off != 0 {
							t.Errorf("the database itself: off by %.2f %%", 100*off)
						}
					}
				}
			}
			t.Logf("worst: %.2f %%", 100*worst)
		})
	}
}

func reads(t *testing.T, accesses *cachesim.Trace, setup cachesim.Setup, cache int64) float64 {
	points, err := cachesim.Curve(t.Context(), accesses, setup, []int64{cache})
	if err != nil {
		t.Fatal(err)
	}
	return points[0].BlockReadsPerGet()
}

type database struct {
	of     curve.Of
	levels []engine.Level
	run    *result.Run
}

// gets are random Gets of the database.
func (d database) gets(n uint64, missing float64) curve.Of {
	of := d.of
	of.Spec.Workload, of.Spec.Threads, of.Spec.Gets, of.Spec.MissingShare = workload.ReadRandom, 1, n, missing
	return of
}

// load builds a database.
func load(t *testing.T, e engine.Engine, profile, fill, values string, keys uint64, options map[string]string) database {
	t.Helper()
	spec := bench.Spec{Schema: bench.SpecSchema, Verb: bench.Load, Out: t.TempDir(), Engine: e.Info().Name, Dir: t.TempDir(),
		Profile:    profile,
		CacheBytes: 16 << 20, Overrides: options, PageCache: bench.AsIs, Workload: fill, Keys: keys,
		KeyBytes: 32, ValueBytes: 110, KeyHash: keyspace.Mix, ValueModel: values, BatchKeys: 100,
		Seed: 1, Threads: 1}
	run := func() *result.Run {
		run, err := bench.Run(context.Background(), e, &spec, func(result.Event) {})
		if err != nil || run.Status != result.OK {
			t.Fatal(err, run)
		}
		return run
	}
	run()
	spec.Verb, spec.Out, spec.ReadOnly = bench.Inspect, t.TempDir(), true
	looked := run()
	return database{curve.Of{Engine: e, Version: e.Info().Version, Spec: spec}, looked.Database.Levels, looked}
}
