package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// The figures that every run of Gets promises, and what may be inside them. One
// that is not there must be in "absent", with its reason.
var promisedFigures = map[string][]string{
	"gets":                           nil,
	"found":                          nil,
	"missing":                        nil,
	"failed":                         nil,
	"seconds":                        nil,
	"gets_per_second":                nil,
	"block_reads_per_get":            nil,
	"block_reads_per_get_by_type":    {"data"},
	"block_reads_per_get_by_level":   {"L6"},
	"block_accesses_per_get_by_type": {"filter", "top_index", "index", "data"},
	"hit_rate":                       {"filter", "top_index", "index", "data", "all"},
	"block_read_bytes_per_get":       nil,
	"device_reads_per_get":           nil,
	"device_read_bytes_per_get":      nil,
	"agreement":                      nil,
	"service_ns":                     {"p50", "p90", "p99", "p999", "max", "mean"},
	"response_ns":                    {"p50", "p90", "p99", "p999", "max", "mean"},
	"cpu_ns_per_get":                 nil,
	"peak_rss_bytes":                 nil,
	"harness_ns_per_get":             nil,
}

var promisedFields = []string{"schema", "status", "engine", "workload", "cache", "page_cache",
	"host", "database", "phases", "warnings", "figures"}

// TestLoadSweepReport is the life of a study: each step reads what the one
// before has left.
func TestLoadSweepReport(t *testing.T) { loadSweepReport(t, 5_000, 10_000) }

func TestLoadSweepReportOfMoreGets(t *testing.T) {
	testring.Outer(t, "it makes 480,000 Gets")
	loadSweepReport(t, 20_000, 40_000)
}

func loadSweepReport(t *testing.T, warmup, gets uint64) {
	for _, c := range []struct {
		engine, threads, caches string
		phases                  []int // of what memtables leave, which take more of v2's cache
	}{
		{"pebble1", "1", "0.7%,1.6%,4%", []int{1, 2, 3}},
		{"pebble2", "8", "1.3%,2%,5%", []int{1, 2, 3}},
	} {
		t.Run(c.engine, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "S")
			swept := must(t, "sweep", "--db", database(t, c.engine), "--cache", c.caches,
				"--threads", c.threads, "--warmup", fmt.Sprint(warmup), "--gets", fmt.Sprint(gets),
				"--access-gets", fmt.Sprint(warmup), "--out", out)
			s := readSweep(t, out)
			if s.Status != result.OK || len(s.Points) != 3 {
				t.Fatalf("status %s, %d points\n%v", s.Status, len(s.Points), swept)
			}

			checkCurve(t, s, c.phases)
			for _, p := range s.Points {
				t.Run(p.Axes["cache"], func(t *testing.T) {
					checkPoint(t, filepath.Join(out, p.Run), c.engine, warmup, gets)
				})
			}

			again := must(t, "report", out, "--out", filepath.Join(t.TempDir(), "again.html"))
			text, _, _ := strings.Cut(swept.stdout, "\nreport: ")
			if from, _, _ := strings.Cut(again.stdout, "\nreport: "); from != text {
				t.Errorf("report says another thing than the sweep did:\n%s\n--- sweep\n%s", from,
					text)
			}

			if first, _, _ := strings.Cut(text, "\n"); !strings.Contains(first,
				"block reads per Get") {
				t.Errorf("the answer does not come first: %q", first)
			}

			checkPage(t, filepath.Join(out, result.ReportFile))
		})
	}
}

// checkCurve expects reads that fall with the cache, in these phases of the study.
func checkCurve(t *testing.T, s *result.Sweep, want []int) {
	t.Helper()
	var phases []int
	reads := math.Inf(1)
	for _, p := range s.Points {
		phases = append(phases, p.Regime)
		if r := p.Figures.OrZero(figure.BlockReadsPerGet); r >= reads {
			t.Errorf("cache %s: %.3f block reads per Get, not fewer than the %.3f of a smaller "+
				"cache", p.Axes["cache"], r, reads)
		} else {
			reads = r
		}
	}

	if !slices.Equal(phases, want) {
		t.Errorf("phases %v, want %v", phases, want)
	}

	if reads < 0.9 || reads > 1.05 {
		t.Errorf("%.3f block reads per Get above IP2: a data block should be all that is read",
			reads)
	}

	i := s.Inflection
	if i == nil ||
		!(0 < i.IP1.DiskBytes && i.IP1.DiskBytes < i.IP2.DiskBytes &&
			i.IP1.CacheBytes < i.IP2.CacheBytes && i.IP1.PercentOfDB > 0) {
		t.Errorf("inflection points %+v", i)
	}

	if len(s.Answers) != 2 || s.Answers[1].CacheBytes != s.Points[2].CacheBytes {
		t.Errorf("answers %+v: fewer than 1.1 block reads takes the largest cache", s.Answers)
	}
}

// checkPoint holds a run folder against what it promises, itself and the engine.
func checkPoint(t *testing.T, dir, engine string, warmup, gets uint64) {
	run := readRun(t, dir)
	f := run.Figures
	checkPromises(t, dir)
	checks := map[string]result.Check{}
	for _, c := range run.Checks {
		checks[c.Name] = c
		if !c.OK {
			t.Errorf("self-check %+v", c)
		}
	}

	misses, found := checks["block reads = the engine's cache misses"]
	switch {
	case !found || misses.Ours == 0:
		t.Errorf("block reads were not held against cache misses: %+v", run.Checks)
	case engine == "pebble1" && misses.Ours != misses.Theirs:
		t.Errorf("%v block reads, %v cache misses", misses.Ours, misses.Theirs)
	case misses.Theirs < misses.Ours:
		// Of v2, a Get that waits for another's read of the same block counts as a miss, however
		// many do.
		t.Errorf("%v block reads, only %v cache misses", misses.Ours, misses.Theirs)
	}

	if f.Gets != gets || f.Found != f.Gets || f.Missing != 0 || f.FailedGets != 0 {
		t.Errorf("%d Gets, %d found, %d missing, %d failed", f.Gets, f.Found, f.Missing,
			f.FailedGets)
	}

	for name, parts := range map[string]map[string]float64{
		"types":  f.BlockReadsPerGetByType,
		"levels": f.BlockReadsPerGetByLevel,
	} {
		sum := 0.0
		for _, v := range parts {
			sum += v
		}

		if math.Abs(sum-f.OrZero(figure.BlockReadsPerGet)) > 1e-9 {
			t.Errorf("block reads per Get by %s sum to %v, not %v", name, sum,
				f.OrZero(figure.BlockReadsPerGet))
		}
	}

	for kind, rate := range f.HitRate {
		if rate < 0 || rate > 1 {
			t.Errorf("hit rate of %s is %v", kind, rate)
		}
	}

	if run.Cache.Effective <= 0 || run.Workload.Keys != 300_000 ||
		run.Workload.WarmupGets != warmup || run.Host.Kernel == "" ||
		f.OrZero(figure.HarnessTimePerGet) <= 0 {
		t.Errorf("effective settings: cache %+v, workload %+v, host %+v", run.Cache, run.Workload,
			run.Host)
	}

	checkSeries(t, dir, f)
	checkLatencies(t, dir, "", f.Gets, f.ServiceNanos)
}

// checkPromises reads run.json as somebody who knows only its contract.
func checkPromises(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, result.RunFile))
	if err != nil {
		t.Fatal(err)
	}

	var run map[string]json.RawMessage
	var figures map[string]json.RawMessage
	absent := map[string]string{}
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}

	for _, name := range promisedFields {
		if run[name] == nil {
			t.Errorf("run.json lacks %s", name)
		}
	}

	if err := json.Unmarshal(run["figures"], &figures); err != nil {
		t.Fatal(err)
	}

	if err := json.Unmarshal(run["absent"], &absent); err != nil {
		t.Fatal(err)
	}

	for name, inside := range promisedFigures {
		if figures[name] == nil {
			if len(absent[name]) < 10 {
				t.Errorf("figure %s is neither there nor absent with a reason", name)
			}
			continue
		}

		var parts map[string]float64
		if len(inside) > 0 {
			if err := json.Unmarshal(figures[name], &parts); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}

		for _, part := range inside {
			if _, there := parts[part]; !there && part != "L6" {
				t.Errorf("%s lacks %s: %v", name, part, parts)
			}
		}
	}
}

func checkSeries(t *testing.T, dir string, f result.Figures) {
	t.Helper()
	ticks, err := result.ReadSeries(dir)
	if err != nil {
		t.Fatal(err)
	}

	gets := uint64(0)
	for _, tick := range ticks {
		if tick.Phase == "measure" {
			gets += tick.Ops
		}
	}

	// A last stretch of less than a quarter of a second is no tick.
	if gets == 0 || gets > f.Gets {
		t.Errorf("series.jsonl holds %d measured Gets of %d", gets, f.Gets)
	}
}

// checkLatencies reads latency.hlog with the library that everybody uses.
func checkLatencies(t *testing.T, dir, tag string, count uint64, want *result.Latency) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, result.LatencyFile))
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	log := hdrhistogram.NewHistogramLogReader(f)
	for {
		h, err := log.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}

		if h == nil {
			t.Fatalf("%s holds no histogram with tag %q", f.Name(), tag)
		}

		if h.Tag() != tag {
			continue
		}

		if uint64(h.TotalCount()) != count {
			t.Errorf("histogram %q holds %d durations, want %d", tag, h.TotalCount(), count)
		}

		// Of few durations, two next to each other may be further apart than a bin is wide.
		low, high := float64(h.ValueAtPercentile(98.9)), float64(h.ValueAtPercentile(99.1))
		if p99 := float64(want.P99); p99 < 0.99*low || p99 > 1.01*high {
			t.Errorf("histogram %q: p99 is between %v and %v, run.json says %v", tag, low, high,
				p99)
		}

		return
	}
}

// checkPage expects one file that needs nothing else.
func checkPage(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	for _, remote := range []string{`src="http`, `href="//`, "@import", "<link"} {
		if strings.Contains(string(text), remote) {
			t.Errorf("%s loads something: %s", path, remote)
		}
	}

	for _, needed := range []string{`class="chart-data"`, "<table", "block reads per Get"} {
		if !strings.Contains(string(text), needed) {
			t.Errorf("%s has no %s", path, needed)
		}
	}
}

// TestJSONIsTheFolder: --json prints the names and values of the folder: those of sweep.json
// and, in its points, those of the runs.
func TestJSONIsTheFolder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "R")
	o := must(t, "sweep", "--db", database(t, "pebble1"), "--gets", "2k", "--warmup", "0",
		"--access-gets", "0", "--out", out, "--json", "--quiet")
	stored := readSweep(t, out)
	if text, err := json.MarshalIndent(stored, "", "  "); err != nil ||
		o.stdout != string(text)+"\n" || stored.Points[0].Figures.Gets != 2000 {
		t.Errorf("%v, printed:\n%s\nstored:\n%s", err, o.stdout, text)
	}

	for _, line := range strings.Split(strings.TrimSpace(o.stderr), "\n") {
		if line != "" && !strings.HasPrefix(line, "warning: ") && !strings.HasPrefix(line, "  ") {
			t.Errorf("--quiet: %q on stderr, which is no warning", line)
		}
	}
}

// TestStoredOptionsAreOfTheDatabase: a size of blocks is measured on tables that have it, or not at
// all.
func TestStoredOptionsAreOfTheDatabase(t *testing.T) {
	out := filepath.Join(t.TempDir(), "S")
	must(t, "sweep", "--keys", "20k", "--set", "BlockSize=4KiB,32KiB", "--cache", "4MiB",
		"--warmup", "0", "--gets", "5k", "--out", out)
	var data []int64
	for _, p := range readSweep(t, out).Points {
		run := readRun(t, filepath.Join(out, p.Run))
		blocks := int64(0)
		for _, level := range run.Database.Levels {
			blocks += level.DataBlocks
		}

		data = append(data, blocks)
		if m, err := keyspace.ReadManifest(run.Database.Dir); err != nil ||
			m.Overrides["BlockSize"] != p.Axes["set.BlockSize"] {
			t.Errorf("%v: manifest %+v, %v", p.Axes, m, err)
		}
	}

	if len(data) != 2 || data[0] < 6*data[1] {
		t.Errorf("data blocks %v: want about eight times as many of an eighth of the size", data)
	}

	db := filepath.Join(out, "databases", "pebble1-bench-kvdb-20000-BlockSize=32KiB")
	for _, args := range [][]string{
		{"sweep", "--db", db, "--cache", "4MiB", "--set", "BlockSize=4KiB,32KiB"},
		{"sweep", "--db", db, "--cache", "4MiB", "--set", "BlockSize=4KiB"},
	} {
		refused(t, statelab(t, args...), 2, "BlockSize applies when data is written",
			"was loaded with BlockSize=32KiB", "statelab load --db NEW --set BlockSize=")
	}

	refused(t,
		statelab(t, "sweep", "--db", db, "--cache", "4MiB", "--set", "Levels[6].Compression=none"),
		2, "loaded with that of profile bench-kvdb")
	read := filepath.Join(t.TempDir(), "R")
	must(t, "sweep", "--db", db, "--cache", "4MiB", "--set", "MaxOpenFiles=500", "--set",
		"BlockSize=32768", "--warmup", "0", "--gets", "1k", "--out", read)
	if got := readRun(t, read).Engine.Options["Levels[0].block_size"]; got != "32768" {
		t.Errorf("block size %s", got)
	}
}

// TestSweepSimulatesFurtherCaches measures one cache and simulates two: the oracle is a second
// sweep that measures those.
func TestSweepSimulatesFurtherCaches(t *testing.T) {
	db, dir := database(t, "pebble1"), t.TempDir()
	out := filepath.Join(dir, "S")
	with := func(out string, more ...string) []string {
		return append([]string{"sweep", "--db", db, "--threads", "1", "--warmup", "5k",
			"--gets", "10k", "--access-gets", "0", "--out", out}, more...)
	}
	said := must(t, with(out, "--cache", "1.6%", "--simulate", "4%,0.7%,1.6%")...)
	if !strings.Contains(said.stdout, "Simulated from the same Gets: ") {
		t.Errorf("the answer does not have the simulated caches:\n%s", said.stdout)
	}

	checkPage(t, filepath.Join(out, result.ReportFile))
	s := readSweep(t, out)
	if len(s.Simulated) != 2 || len(s.Predicted) != 1 {
		t.Fatalf("%d simulated caches and %d predicted points, want 2 and 1", len(s.Simulated),
			len(s.Predicted))
	}

	simulated := []result.PredictedPoint{s.Simulated[0], s.Predicted[0], s.Simulated[1]}

	tidy := filepath.Join(dir, "tidy.csv")
	must(t, "report", out, "--tidy", tidy)
	rows, err := os.ReadFile(tidy)
	if n := strings.Count(string(rows), "predicted_block_reads_per_get"); err != nil || n != 2 {
		t.Errorf("%d rows of simulated caches, want 2 (%v)", n, err)
	}

	beside := filepath.Join(dir, "M")
	must(t, with(beside, "--cache", "0.7%,1.6%,4%")...)
	for i, p := range readSweep(t, beside).Points {
		got, want := simulated[i], p.Figures.OrZero(figure.BlockReadsPerGet)
		if got.CacheBytes != p.CacheBytes || math.Abs(got.BlockReadsPerGet-want) > 1e-9 {
			t.Errorf("%s: simulated %.5f block reads per Get with %d bytes, measured %.5f with %d",
				p.Axes["cache"], got.BlockReadsPerGet, got.CacheBytes, want, p.CacheBytes)
		}
	}
}
