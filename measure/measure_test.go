package measure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/bbolt"
	"github.com/statelab/statelab/engines/mem"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/measure"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/runner"
)

func small(t *testing.T) measure.Workload {
	return measure.Workload{
		Dir:          filepath.Join(t.TempDir(), "db"),
		Keys:         20_000,
		CacheBytes:   600 << 10,
		Gets:         4_000,
		WarmupGets:   4_000,
		MissingShare: 0.1,
	}
}

// TestAsARunner: the same database, seed and workload give the same Gets and block reads as a
// runner counts.
func TestAsARunner(t *testing.T) {
	w := small(t)
	w.Out = filepath.Join(t.TempDir(), "run")
	ours, err := measure.Run(t.Context(), pebble2.Engine{}, w)
	if err != nil {
		t.Fatal(err)
	}

	out := t.TempDir()
	spec, err := json.Marshal(bench.Spec{
		Schema: schema.EngineSpec, Verb: bench.Read, Out: out, Engine: "pebble2",
		Dir: w.Dir, CacheBytes: w.CacheBytes, PageCache: bench.AsIs, Seed: 1, Threads: 1,
		Workload: workload.ReadRandom, Gets: w.Gets, WarmupGets: w.WarmupGets,
		MissingShare: w.MissingShare, AccessGets: 20_000,
	})
	if err != nil {
		t.Fatal(err)
	}

	var events, words bytes.Buffer
	if code := runner.Serve("", bytes.NewReader(spec), &events, &words,
		[]engine.Engine{pebble2.Engine{}}); code != 0 {
		t.Fatalf("the runner exited with %d: %s", code, &words)
	}

	theirs, err := result.ReadRun(out)
	if err != nil {
		t.Fatal(err)
	}

	a, b := ours.Figures, theirs.Figures
	if a.Found != b.Found || a.Missing != b.Missing || a.Gets != w.Gets || b.Gets != w.Gets {
		t.Errorf("here %d found and %d missing of %d, the runner %d and %d of %d", a.Found,
			a.Missing, a.Gets, b.Found, b.Missing, b.Gets)
	}

	for _, f := range []figure.Figure{figure.BlockReadsPerGet, figure.BlockReadBytesPerGet,
		figure.BlockAccessesPerGet} {
		if !a.Has(f) || a.OrZero(f) != b.OrZero(f) {
			t.Errorf("%s: %v here, %v in the runner", f.Key, a.OrZero(f), b.OrZero(f))
		}
	}

	if a.OrZero(figure.BlockReadsPerGet) < 0.1 {
		t.Errorf("%v block reads per Get: nothing was compared",
			a.OrZero(figure.BlockReadsPerGet))
	}

	if !maps.Equal(a.BlockReadsPerGetByType, b.BlockReadsPerGetByType) ||
		!maps.Equal(a.HitRate, b.HitRate) {
		t.Errorf("here %v, %v; in the runner %v, %v", a.BlockReadsPerGetByType, a.HitRate,
			b.BlockReadsPerGetByType, b.HitRate)
	}

	// What the kernel counts is there for the runner alone, and has a reason here.
	for _, f := range []figure.Figure{figure.CPUTimePerGet, figure.SwitchesPerGet,
		figure.ReadCallsPerGet, figure.PeakMemory, figure.DeviceReadBytesPerGet} {
		if a.Has(f) || a.Reason(f) == "" {
			t.Errorf("%s: %v, reason %q", f.Key, a.OrZero(f), a.Reason(f))
		}

		if runtime.GOOS == "linux" && !b.Has(f) {
			t.Errorf("%s of the runner: %s", f.Key, b.Reason(f))
		}
	}

	stored, err := result.ReadRun(w.Out)
	if err != nil {
		t.Fatal(err)
	}

	if !stored.SharedProcess || stored.Status != result.OK ||
		stored.Figures.OrZero(figure.BlockReadsPerGet) != a.OrZero(figure.BlockReadsPerGet) {
		t.Errorf("stored: %+v", stored)
	}

	for _, phase := range stored.Phases {
		if phase.Process != nil || phase.CPUNanos != 0 {
			t.Errorf("phase %s has counters of the process: %+v", phase.Name, phase)
		}
	}

	series, err := result.ReadSeries(w.Out)
	if err != nil || len(series) == 0 {
		t.Errorf("series %v: %v", series, err)
	}
}

// TestSweep: points are measured on one database, and the folder can be read.
func TestSweep(t *testing.T) {
	w := small(t)
	w.CacheBytes, w.Out = 0, filepath.Join(t.TempDir(), "S")
	caches := []int64{600 << 10, 16 << 20}
	s, err := measure.Sweep(t.Context(), pebble2.Engine{}, w, caches...)
	if err != nil {
		t.Fatal(err)
	}

	stored, err := result.ReadSweep(w.Out)
	if err != nil {
		t.Fatal(err)
	}

	for _, s := range []*result.Sweep{s, stored} {
		if len(s.Points) != len(caches) || s.Status != result.OK {
			t.Fatalf("%d points, %s: %s", len(s.Points), s.Status, s.Error)
		}

		for i, p := range s.Points {
			if p.CacheBytes != caches[i] || p.Of == nil || !p.Of.SharedProcess {
				t.Errorf("point %d: %+v", i, p)
			}
		}

		less, more := s.Points[1].Figures, s.Points[0].Figures
		if r := figure.BlockReadsPerGet; less.OrZero(r) >= more.OrZero(r) {
			t.Errorf("%v block reads per Get with the larger cache, %v with the smaller",
				less.OrZero(r), more.OrZero(r))
		}
	}
}

// TestTemporary: without folders, nothing is left.
func TestTemporary(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	w := small(t)
	w.Dir, w.Threads = "", runtime.GOMAXPROCS(0)+1
	procs := runtime.GOMAXPROCS(0)
	run, err := measure.Run(t.Context(), pebble2.Engine{}, w)
	if err != nil {
		t.Fatal(err)
	}

	if run.Host.Gomaxprocs != w.Threads || runtime.GOMAXPROCS(0) != procs {
		t.Errorf("GOMAXPROCS was %d, then %d with %d threads, and is %d", procs,
			run.Host.Gomaxprocs, w.Threads, runtime.GOMAXPROCS(0))
	}

	w.CacheBytes, w.Threads = 0, 1
	s, err := measure.Sweep(t.Context(), pebble2.Engine{}, w, 600<<10)
	if err != nil || len(s.Points) != 1 || !s.Points[0].Figures.Has(figure.BlockReadsPerGet) {
		t.Errorf("a sweep: %+v, %v", s, err)
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v: %v", left, err)
	}
}

// TestPageFaults: block reads of an engine that reads through mmap are faults of the process, which
// are not the run's alone.
func TestPageFaults(t *testing.T) {
	w := small(t)
	w.CacheBytes, w.Keys = 0, 1_000
	run, err := measure.Run(t.Context(), bbolt.Engine{}, w)
	if err != nil {
		t.Fatal(err)
	}

	if r := figure.BlockReadsPerGet; run.Figures.Has(r) || run.Figures.Reason(r) == "" {
		t.Errorf("%v block reads per Get, reason %q", run.Figures.OrZero(r), run.Figures.Reason(r))
	}
}

func TestMistakes(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	loaded := small(t)
	loaded.Keys, loaded.Gets = 1_000, 100
	if _, err := measure.Run(t.Context(), pebble2.Engine{}, loaded); err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		engine engine.Engine
		change func(*measure.Workload)
		want   []string // in the error
	}{
		"no engine": {nil, func(*measure.Workload) {}, []string{"engine.Engine"}},
		"volatile": {mem.Engine{}, func(*measure.Workload) {},
			[]string{"mem", "engine.IsVolatile", "Options.Dir"}},
		"several": {pebble2.Engine{}, func(w *measure.Workload) {
			w.Keys, w.KeyBytes, w.Threads, w.MissingShare, w.CacheBytes = 0, 4, -1, 1.5, -7
		}, []string{"5 mistakes", "Workload.Keys: give the number", "Workload.KeyBytes", "from 8",
			"Workload.Threads", "Workload.MissingShare 1.5", "from 0 to 1",
			"Workload.CacheBytes -7"}},
		"not a number": {pebble2.Engine{}, func(w *measure.Workload) {
			w.MissingShare, w.ZipfTheta = math.NaN(), math.Inf(1)
		}, []string{"Workload.MissingShare", "Workload.ZipfTheta"}},
		"profile and option": {pebble2.Engine{}, func(w *measure.Workload) {
			w.Profile, w.Options = "nobodys", map[string]string{"MemTabelSize": "1"}
		}, []string{"Workload.Profile", "nobodys"}},
		"option": {pebble2.Engine{}, func(w *measure.Workload) {
			w.Options = map[string]string{"MemTabelSize": "1"}
		}, []string{"Workload.Options", "MemTabelSize", "MemTableSize"}},
		"direct": {bbolt.Engine{}, func(w *measure.Workload) { w.Direct = true },
			[]string{"Workload.Direct true", "use Workload.Direct false"}},
		"foreign folder": {pebble2.Engine{}, func(w *measure.Workload) { w.Dir = full },
			[]string{"Workload.Dir", "mine", "new folder"}},
		"results are there": {pebble2.Engine{}, func(w *measure.Workload) { w.Out = full },
			[]string{"Workload.Out", "mine", "new folder"}},
		"other engine": {bbolt.Engine{}, func(w *measure.Workload) { w.Dir = loaded.Dir },
			[]string{"Workload.Dir", "pebble2", "bbolt"}},
		"other keys": {pebble2.Engine{}, func(w *measure.Workload) {
			w.Dir, w.Keys, w.ValueBytes = loaded.Dir, 2_000, 50
		}, []string{"Workload.Keys 2000", "1000", "Workload.ValueBytes 50", "110", "leave it 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := small(t)
			c.change(&w)
			run, err := measure.Run(t.Context(), c.engine, w)
			if run != nil {
				t.Errorf("run %v", run)
			}
			refused(t, err, c.want...)
		})
	}

	w := small(t)
	_, err := measure.Sweep(t.Context(), pebble2.Engine{}, w, 1<<20, 1<<20)
	refused(t, err, "Workload.CacheBytes: not with Sweep", "different numbers")

	w.CacheBytes = 0
	_, err = measure.Sweep(t.Context(), bbolt.Engine{}, w, 1<<20)
	refused(t, err, "no block cache")

	_, err = measure.Sweep(t.Context(), pebble2.Engine{}, w)
	refused(t, err, "at least one cache")
}

// refused checks that a mistake of the caller is refused as one, with a text that names these and
// no flag of a command line, which the caller does not have.
func refused(t *testing.T, err error, names ...string) {
	t.Helper()
	if code := engine.CodeOf(err); code != engine.CodeUsage && code != engine.CodeUnsupported {
		t.Fatalf("code %q: %v", code, err)
	}

	text := err.Error()
	for _, want := range names {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in: %v", want, text)
		}
	}

	if strings.Contains(text, "--") {
		t.Errorf("names a flag: %v", text)
	}
}

// TestCancelled: what was measured until then is returned and written, and the cause is the error.
func TestCancelled(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	w := small(t)
	w.Gets, w.Out = 1<<40, filepath.Join(t.TempDir(), "run")
	e := cancelling{pebble2.Engine{}, func() { cancel(why) }}
	run, err := measure.Run(ctx, e, w)
	if !errors.Is(err, why) {
		t.Fatalf("error %v", err)
	}

	stored, readErr := result.ReadRun(w.Out)
	if readErr != nil || run == nil || run.Status != result.Interrupted ||
		stored.Status != result.Interrupted {
		t.Errorf("run %+v, stored %+v: %v", run, stored, readErr)
	}

	if _, err := measure.Run(ctx, pebble2.Engine{}, small(t)); !errors.Is(err, why) {
		t.Errorf("of a context that has ended: %v", err)
	}
}

// cancelling ends a context at the first Get of a database that was loaded. Like many an engine of
// somebody else, it has a name of its own and keeps its data in Pebble.
type cancelling struct {
	pebble2.Engine
	cancel func()
}

func (e cancelling) Info() engine.Info {
	info := e.Engine.Info()
	info.Name = "mine"
	return info
}

func (e cancelling) Open(ctx context.Context, o engine.Options) (engine.DB, error) {
	db, err := e.Engine.Open(ctx, o)
	if err != nil || o.Create {
		return db, err
	}
	return cancellingDB{db, e.cancel}, nil
}

type cancellingDB struct {
	engine.DB
	cancel func()
}

func (d cancellingDB) Reader() (engine.Reader, error) {
	d.cancel()
	return d.DB.Reader()
}

// TestNoFlags: reasons, warnings and remedies name fields of a Workload, not flags or commands.
func TestNoFlags(t *testing.T) {
	w := small(t)
	w.Keys, w.CacheBytes, w.Gets, w.WarmupGets = 1_000, 64<<20, 200, 200
	run, err := measure.Run(t.Context(), pebble2.Engine{}, w)
	if err != nil {
		t.Fatal(err)
	}

	fits := func(w engine.Warning) bool { return w.Code == "fits_in_memory" }
	if !slices.ContainsFunc(run.Warnings, fits) {
		t.Errorf("warnings %+v", run.Warnings)
	}

	texts := slices.Collect(maps.Values(run.Reasons()))
	for _, warning := range run.Warnings {
		texts = append(texts, warning.Text, warning.Remedy)
	}

	w.CacheBytes = 1 << 10
	_, err = measure.Run(t.Context(), pebble2.Engine{}, w)
	var failed *engine.Failure
	if !errors.As(err, &failed) || !strings.Contains(failed.Remedy, "Workload.CacheBytes") {
		t.Fatalf("a cache for no block: %v", err)
	}

	for _, text := range append(texts, failed.Remedy) {
		if strings.Contains(text, "--") || strings.Contains(text, "statelab ") {
			t.Errorf("not for a package's user: %s", text)
		}
	}
}

// TestFigures: what a run has is found by its figure, whichever field stores it.
func TestFigures(t *testing.T) {
	run, err := measure.Run(t.Context(), pebble2.Engine{}, small(t))
	if err != nil {
		t.Fatal(err)
	}

	f := run.Figures
	for one, want := range map[figure.Figure]float64{
		figure.ServiceTime:       f.ServiceNanos.Mean,
		figure.ServiceTime.P99(): float64(f.ServiceNanos.P99),
		figure.HitRate:           f.HitRate["all"],
	} {
		got, known := f.Number(one)
		if !known || got != want || run.Value(one) != f.Value(one) || !f.Has(one) {
			t.Errorf("%s: %v, %v; want %v", one.Key, got, known, want)
		}
	}

	parts := figure.BlockReadsPerGet.ByType()
	if why := f.Reason(parts); !strings.Contains(why, "Figures.BlockReadsPerGetByType") {
		t.Errorf("parts: %q", why)
	}
}
