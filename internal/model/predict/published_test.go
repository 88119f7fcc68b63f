package predict

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// sweepOf has the study's published figures of a dataset.
func sweepOf(t testing.TB, dataset string) *result.Sweep {
	t.Helper()
	name := map[string]string{"200M": "small", "2B": "medium", "20B": "large"}[dataset]
	sweep, err := result.ReadSweep("../../../studies/bench_kvdb/runs/published-" + name)
	if err != nil {
		t.Fatal(err)
	}
	return sweep
}

func publishedLevels(t testing.TB, dataset string) []engine.Level {
	t.Helper()
	return sweepOf(t, dataset).Database.Levels
}

// published is what was measured with a cache.
func published(t testing.TB, dataset string, mib int64) result.Figures {
	t.Helper()
	for _, p := range sweepOf(t, dataset).Points {
		if p.CacheBytes == mib<<20 {
			return p.Figures
		}
	}
	t.Fatalf("%s: no point of %d MiB", dataset, mib)
	return result.Figures{}
}

var publishedRuns = map[string][]int64{
	"200M": {23, 32, 45, 90, 135, 180, 210, 225, 450, 676},
	"2B":   {226, 284, 452, 905, 1360, 1810, 2048, 2263, 4526, 6789},
	"20B":  {2250, 2600, 4500, 9000, 13500, 18000, 21000, 22500, 45000, 68000},
}

var publishedKeys = map[string]uint64{
	"200M": 200_000_000,
	"2B":   2_000_000_000,
	"20B":  20_000_000_000,
}

// inputOf is the published set-up: 32 cores, 10 M Gets after a warm-up of 0.05 %
// of the keys.
func inputOf(dataset string, levels []engine.Level, mib ...int64) Input {
	in := Input{
		Levels: levels, Version: cachesim.PebbleV1, Cores: 32, ReservedBytes: OpenReserve,
		WarmupGets: publishedKeys[dataset] / 2000, Gets: 10_000_000, Seeds: []uint64{1, 2, 3},
	}
	for _, size := range mib {
		in.CacheBytes = append(in.CacheBytes, size<<20)
	}
	return in
}

// TestAllPublishedPoints is the validation of docs/prediction.md, which
// holds its output: `go test -run AllPublished -v ./internal/model/predict`.
func TestAllPublishedPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("plays 600 M Gets: two minutes on two cores")
	}

	for _, from := range []struct {
		name          string
		levels        func(dataset string) []engine.Level
		mean, maximum float64
	}{
		{"the published layout",
			func(dataset string) []engine.Level { return publishedLevels(t, dataset) }, 0.005,
			0.025},
		{"the number of keys", func(dataset string) []engine.Level {
			return lsm.SteadyStateLevels(lsm.BenchKVDB(publishedKeys[dataset]))
		}, 0.015, 0.04},
	} {
		var table strings.Builder
		var sum, maximum float64
		n := 0
		for _, dataset := range []string{"200M", "2B", "20B"} {
			points, err := Run(context.Background(),
				inputOf(dataset, from.levels(dataset), publishedRuns[dataset]...))
			if err != nil {
				t.Fatal(err)
			}

			for i, mib := range publishedRuns[dataset] {
				p, run := points[i], published(t, dataset, mib)
				off := p.BlockReadsPerGet/run.OrZero(figure.BlockReadsPerGet) - 1
				sum, maximum, n = sum+math.Abs(off), max(maximum, math.Abs(off)), n+1
				fmt.Fprintf(&table, "| %s | %d MiB | %.4f | %.4f | %.4f-%.4f | %+.2f %% |", dataset,
					mib, run.OrZero(figure.BlockReadsPerGet), p.BlockReadsPerGet, p.Low, p.High,
					100*off)
				for _, kind := range []string{"filter", "top_index", "index", "data"} {
					have, want := p.HitRate[kind], run.HitRate[kind]
					fmt.Fprintf(&table, " %.3f/%.3f |", have, want)
					limit := 0.01
					if dataset == "20B" {
						// read long before its cache was full: data blocks, the last to settle, are
						// hit more often here by up to 0.0104
						limit = 0.015
					}

					if math.Abs(have-want) > limit && from.mean == 0.005 {
						t.Errorf("%s %d MiB: %s hit rate %.4f, published %.4f", dataset, mib, kind,
							have, want)
					}
				}

				fmt.Fprintf(&table, " %.4f |\n", p.SteadyState)
			}
		}

		t.Logf("from %s: mean error %.2f %%, worst %.2f %%\n%s", from.name, 100*sum/float64(n),
			100*maximum, table.String())
		if sum/float64(n) > from.mean || maximum > from.maximum {
			t.Errorf("from %s: errors above %.1f %% and %.1f %%", from.name, 100*from.mean,
				100*from.maximum)
		}
	}
}

// A few points where little is left to luck, with fewer Gets and one seed.
func TestPublishedPoints(t *testing.T) {
	testring.Outer(t, "it plays millions of Gets")
	for _, c := range []struct {
		dataset string
		mib     int64
		limit   float64
	}{{"200M", 45, 0.01}, {"200M", 135, 0.01}, {"2B", 1360, 0.015}, {"2B", 6789, 0.01}} {
		if testing.Short() && (c.mib == 135 || c.mib == 6789) {
			continue // the larger cache of each
		}

		run := published(t, c.dataset, c.mib)
		in := inputOf(c.dataset, publishedLevels(t, c.dataset), c.mib)
		in.Seeds = in.Seeds[:1]
		if c.dataset == "200M" {
			in.Gets = 1_000_000 // that small a cache has seen it all by then
		}

		points, err := Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}

		off := points[0].BlockReadsPerGet/run.OrZero(figure.BlockReadsPerGet) - 1
		if math.Abs(off) > c.limit {
			t.Errorf("%s %d MiB: %.4f block reads per Get, published %.4f (%+.2f %%)", c.dataset,
				c.mib, points[0].BlockReadsPerGet, run.OrZero(figure.BlockReadsPerGet), 100*off)
		}
	}
}

// The logs count every access: rates must be theirs, whatever the cache.
func TestAccessRatesAreThePublishedOnes(t *testing.T) {
	for dataset, sizes := range publishedRuns {
		levels := publishedLevels(t, dataset)
		classes, err := (&Input{Levels: levels, Version: cachesim.PebbleV1}).accessRates(RandomLoad(
			levels,
		))
		if err != nil {
			t.Fatal(err)
		}

		have := map[string]float64{}
		for _, c := range classes {
			have[c.kind.String()] += c.perGet
		}

		run := published(t, dataset, sizes[0])
		for _, kind := range []string{"filter", "top_index", "index", "data"} {
			want := run.BlockAccessesPerGetByType[kind]
			limit := 0.01
			if kind == "filter" || kind == "top_index" {
				limit = 0.09 // where the base level ends is not in the level table
			}

			if math.Abs(have[kind]/want-1) > limit {
				t.Errorf("%s: %.4f accesses of type %s per Get, published %.4f", dataset,
					have[kind], kind, want)
			}
		}
	}
}
