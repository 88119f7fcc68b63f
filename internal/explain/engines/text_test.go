package engines

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/kvdblog"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

var update = flag.Bool("update", false, "rewrite the expected texts in testdata")

// study are the published sweeps Small and Medium, with the run folders that statelab import makes
// of their logs.
func study(t testing.TB) (folders []string) {
	t.Helper()
	for _, name := range []string{"small", "medium"} {
		sweep, err := result.ReadSweep("../../../studies/bench_kvdb/runs/published-" + name)
		if err != nil {
			t.Fatal(err)
		}

		keys := map[string]uint64{"small": 200_000_000, "medium": 2_000_000_000}[name]
		folder := t.TempDir()
		for _, p := range sweep.Points {
			at := *sweep.Inflection
			at.Regime = p.Regime
			run := &result.Run{
				Status:     result.OK,
				Verb:       "read",
				PageCache:  "asis",
				Database:   sweep.Database,
				Inflection: &at,
				Figures:    p.Figures,
				Engine: result.Engine{
					Name:    "pebble1",
					Version: "v1.1.5, patched to count",
					Profile: "bench_kvdb",
				},
				Workload: result.Workload{
					Name:       "readrandom",
					Keys:       keys,
					KeyBytes:   32,
					ValueBytes: 110,
					Threads:    64,
					Gets:       p.Figures.Gets,
				},
				Cache:  result.Cache{Requested: p.Axes["cache"], Effective: p.CacheBytes},
				Absent: map[string]string{"seed": "the tool does not record it"},
			}

			dir := filepath.Join(folder, p.Run)
			must(t, errors.Join(os.MkdirAll(dir, 0o755), result.WriteRun(dir, run)))
		}

		must(t, result.WriteSweep(folder, sweep))
		folders = append(folders, folder)
	}

	return folders
}

// imported is a load that another tool made.
func imported(t testing.TB) string {
	t.Helper()
	folders, err := kvdblog.Import(os.DirFS("../kvdblog/testdata"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folders[0], "load")
}

func read(t testing.TB, dirs ...string) Input {
	t.Helper()
	in, err := Read(dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

var someCaches = []float64{0.5, 1, 1.5, 2, 4, 6, 9.6, 16, 32}

// columns are those of a terminal nobody has resized.
const columns = 80

func TestText(t *testing.T) {
	demo := fixture(t, "demo", someCaches, "", nil, 3)
	for name, dirs := range map[string][]string{
		"study": study(t),
		"cache": {demo},
		"threads": {fixture(
			t,
			"threads",
			[]float64{9.6},
			"threads",
			[]string{"1", "2", "4", "8"},
			2,
		)},
		"two-axes": {fixture(
			t,
			"both",
			[]float64{1, 9.6},
			"engine",
			[]string{"pebble1", "pebble2"},
			-1,
		)},
		"one-run":      {filepath.Join(demo, "points", "003")},
		"load":         {imported(t)},
		"all-failed":   {fixture(t, "broken", []float64{4}, "", nil, 0)},
		"no-points":    {emptySweep(t)},
		"engines":      {withDisk(t, enginesSweep(t, fourEngines(6)...))},
		"page-engines": {withoutTypes(t)},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := render.Terminal(&out, read(t, dirs...).Document()); err != nil {
				t.Fatal(err)
			}

			for n, line := range strings.Split(out.String(), "\n") {
				if len([]rune(line)) > columns {
					t.Errorf("line %d has %d columns: %s", n+1, len([]rune(line)), line)
				}
			}

			golden := filepath.Join("testdata", name+".txt")
			if *update {
				must(t, os.WriteFile(golden, out.Bytes(), 0o644))
			}

			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("text differs (-want +got):\n%s", diff)
			}
		})
	}
}

// "Nothing is gained" is only said where a larger cache was measured.
func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		name  string
		reads []float64 // at 1, 2, 4, ... MiB
		want  string
	}{
		{"flat after the second", []float64{2, 1.02, 1.019, 1.018},
			"returns diminish beyond 2 MiB: up to 8 MiB"},
		{"still falling", []float64{2, 1.5, 1.2, 1.1}, ""},
		{"falls at the very end", []float64{1.5, 1.5, 1.5, 1.1}, ""},
		{"one point", []float64{1}, ""},
	} {
		s := Sweep{Sweep: result.Sweep{Axes: []result.Axis{{Name: "cache"}}}}
		for i, v := range c.reads {
			p := result.Point{
				Status:     result.OK,
				CacheBytes: mib << i,
				Axes:       map[string]string{"cache": strings.Repeat("x", i)},
			}

			p.Figures.RecordIf(figure.BlockReadsPerGet, figure.If(&v))
			s.Points = append(s.Points, Point{Point: p})
		}

		got := s.curves("cache")[0].beyond()
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func emptySweep(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t,
		result.WriteSweep(dir,
			&result.Sweep{
				Status: result.Failed,
				Error:  "the database could not be opened",
				Name:   "nothing",
				Source: "measured",
			}))

	return dir
}

// withoutTypes is a sweep of an engine that counts no block reads.
func withoutTypes(t testing.TB) string {
	t.Helper()
	dir := fixture(t, "mmap", []float64{4, 8}, "", nil, -1)
	sweep, err := result.ReadSweep(dir)
	must(t, err)
	sweep.Predicted, sweep.Inflection = nil, nil
	for i := range sweep.Points {
		p := &sweep.Points[i]
		p.Figures = withoutReadFigures(p.Figures)
		folder := filepath.Join(dir, p.Run)
		run, err := result.ReadRun(folder)
		must(t, err)
		run.Figures, run.Inflection = p.Figures, nil
		run.Absent = map[string]string{"block_reads_per_get": "the engine maps its file: it " +
			"makes no read calls"}
		must(t, result.WriteRun(folder, run))
	}

	must(t, result.WriteSweep(dir, sweep))
	return dir
}

func withoutReadFigures(f result.Figures) result.Figures {
	return result.Figures{
		Set: figure.SetOf(map[figure.Figure]float64{figure.GetsPerSecond: f.OrZero(
			figure.GetsPerSecond,
		)}),
		Gets:         f.Gets,
		Seconds:      f.Seconds,
		ServiceNanos: f.ServiceNanos,
	}
}

func TestFiltersLargerThanAShard(t *testing.T) {
	levels := []engine.Level{
		{Level: 5, Files: 10, FilterCacheBytes: 340_000},
		{Level: 6, Files: 10, FilterCacheBytes: 900_000},
		{Level: 7},
	}

	curveOf := func(blocks ...int64) curve {
		s := Sweep{Sweep: result.Sweep{Axes: []result.Axis{{Name: "cache"}}}}
		for i, bytes := range blocks {
			reads := 2.0
			p := result.Point{
				Status:     result.OK,
				CacheBytes: mib << i,
				BlockBytes: bytes,
				Axes:       map[string]string{"cache": strings.Repeat("x", i)},
			}

			p.Figures.RecordIf(figure.BlockReadsPerGet, figure.If(&reads))
			p.Figures.BlockReadsPerGetByType = map[string]float64{"top_index": []float64{0.1, 0.2,
				0.05}[i]}
			run := &result.Run{
				Engine:   result.Engine{Options: map[string]string{"cache_shards": "4"}},
				Database: result.Database{Levels: levels},
			}

			s.Points = append(s.Points, Point{Point: p, Run: run})
		}

		return s.curves("cache")[0]
	}

	const never = "At 1 MiB the cache has 4 shards with 24.4 KiB for blocks each. The filters of " +
		"level 5 take 33.2 KiB on average: those that are larger " +
		"than a shard are never cached, so each Get that consults one reads it"
	for _, c := range []struct {
		blocks []int64
		want   string
	}{
		{[]int64{100_000, 200_000, 400_000}, never +
			". They also take no room from other blocks, so fewer top indexes are read than at 2 " +
			"MiB, where filters displace them."},
		{[]int64{100_000}, never + "."},
		{[]int64{200_000, 400_000}, ""},
	} {
		if got := curveOf(c.blocks...).tooLarge(); got != c.want {
			t.Errorf("%v: %q, want %q", c.blocks, got, c.want)
		}
	}
}

func TestOptionsAreListedOnce(t *testing.T) {
	options := map[string]string{
		"cache_size":     "8",
		"cache_bytes":    "8",
		"mem_table_size": "4",
		"memtable_size":  "5",
		"pebble_version": "0.1",
		"max_open_files": "9",
		"handles":        "9",
	}

	s := Sweep{Points: []Point{{Run: &result.Run{Engine: result.Engine{Options: options}}}}}
	var names []string
	for _, row := range s.options().Rows {
		names = append(names, row.Cells[0])
	}

	if got, want := strings.Join(names,
		" "), "cache_bytes handles mem_table_size memtable_size"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAccessesNote(t *testing.T) {
	with := Point{Run: &result.Run{Phases: []result.Phase{{Name: "measure"}, {Name: "accesses"}}}}
	without := Point{Run: &result.Run{Phases: []result.Phase{{Name: "measure"}}}}
	for _, c := range []struct {
		points []Point
		told   bool
	}{{[]Point{with, without}, true}, {[]Point{with, with}, false}, {[]Point{without, {}}, false}} {
		if got := (&Sweep{Points: c.points}).accessesNote(); (got != "") != c.told {
			t.Errorf("%q", got)
		}
	}
}

func TestPredictionInTime(t *testing.T) {
	p := Prediction{
		Keys:       1e6,
		Database:   100 * mib,
		Engine:     "pebble1",
		Cores:      2,
		Gets:       1000,
		WarmupGets: 500,
		Points: []result.PredictedPoint{
			{CacheBytes: mib, SteadyState: 2, BlockReadsPerGet: 2.01},
			{CacheBytes: 10 * mib, SteadyState: 1, BlockReadsPerGet: 1},
		},
	}

	text := func() string {
		var out bytes.Buffer
		if err := render.Terminal(&out, p.Document()); err != nil {
			t.Fatal(err)
		}

		for _, line := range strings.Split(out.String(), "\n") {
			if p.Hardware != nil && len([]rune(line)) > columns {
				t.Errorf("%q has more than %d columns", line, columns)
			}
		}

		return strings.Join(strings.Fields(out.String()), " ")
	}

	if got := text(); !strings.Contains(got,
		"statelab disk DIR --out DISK, and add --hardware DISK") {
		t.Errorf("without a disk: %s", got)
	}

	p.Hardware = &result.Hardware{
		Name:   "nvme",
		Points: []result.DiskPoint{{InFlight: 1, ReadsPerSecond: 10_000, MeanNanos: 100_000}},
	}

	for _, want := range []string{"takes 100 us on average with one in flight",
		"take 200 us at 1 MiB, 100 us at 10 MiB in steady state", "2.000 200 2.010"} {
		if got := text(); !strings.Contains(got, want) {
			t.Errorf("lacks %q: %s", want, got)
		}
	}
}

// TestInflectionTable: a cache has to hold memtables as well.
func TestInflectionTable(t *testing.T) {
	i := &result.Inflection{
		IP1: result.Size{
			DiskBytes:    518 << 10,
			CacheBytes:   534 << 10,
			PercentOfDB:  0.43,
			CachePercent: 0.445,
		},
		IP2: result.Size{
			DiskBytes:    973 << 10,
			CacheBytes:   1229 << 10,
			PercentOfDB:  0.81,
			CachePercent: 1.02,
		},
	}

	for reserved, want := range map[int64]string{
		0:         "IP1 534 0.445 518 0.430",
		256 << 10: "IP1 0.771 0.658 534 0.445 518 0.430",
	} {
		s := &Sweep{
			Sweep:  result.Sweep{Inflection: i, Database: result.Database{Bytes: 120_000 << 10}},
			Points: []Point{{Point: result.Point{CacheBytes: mib, BlockBytes: mib - reserved}}},
		}

		if got := strings.Join(s.inflectionTable().Rows[0].Cells, " "); got != want+" "+holdsIP1 {
			t.Errorf("%d reserved: %s", reserved, got)
		}
	}
}
