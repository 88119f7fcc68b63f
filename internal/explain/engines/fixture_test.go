package engines

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

const mib = 1 << 20

func ptr[T any](v T) *T { return &v }

// fixture writes a sweep folder as the harness does: points along the axes
// given, the point "fail" (by its index) killed.
func fixture(
	t testing.TB, name string, caches []float64, axis string, values []string, fail int,
) string {
	t.Helper()
	dir := t.TempDir()
	db := result.Database{
		Dir:     "db",
		Bytes:   800 * mib,
		Files:   210,
		Written: "statelab",
		Format:  "pebble v2.1.7",
		Levels: []engine.Level{
			{
				Level:            0,
				Sublevels:        1,
				Files:            4,
				Bytes:            8 * mib,
				Keys:             50_000,
				DataBlocks:       1900,
				DataBytes:        7 * mib,
				SingleIndexes:    4,
				IndexBytes:       60_000,
				SingleIndexBytes: 60_000,
				FilterBytes:      62_000,
				IndexCacheBytes:  61_000,
				FilterCacheBytes: 63_000,
				InCacheKnown:     true,
				FilterConsulted:  true,
			},
			{
				Level:              6,
				Sublevels:          1,
				Files:              206,
				Bytes:              792 * mib,
				Keys:               4_950_000,
				DataBlocks:         190_000,
				DataBytes:          780 * mib,
				IndexBlocks:        1200,
				IndexBytes:         5 * mib,
				TopIndexBytes:      90_000,
				FilterBytes:        6 * mib,
				IndexCacheBytes:    7 * mib,
				TopIndexCacheBytes: 96_000,
				InCacheKnown:       true,
			},
		},
	}

	inflection := &result.Inflection{
		IP1: result.Size{
			DiskBytes:    12 * mib / 10,
			CacheBytes:   14 * mib / 10,
			PercentOfDB:  0.15,
			CachePercent: 0.175,
		},
		IP2: result.Size{
			DiskBytes:    62 * mib / 10,
			CacheBytes:   84 * mib / 10,
			PercentOfDB:  0.775,
			CachePercent: 1.05,
		},
		LastLevelFilterBytes: 6 * mib,
	}

	host := result.Host{
		OS:          "linux",
		Kernel:      "6.1.0",
		CPU:         "Example CPU",
		Cores:       2,
		Gomaxprocs:  2,
		MemoryBytes: 24 << 30,
		Go:          "go1.26",
		Clock:       "tsc",
		ClockNanos:  11,
		Device:      "vda",
		Filesystem:  "ext4",
	}

	sweep := &result.Sweep{
		Status:     result.OK,
		Source:     "measured",
		Name:       name,
		Started:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Command:    []string{"statelab", "sweep", "--cache", "0.1%,1%", "--db", "my db"},
		Host:       host,
		Database:   db,
		Inflection: inflection,
		Warnings: []engine.Warning{{
			Code:   "no_root",
			Text:   "device reads were counted by O_DIRECT, not by a private device",
			Remedy: "run as root",
		}},
	}

	cacheAxis := result.Axis{Name: "cache"}
	for _, c := range caches {
		cacheAxis.Values = append(cacheAxis.Values, fmt.Sprintf("%gMiB", c))
	}

	sweep.Axes = []result.Axis{cacheAxis}
	if axis != "" {
		sweep.Axes = append(sweep.Axes, result.Axis{Name: axis, Values: values})
	} else {
		values = []string{""}
	}

	rng := rand.New(rand.NewPCG(1, 2))
	n := 0
	for vi, value := range values {
		for ci, c := range caches {
			n++
			rel := fmt.Sprintf("points/%03d", n)
			p := result.Point{
				Axes:         map[string]string{"cache": cacheAxis.Values[ci]},
				CacheBytes:   int64(c * mib),
				CachePercent: c / 8,
				Regime:       1 + b2i(c > 1.4) + b2i(c > 8.4),
				Run:          rel,
				Runs:         []string{rel, rel, rel},
				Status:       result.OK,
			}

			if axis != "" {
				p.Axes[axis] = value
			}

			run := &result.Run{
				Status:  result.OK,
				Verb:    "read",
				Started: sweep.Started,
				Command: []string{"statelab", "read", "--cache", cacheAxis.Values[ci]},
				Engine: result.Engine{
					Name:    "pebble2",
					Version: "v2.1.7",
					Profile: "geth",
					Options: map[string]string{"cache_bytes": fmt.Sprint(p.CacheBytes),
						"handles": "1000"},
				},
				Workload: result.Workload{
					Name:       "readrandom",
					Keys:       5_000_000,
					KeyBytes:   32,
					ValueBytes: 110,
					ValueModel: "half-compressible",
					KeyOrder:   "hashed",
					Threads:    4,
					Gets:       200_000,
					WarmupGets: 50_000,
					Seed:       42,
				},
				Cache:      result.Cache{Requested: cacheAxis.Values[ci], Effective: p.CacheBytes},
				PageCache:  "direct",
				Host:       host,
				Database:   db,
				Inflection: inflection,
			}

			if n-1 == fail {
				run.Status, run.Error = result.Failed,
					"killed by signal 9 in phase load at op 81,204"
				p.Status, p.Error = run.Status, run.Error
			} else {
				run.Figures = figuresAt(c, vi)
				run.Absent = map[string]string{"harness_ns_per_get": "the null engine was not run"}
				run.Checks = []result.Check{{
					Name:   "block reads against the engine's cache misses",
					Ours:   1e6,
					Theirs: 1e6 + 12,
					Limit:  0.001,
					OK:     true,
				}}

				run.Phases = []result.Phase{
					{Name: "warm", Seconds: 3, Ops: 50_000, CPUNanos: 1e9},
					{
						Name:     "measure",
						Seconds:  10,
						Ops:      200_000,
						CPUNanos: 4e9,
						Reads: map[string]engine.Tally{"data": {
							Count: 200_000,
							Bytes: 800_000_000,
						}},
						Process: &result.ProcessIO{ReadCalls: 210_000, ReadBytes: 900_000_000},
					},
				}

				p.Figures = run.Figures
				r := run.Figures.OrZero(figure.BlockReadsPerGet)
				p.Spread = map[string]result.Range{
					"block_reads_per_get": {Low: r * 0.98, High: r * 1.03},
					"gets_per_second": {Low: run.Figures.OrZero(figure.GetsPerSecond) * 0.95,
						High: run.Figures.OrZero(figure.GetsPerSecond) * 1.04},
				}
			}

			folder := filepath.Join(dir, rel)
			must(t, os.MkdirAll(folder, 0o755))
			must(t, result.WriteRun(folder, run))
			if p.Status == result.OK {
				writeSamples(t, folder, run.Figures, rng)
			}

			sweep.Points = append(sweep.Points, p)
		}
	}

	if axis == "" {
		for c := 0.5; c <= 32; c *= 1.3 {
			r := figuresAt(c, 0).OrZero(figure.BlockReadsPerGet)
			sweep.Predicted = append(sweep.Predicted, result.PredictedPoint{
				CacheBytes:       int64(c * mib),
				BlockReadsPerGet: r * 1.01,
				Low:              r * 0.94,
				High:             r * 1.06,
			})
		}
	}

	must(t, result.WriteSweep(dir, sweep))
	return dir
}

// figuresAt are figures of the shape that a cache of c MiB really has.
func figuresAt(c float64, speed int) result.Figures {
	metadata := 1.1 / (1 + math.Pow(c/1.2, 4))
	index := 1 / (1 + math.Pow(c/5.5, 5))
	data := 1.03 - 0.01*math.Log2(c+1)
	total := metadata + index + data
	p50 := int64(60_000 * total)
	rate := 20_000 / total * math.Pow(1.6, float64(speed))
	return result.Figures{Set: figure.SetOf(map[figure.Figure]float64{figure.GetsPerSecond: rate,
		figure.BlockReadsPerGet: total, figure.BlockReadBytesPerGet: 4096 * total,
		figure.DeviceReadsPerGet: total * 1.02, figure.DeviceReadBytesPerGet: 4200 * total,
		figure.Agreement: 1.02, figure.CPUTimePerGet: 18_000, figure.CPUPercent: 61,
		figure.PeakMemory: 90 * mib, figure.HarnessTimePerGet: 55.0, figure.SwitchesPerGet: 0,
		figure.MajorFaultsPerGet: 0, figure.ReadCallsPerGet: 0, figure.InFlight: 3.9}),
		Gets: 200_000, Found: 200_000, Seconds: 10,
		BlockReadsPerGetByType: map[string]float64{"filter": metadata * 0.3,
			"top_index":    metadata * 0.6,
			"single_index": metadata * 0.1, "index": index, "data": data, "meta": 0},
		BlockReadsPerGetByLevel: map[string]float64{
			"L0": metadata * 0.2,
			"L6": total - metadata*0.2,
		},
		HitRate: map[string]float64{
			"filter":    1 - metadata*0.1,
			"top_index": 1 - metadata*0.2,
			"index":     1 - index,
			"data":      0.01 * c / 8,
			"all":       1 - total/10,
		},
		DeviceSource: "O_DIRECT reads of the process",
		ServiceNanos: &result.Latency{P50: p50, P90: 2 * p50, P99: 5 * p50, P999: 20 * p50,
			Max: 100 * p50, Mean: 1.2 * float64(p50), N: 200_000},
	}
}

func writeSamples(t testing.TB, folder string, f result.Figures, rng *rand.Rand) {
	t.Helper()
	h := measure.NewHistogram()
	for range 20_000 {
		h.Add(int64(float64(f.ServiceNanos.P50) * math.Exp(0.6*rng.NormFloat64())))
	}

	log, err := os.Create(filepath.Join(folder, result.LatencyFile))
	must(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	must(t,
		measure.WriteLog(log, at, []measure.LogEntry{{
			Start:     at,
			End:       at.Add(10 * time.Second),
			Durations: h,
		}}))

	must(t, log.Close())
	series, err := os.Create(filepath.Join(folder, result.SeriesFile))
	must(t, err)
	lines := json.NewEncoder(series)
	for i := range 40 {
		phase, at := "warm", i+1
		if i >= 10 {
			phase, at = "measure", i-9
		}

		settled := f.OrZero(figure.BlockReadsPerGet)
		reads := settled * (1 + math.Exp(-float64(i)/5))
		speed := f.OrZero(figure.GetsPerSecond) * (0.9 + 0.2*rng.Float64()) * settled / reads
		must(t,
			lines.Encode(result.Tick{
				Phase:           phase,
				Seconds:         float64(at),
				Ops:             uint64(speed),
				OpsPerSecond:    speed,
				BlockReadsPerOp: &reads,
			}))
	}

	must(t, series.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
