package result

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result/figure"
)

// stored writes a run of a read with so many Gets a second.
func stored(t *testing.T, dir string, speed float64) *Run {
	t.Helper()
	r := &Run{
		Status:     OK,
		Verb:       "read",
		Cache:      Cache{Requested: "2MiB", Effective: 2 << 20},
		Database:   Database{Bytes: 8 << 20},
		Workload:   Workload{WarmupGets: 5},
		Inflection: &Inflection{IP1: Size{CacheBytes: 1 << 20}, IP2: Size{CacheBytes: 3 << 20}},
		Figures: Figures{Set: figure.SetOf(map[figure.Figure]float64{figure.GetsPerSecond: speed}),
			Gets: 100},
	}

	if err := errors.Join(os.MkdirAll(dir, 0o755), WriteRun(dir, r)); err != nil {
		t.Fatal(err)
	}

	return r
}

// object reads a JSON object without the types of this package.
func object(t *testing.T, path string) (o map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}

	if err != nil {
		t.Fatal(err)
	}

	return o
}

func TestASweepIsAnIndexOfItsRuns(t *testing.T) {
	dir := t.TempDir()
	run := stored(t, filepath.Join(dir, "points", "000"), 7)
	p := Point{
		Axes:   map[string]string{"cache": "2MiB"},
		Run:    "points/000",
		Runs:   []string{"points/000"},
		Status: OK,
	}

	p.Show(run)
	if p.CacheBytes != 2<<20 || p.BlockBytes != 2<<20 || p.CachePercent != 25 || p.Regime != 2 ||
		p.WarmupGets != 5 || p.Figures.OrZero(figure.GetsPerSecond) != 7 {
		t.Errorf("%+v", p)
	}

	if err := WriteSweep(dir, &Sweep{Points: []Point{p}}); err != nil {
		t.Fatal(err)
	}

	point := object(t, filepath.Join(dir, SweepFile))["points"].([]any)[0].(map[string]any)
	if names := slices.Sorted(maps.Keys(point)); !slices.Equal(names, []string{"axes", "run",
		"runs", "status"}) {
		t.Errorf("a point of %s has %q", SweepFile, names)
	}

	of := object(t, filepath.Join(dir, "points", "000", RunFile))
	if regime := of["inflection"].(map[string]any)["regime"]; regime != 2.0 ||
		of["cache"] == nil || of["cache_bytes"] != nil {
		t.Errorf("regime %v, cache %v", regime, of["cache"])
	}

	s, err := ReadSweep(dir)
	if err != nil {
		t.Fatal(err)
	}

	p.Of = s.Points[0].Of
	if diff := cmp.Diff(p, s.Points[0]); diff != "" || p.Of.Cache.Effective != 2<<20 {
		t.Error(diff)
	}

	if err := os.RemoveAll(filepath.Join(dir, "points")); err != nil {
		t.Fatal(err)
	}

	if s, err = ReadSweep(dir); err != nil || !errors.Is(s.Points[0].Problem, fs.ErrNotExist) ||
		s.Points[0].Of != nil {
		t.Errorf("%v, %+v", err, s.Points)
	}
}

// Versions before 0.2 stored figures in sweep.json too, and called the cache of a run
// cache_bytes and the regime phase; 0.1.0 named the first repeat, whichever it showed.
func TestSweepsOfEarlierVersionsAreRead(t *testing.T) {
	dir := t.TempDir()
	for name, speed := range map[string]float64{"000": 5, "000-2": 7} {
		folder := filepath.Join(dir, "points", name)
		stored(t, folder, speed)
		path := filepath.Join(folder, RunFile)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}

		old := strings.NewReplacer(`"cache": {`, `"cache_bytes": {`, `"regime": 2`, `"phase": 3`).
			Replace(string(text))
		if err := os.WriteFile(path, []byte(old), 0o644); err != nil || old == string(text) {
			t.Fatal(err, old)
		}
	}

	old := `{"schema":"` + schema.Sweep + `","points":[{"axes":{"cache":"2MiB"},` +
		`"cache_bytes":2097152,"cache_percent_of_db":25,"phase":3,"status":"ok",` +
		`"run":"points/000","runs":["points/000","points/000-2"],` +
		`"figures":{"gets":100,"gets_per_second":7}}]}`
	write := func() Point {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, SweepFile), []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}

		s, err := ReadSweep(dir)
		if err != nil {
			t.Fatal(err)
		}

		return s.Points[0]
	}

	if p := write(); p.Run != "points/000-2" || p.Regime != 2 || p.CacheBytes != 2<<20 ||
		p.Of.Cache.Requested != "2MiB" || p.Problem != nil {
		t.Errorf("%+v", p)
	}

	old = strings.Replace(old, `"gets_per_second":7`, `"gets_per_second":8`, 1)
	if p := write(); p.Problem == nil || p.Of == nil ||
		p.Figures.OrZero(figure.GetsPerSecond) != 8 {
		t.Errorf("figures of no repeat: %+v", p)
	}

	if err := os.RemoveAll(filepath.Join(dir, "points")); err != nil { // as the studies' are
		t.Fatal(err)
	}

	if p := write(); p.Regime != 3 || p.CachePercent != 25 ||
		p.Figures.OrZero(figure.GetsPerSecond) != 8 || !errors.Is(p.Problem, fs.ErrNotExist) {
		t.Errorf("without its runs: %+v", p)
	}
}

func TestARunFolderOutsideIsNotRead(t *testing.T) {
	dir := t.TempDir()
	stored(t, filepath.Join(dir, "secret"), 7)
	sweep := filepath.Join(dir, "sweep")
	if err := errors.Join(os.Mkdir(sweep, 0o755),
		WriteSweep(sweep, &Sweep{Points: []Point{{Run: "../secret", Status: OK}}})); err != nil {
		t.Fatal(err)
	}

	if s, err := ReadSweep(sweep); err != nil || s.Points[0].Problem == nil ||
		s.Points[0].Of != nil {
		t.Errorf("%v, %+v", err, s.Points)
	}
}

// The whole cache is not the blocks': memtables and writes take parts of it.
func TestTheRegimeIsOfTheCacheThatBlocksHave(t *testing.T) {
	at := func(cache int64, blocks, reserved *int64) int {
		r := &Run{Verb: "read", Cache: Cache{Effective: cache, BlockBytes: blocks},
			Inflection: &Inflection{IP1: Size{CacheBytes: 10}, IP2: Size{CacheBytes: 30}}}
		r.Figures.RecordIf(figure.CacheReserved, figure.If(reserved))
		r.regime()
		return r.Inflection.Regime
	}

	for cache, want := range map[int64]int{0: 0, 1: 1, 10: 2, 29: 2, 30: 3} {
		if have := at(cache, nil, nil); have != want {
			t.Errorf("cache of %d: regime %d, want %d", cache, have, want)
		}

		reserved := int64(5)
		if cache > 0 &&
			(at(cache+7, &cache, nil) != want || at(cache+reserved, &cache, &reserved) != want) {
			t.Errorf("cache of %d for blocks, beside others: want regime %d", cache, want)
		}
	}
}
