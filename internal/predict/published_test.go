package predict

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/cachesim"
	"github.com/statelab/statelab/internal/lsm"
)

const published = "testdata/bench_kvdb"

func publishedLevels(t testing.TB, dataset string) []engine.Level {
	t.Helper()
	file, err := os.Open(filepath.Join(published, "Properties_"+dataset+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	levels, err := lsm.ParseProperties(file)
	if err != nil {
		t.Fatal(err)
	}
	return levels
}

// publishedRun is what a run's log says of the measured Gets.
type publishedRun struct {
	dataset          string
	cacheBytes       int64
	blockReadsPerGet float64
	accesses, hits   map[string]float64
}

// callers are the log's names of block types.
var callers = map[string]string{"readFilter": "filter", "readIndex": "top_index", "loadIndex": "index", "loadBlock": "data"}

func readRun(t testing.TB, dataset string, mib int64) publishedRun {
	t.Helper()
	file, err := os.Open(filepath.Join(published, fmt.Sprintf("RadmonRead_%s_%dM.log", dataset, mib)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	run := publishedRun{dataset: dataset, cacheBytes: mib << 20, accesses: map[string]float64{}, hits: map[string]float64{}}
	sign := 1.0 // the first table is the warm-up, the second both
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if strings.Contains(line, "Cache Statistics:") {
			sign = -sign
		}
		if _, figure, found := strings.Cut(line, "Avg I/O per Get ≈ "); found {
			if _, err := fmt.Sscan(figure, &run.blockReadsPerGet); err != nil {
				t.Fatal(err)
			}
		}
		if at := strings.LastIndex(line, ")."); at >= 0 {
			var name string
			var hits, misses float64
			if n, _ := fmt.Sscan(line[at+2:], &name, &hits, &misses); n == 3 && callers[name] != "" {
				run.accesses[callers[name]] += sign * (hits + misses)
				run.hits[callers[name]] += sign * hits
			}
		}
	}
	if run.blockReadsPerGet == 0 || len(run.hits) != 4 {
		t.Fatalf("%s %d MiB: incomplete log: %+v", dataset, mib, run)
	}
	return run
}

var publishedRuns = map[string][]int64{
	"200M": {23, 32, 45, 90, 135, 180, 210, 225, 450, 676},
	"2B":   {226, 284, 452, 905, 1360, 1810, 2048, 2263, 4526, 6789},
}

var publishedKeys = map[string]uint64{"200M": 200_000_000, "2B": 2_000_000_000}

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

func TestAllPublishedPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("about two minutes: all published points")
	}
	for _, from := range []struct {
		name       string
		levels     func(dataset string) []engine.Level
		mean, most float64
	}{
		{"from the published layout", func(dataset string) []engine.Level { return publishedLevels(t, dataset) }, 0.005, 0.03},
		{"from the number of keys", func(dataset string) []engine.Level { return lsm.Natural(lsm.BenchKVDB(publishedKeys[dataset])) }, 0.01, 0.04},
	} {
		var sum, most float64
		n := 0
		for _, dataset := range datasets() {
			for _, mib := range publishedRuns[dataset] {
				run := readRun(t, dataset, mib)
				start := time.Now()
				points, err := Run(context.Background(), inputOf(dataset, from.levels(dataset), mib))
				if err != nil {
					t.Fatal(err)
				}
				p := points[0]
				off := p.BlockReadsPerGet/run.blockReadsPerGet - 1
				var rates strings.Builder
				for _, kind := range []string{"filter", "top_index", "index", "data"} {
					fmt.Fprintf(&rates, " %s %.3f/%.3f", kind, p.HitRate[kind], run.hits[kind]/run.accesses[kind])
				}
				t.Logf("%4s %5d MiB: %.4f [%.4f %.4f] published %.4f (%+.2f %%) steady %.4f%s %v %.1fs",
					dataset, mib, p.BlockReadsPerGet, p.Low, p.High, run.blockReadsPerGet, 100*off, p.SteadyState, rates.String(), p.Extrapolated, time.Since(start).Seconds())
				sum, most, n = sum+math.Abs(off), max(most, math.Abs(off)), n+1
			}
		}
		t.Logf("%s: mean error %.2f %%, worst %.2f %%", from.name, 100*sum/float64(n), 100*most)
		if sum/float64(n) > from.mean || most > from.most {
			t.Errorf("%s: errors above %.1f %% and %.1f %%", from.name, 100*from.mean, 100*from.most)
		}
	}
}

func datasets() []string { return []string{"200M", "2B"} }
