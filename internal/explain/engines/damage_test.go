package engines

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// flat is what a folder says on a terminal, in one line.
func flat(t testing.TB, dirs ...string) string {
	t.Helper()
	var out bytes.Buffer
	must(t, render.Terminal(&out, read(t, dirs...).Document()))
	return strings.Join(strings.Fields(out.String()), " ")
}

func changeSweep(t testing.TB, dir string, change func(*result.Sweep)) {
	t.Helper()
	sweep, err := result.ReadSweep(dir)
	must(t, err)
	change(sweep)
	must(t, result.WriteSweep(dir, sweep))
}

// changeStored is changeSweep of a sweep as versions before 0.2 stored it, with figures.
func changeStored(t testing.TB, dir string, change func(*result.Sweep)) {
	t.Helper()
	sweep, err := result.ReadSweep(dir)
	must(t, err)
	change(sweep)
	must(t, output.WriteJSON(filepath.Join(dir, result.SweepFile), sweep))
}

func changeRun(t testing.TB, folder string, change func(*result.Run)) {
	t.Helper()
	run, err := result.ReadRun(folder)
	must(t, err)
	change(run)
	must(t, result.WriteRun(folder, run))
}

// Figures that no machine measures are drawn as absent, with a word, wherever they are:
// axes are bounded.
func TestAbsurdFiguresAreBounded(t *testing.T) {
	const huge = 1e308
	for name, change := range map[string]func(p *result.Point){
		"block reads": func(p *result.Point) {
			p.Figures.RecordIf(figure.BlockReadsPerGet,
				figure.If(ptr(huge)))
		},
		"device reads": func(p *result.Point) {
			p.Figures.RecordIf(figure.DeviceReadsPerGet,
				figure.If(ptr(huge)))
		},
		"speed":   func(p *result.Point) { p.Figures.Record(figure.GetsPerSecond, huge) },
		"latency": func(p *result.Point) { p.Figures.ServiceNanos.Mean = huge },
		"by type": func(p *result.Point) {
			p.Figures.BlockReadsPerGetByType = map[string]float64{"data": huge}
		},
		"cache":   func(p *result.Point) { p.CacheBytes = 1 << 62 },
		"percent": func(p *result.Point) { p.CachePercent = huge },
		"spread": func(p *result.Point) {
			p.Spread["gets_per_second"] = result.Range{Low: 1e-308,
				High: huge}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := []string{fixture(t, "one", []float64{1, 4}, "", nil, -1),
				fixture(t, "many", []float64{2, 9.6}, "threads", []string{"1", "2"}, -1),
				enginesSweep(t, fourEngines(6)...)}
			for _, dir := range dirs {
				changeStored(t, dir, func(s *result.Sweep) { change(&s.Points[0]) })
				wellFormed(t, page1(t, read(t, dir)))
			}

			page := page1(t, read(t, dirs[0], dirs[1]))
			if name != "spread" && name != "percent" && !strings.Contains(page, doc.Absurd) {
				t.Errorf("the page does not say %q", doc.Absurd)
			}
		})
	}
}

// The page and the text say which folder is damaged; where nothing can be drawn at all
// there is an error.
func TestDamagedRunIsNamed(t *testing.T) {
	dir := fixture(t, "demo", []float64{1, 4}, "", nil, -1)
	damage := func(n int) {
		must(t,
			os.WriteFile(filepath.Join(dir, "points", fmt.Sprintf("%03d", n), result.RunFile),
				[]byte("{"), 0o644))
	}

	damage(2)
	for what, got := range map[string]string{"text": flat(t, dir), "page": page1(t, read(t, dir))} {
		if !strings.Contains(got, "part of the folder of cache 4MiB could not be read: "+
			"points/002/run.json is damaged") {
			t.Errorf("the %s does not name the damaged folder:\n%s", what, got)
		}
	}

	damage(1)
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "nothing could be drawn") {
		t.Errorf("error %v", err)
	}
}

// So is a repeat whose figures are not shown.
func TestDamagedRepeatIsNamed(t *testing.T) {
	dir := fixture(t, "demo", []float64{1, 4}, "", nil, -1)
	changeSweep(t, dir, func(s *result.Sweep) {
		s.Points[0].Runs = []string{"points/001", "points/002"}
	})
	must(t, os.WriteFile(filepath.Join(dir, "points", "002", result.RunFile), []byte("{"), 0o644))
	if got := flat(t, dir); !strings.Contains(got, "part of the folder of cache 1MiB could not "+
		"be read: points/002/run.json is damaged") {
		t.Errorf("the text does not name the damaged repeat:\n%s", got)
	}
}

// Names reach a terminal without what it would obey.
func TestControlCharactersDoNotReachTheTerminal(t *testing.T) {
	const evil = "\x1b[31m\x07\u009b2J\u202e"
	dir := fixture(t, "demo"+evil, []float64{1, 4, 9.6}, "engine", []string{"a" + evil, "b"}, 1)
	changeSweep(t, dir, func(s *result.Sweep) {
		s.Points[1].Error, s.Error, s.Status = "killed"+evil, "broken"+evil, result.Failed
	})
	changeRun(t, filepath.Join(dir, "points", "001"), func(r *result.Run) {
		r.Engine.Version, r.Engine.Durability, r.Workload.Name = evil, evil, evil
	})
	var out bytes.Buffer
	must(t, render.Terminal(&out, read(t, dir).Document()))
	if at := strings.IndexAny(out.String(), "\x1b\x07\u009b\u202e\r"); at >= 0 {
		t.Errorf("a control character reaches the terminal: %q", out.String()[max(0, at-30):at+5])
	}
}

// A point shows one run: the repeat that its figures are of, in all charts and tables.
// Version 0.1.0 named the first repeat and showed the figures of the median one.
func TestEveryFigureIsOfTheRunShown(t *testing.T) {
	for _, named := range []int{0, 3} { // as 0.1.0 did, and as it is now
		dir := fixture(t, "demo", []float64{1}, "", nil, -1)
		const repeats, shown = 5, 3
		var runs []string
		for i := range repeats {
			rel := fmt.Sprintf("points/001-%d", i)
			must(t,
				os.CopyFS(filepath.Join(dir, rel), os.DirFS(filepath.Join(dir, "points", "001"))))
			f := figuresAt(1, 0)
			f.ServiceNanos.P50 = int64(1000 * (i + 1))
			f.Record(figure.GetsPerSecond, float64(100*(i+1)))
			writeSamples(t, filepath.Join(dir, rel), f, rand.New(rand.NewPCG(1, 2)))
			changeRun(t, filepath.Join(dir, rel), func(r *result.Run) {
				r.Figures, r.Engine.Version = f, fmt.Sprintf("v%d", i)
			})
			runs = append(runs, rel)
		}

		shownRun, err := result.ReadRun(filepath.Join(dir, runs[shown]))
		must(t, err)
		changeStored(t, dir, func(s *result.Sweep) {
			p := &s.Points[0]
			p.Run, p.Runs, p.Figures = runs[named], runs, shownRun.Figures
		})

		in := read(t, dir)
		p := in.Sweeps[0].Points[0]
		if p.Point.Run != runs[shown] || p.Run.Engine.Version != "v3" || p.Problem != "" {
			t.Fatalf("named %d: run %s, %s, problem %q", named, p.Point.Run, p.Run.Engine.Version,
				p.Problem)
		}

		if p50 := p.Service.ValueAtQuantile(50); p50 < 3500 || p50 > 4500 {
			t.Errorf("named %d: the chart's median is %d ns, sweep.json says %d", named, p50,
				shownRun.Figures.ServiceNanos.P50)
		}

		page := page1(t, in)
		for _, want := range []string{"<td>4.00</td>", "pebble2 v3"} { // p50 in us
			if !strings.Contains(page, want) {
				t.Errorf("named %d: the page lacks %s", named, want)
			}
		}
	}
}

// Runs that differ in an engine option only are told apart by it.
func TestOptionThatDiffersIsShown(t *testing.T) {
	sweep := fixture(t, "demo", []float64{4}, "", nil, -1)
	dirs := make([]string, 2)
	for i, size := range []string{"64MiB", "4MiB"} {
		dirs[i] = filepath.Join(t.TempDir(), "run")
		must(t, os.CopyFS(dirs[i], os.DirFS(filepath.Join(sweep, "points", "001"))))
		changeRun(t, dirs[i], func(r *result.Run) { r.Engine.Options["MemTableSize"] = size })
	}

	got := flat(t, dirs...)
	page := page1(t, read(t, dirs...))
	for _, want := range []string{"pebble2 MemTableSize=64MiB: ", "pebble2 MemTableSize=4MiB: "} {
		if !strings.Contains(got, want) || !strings.Contains(page, strings.TrimSuffix(want, ": ")) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}

	// Two points of one sweep that are the same on all axes.
	dir := fixture(t, "twins", []float64{4}, "threads", []string{"1", "2"}, -1)
	changeSweep(t, dir, func(s *result.Sweep) { s.Axes, s.Points[1].Axes = nil, s.Points[0].Axes })
	changeRun(t, filepath.Join(dir, "points", "001"), func(r *result.Run) {
		r.Engine.Options["MemTableSize"] = "64MiB"
	})
	changeRun(t, filepath.Join(dir, "points", "002"), func(r *result.Run) {
		r.Engine.Options["MemTableSize"] = "4MiB"
	})
	if got := flat(t, dir); !strings.Contains(got, "MemTableSize 64MiB") &&
		!strings.Contains(got, "64MiB MemTableSize") {
		t.Errorf("the option is not shown:\n%s", got)
	}
}

// A warning says of which engine it is.
func TestWarningNamesItsEngine(t *testing.T) {
	warn := func(r *result.Run) {
		r.Warnings = []engine.Warning{{
			Code:   "fits_in_memory",
			Text:   "everything fitted in memory",
			Remedy: "use a larger database",
		}}
	}

	settings := fourEngines(6)
	settings[2].change, settings[3].change = warn, warn
	in := read(t, enginesSweep(t, settings...))
	for _, w := range in.warnings() {
		if w.Text == "everything fitted in memory" {
			if w.Where != "rocksdb" || w.Remedy == "" {
				t.Errorf("where %q, remedy %q", w.Where, w.Remedy)
			}
			return
		}
	}

	t.Errorf("no warning: %+v", in.warnings())
}
