package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// limits are the questions of the study.
var limits = []float64{2, 1.1}

// Work is a sweep while it is carried out.
type Work struct {
	sweep     Sweep
	out       string
	plan      plan.Plan
	executor  plan.Executor
	settings  []Setting
	points    []plan.Point           // of settings
	databases map[string]*result.Run // inspected, by folder
	accesses  map[string]map[string]float64
	loading   time.Duration // for making databases
	Result    *result.Sweep
}

// New is the work of measuring s in the folder of p.
func New(s Sweep, p plan.Plan, executor plan.Executor) *Work {
	return &Work{sweep: s, out: p.Out, plan: p, executor: executor, settings: s.Settings(),
		databases: map[string]*result.Run{}, accesses: map[string]map[string]float64{},
		Result: &result.Sweep{
			Source:  "measured",
			Name:    s.Name,
			Started: time.Now().UTC(),
			Command: s.Command,
			Axes:    s.axes(),
		}}
}

// Points are the settings; labels name the axes that really vary.
func (w *Work) Points() []plan.Point {
	if len(w.points) > 0 {
		return w.points
	}

	for _, s := range w.settings {
		var parts []string
		for _, axis := range w.sweep.Axes {
			if len(axis.Values) > 1 {
				parts = append(parts, axis.Name+" "+s.Values[axis.Name])
			}
		}

		w.points = append(w.points, plan.Point{
			Name:  fmt.Sprintf("%03d", s.Number),
			Label: strings.Join(parts, ", "),
			Class: s.Class,
		})
	}

	return w.points
}

// Status of a run.
func (w *Work) Status(run *result.Run) string { return run.Status }

// Stored reads a run.
func (w *Work) Stored(folder string) (*result.Run, bool) {
	run, err := result.ReadRun(folder)
	if err != nil {
		return nil, false
	}
	if run.Status == result.OK {
		w.keep(run)
	}
	return summarized(run), true
}

// Measure measures a setting once, in a process of its own, and first makes and
// looks at the database where that has not been done.
func (w *Work) Measure(
	ctx context.Context, step plan.Step, folder string, tell result.EventFunc,
) (*result.Run, error) {
	setting := w.settings[step.Point]
	spec := setting.Spec(0)
	if spec.Dir == "" {
		dir, err := w.ensureLoaded(ctx, setting.LoadSpec(w.plan.Load(step)), tell)
		if err != nil {
			return nil, err
		}
		spec.Dir = dir
	}

	database, err := w.inspect(ctx, spec, tell)
	if err != nil {
		return nil, err
	}

	dir := spec.Dir
	spec = setting.Spec(database.Database.Bytes)
	spec.Dir, spec.Out = dir, filepath.Join(w.out, folder)
	spec.Accesses = w.accesses[dir]
	run, err := w.executor.Do(ctx, JobOf(&spec), tell)
	if err != nil {
		return nil, err
	}

	if run.Status != result.Interrupted {
		w.keep(run)
	}

	return summarized(run), nil
}

// summarized drops what the summary of a sweep does not take from a run: all runs of
// a sweep are in memory, and its folder has each in full.
func summarized(run *result.Run) *result.Run {
	run.Engine.Options = map[string]string{engine.BuildOption: run.Build()}
	run.Command, run.Machine, run.After, run.Absent, run.Checks = nil, nil, nil, nil, nil
	for i, phase := range run.Phases {
		run.Phases[i] = result.Phase{Name: phase.Name, Seconds: phase.Seconds}
	}
	return run
}

// JobOf is the job of a spec for an engine.
func JobOf(spec *bench.Spec) runners.Job {
	return runners.Job{Spec: spec, Blank: func() *result.Run { return bench.Blank(spec, "") }}
}

// whole carries out what measuring rests on: an error unless it is done, with the run that failed.
func whole(
	ctx context.Context, executor plan.Executor, spec *bench.Spec, tell result.EventFunc,
) (*result.Run, error) {
	run, err := executor.Do(ctx, JobOf(spec), tell)
	switch {
	case err != nil:
		return nil, err
	case run.Status == result.Interrupted && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case run.Status != result.OK:
		return run, run.Failure(run.Error)
	}

	return run, nil
}

// keep takes a finished run into the sweep. The accesses of a Get do not depend
// on the cache: the first point of a database that knows them tells the others.
func (w *Work) keep(run *result.Run) {
	if dir := run.Database.Dir; w.accesses[dir] == nil {
		w.accesses[dir] = run.Figures.BlockAccessesPerGetByType
	}
}

// ensureLoaded makes the database that load declares inside the sweep folder.
func (w *Work) ensureLoaded(
	ctx context.Context, load bench.Spec, tell result.EventFunc,
) (string, error) {
	load.Dir = filepath.Join(cmp.Or(w.sweep.Databases, filepath.Join(w.out, "databases")), load.Dir)
	began := time.Now()
	defer func() { w.loading += time.Since(began) }()
	return load.Dir, EnsureLoaded(ctx, w.executor, load, tell)
}

// EnsureLoaded makes the database of load.Dir that load declares, or goes on with its load. One
// that is loaded already is left as it is.
func EnsureLoaded(
	ctx context.Context, executor plan.Executor, load bench.Spec, tell result.EventFunc,
) error {
	load.Out = filepath.Join(load.Dir, engine.OwnFolder, "load")
	switch m, err := keyspace.ReadManifest(load.Dir); {
	case err == nil && m.Loaded == m.Keys && m.Settled:
		return nil
	case err == nil:
		load.Resume = true
	case !errors.Is(err, keyspace.ErrNoManifest):
		return err
	}

	run, err := whole(ctx, executor, &load, tell)
	if err != nil && run != nil {
		err = fmt.Errorf("load %s: %w", load.Dir, err)
	}

	return err
}

// inspect learns the size and shape of the database that spec reads.
func (w *Work) inspect(
	ctx context.Context, spec bench.Spec, tell result.EventFunc,
) (*result.Run, error) {
	if known := w.databases[spec.Dir]; known != nil {
		return known, nil
	}

	spec.Verb, spec.ReadOnly, spec.PageCache = bench.Inspect, true, bench.AsIs
	spec.Out = filepath.Join(w.out, "inspect", fmt.Sprintf("%03d", len(w.databases)))
	spec.CacheBytes, spec.CacheAsked, spec.MemoryBytes = 0, "", 0
	run, err := whole(ctx, w.executor, &spec, tell)
	if err == nil {
		w.databases[spec.Dir] = run
	}

	return run, err
}

// Conclude writes sweep.json.
func (w *Work) Conclude(done map[plan.Step]*result.Run, so plan.Outcome) error {
	s := w.Result
	s.Points, s.Warnings = s.Points[:0], nil
	for i := range w.settings {
		if point, ok := w.point(i, done); ok {
			s.Points = append(s.Points, point)
		}
	}

	s.Warnings = append(s.Warnings, mixed(done)...)
	s.PhaseSeconds = map[string]float64{}
	phases := 0.0
	for _, run := range done {
		for _, phase := range run.Phases {
			s.PhaseSeconds[phase.Name] += phase.Seconds
			phases += phase.Seconds
		}
	}

	if loading := w.loading.Seconds(); loading > 0 {
		s.PhaseSeconds["load"] += loading
		phases += loading
	}

	if start := time.Since(s.Started).Seconds() - phases; start > 0 {
		s.PhaseSeconds["start"] = start
	}

	s.Status, s.Error, s.FailureInfo = so.Status, so.Error, so.FailureInfo
	s.Answers = result.Answers(s.Points, limits...)
	return result.WriteSweep(w.out, s)
}

// mixed warns of an engine that some runs measured in pure Go and others with cgo.
func mixed(done map[plan.Step]*result.Run) (warnings []engine.Warning) {
	builds := map[string]map[string]int{}
	for _, run := range done {
		if build := run.Build(); build != "" {
			if builds[run.Engine.Name] == nil {
				builds[run.Engine.Name] = map[string]int{}
			}
			builds[run.Engine.Name][build]++
		}
	}

	for _, name := range slices.Sorted(maps.Keys(builds)) {
		if by := builds[name]; len(by) > 1 {
			warnings = append(warnings, engine.Warning{Code: "mixed_builds",
				Text: fmt.Sprintf("%s: %d runs were measured in pure Go and %d with cgo: their "+
					"memory and CPU differ, block reads do not",
					name, by[engine.PureGo], by[engine.WithCgo]),
				Remedy: "measure all of them alike in a new --out: STATELAB_CGO=0 asks for pure " +
					"Go, STATELAB_CGO=1 for cgo"})
		}
	}

	return warnings
}

// point is the outcome of a setting; not ok: none of its runs is there.
func (w *Work) point(i int, done map[plan.Step]*result.Run) (p result.Point, ok bool) {
	repeats := plan.Repeats(w.plan, w.Points(), i, done)
	if len(repeats) == 0 {
		return p, false
	}

	axes := w.settings[i].Values
	for _, r := range repeats {
		for _, warning := range r.Of.Warnings {
			w.Result.Warnings = plan.AddWarning(w.Result.Warnings, axes[EngineAxis], warning)
		}

		if r.Of.Status == result.OK {
			w.describe(r.Of)
		}
	}

	s := plan.Summarize(repeats, result.PointRule(), plan.EndOfRun)
	p = result.Point{
		Axes:        axes,
		Run:         s.Shown.Folder,
		Runs:        s.Runs,
		Status:      s.Status,
		Error:       s.Error,
		FailureInfo: s.FailureInfo,
		Spread:      s.Spread,
	}

	p.Show(s.Shown.Of)
	return p, true
}

// describe takes host and database from the first run that knows them.
func (w *Work) describe(run *result.Run) {
	if s := w.Result; s.Host.Kernel == "" {
		s.Host, s.Database, s.Inflection = run.Host, run.Database, run.Inflection
	}
}

// TimeWords lists what took time, the longest first, and what share was not spent on Gets.
func TimeWords(seconds map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(seconds), func(a, b string) int {
		return cmp.Compare(seconds[b], seconds[a])
	})
	total, outside := 0.0, 0.0
	var words []string
	for _, name := range names {
		total += seconds[name]
		if name != "warm" && name != "measure" && name != "load" && name != "settle" {
			outside += seconds[name]
		}

		if seconds[name] >= 0.05 {
			words = append(words, cmp.Or(map[string]string{
				"start":    "starting processes",
				"prepare":  "opening databases",
				"accesses": "counting block accesses",
				"warm":     "warming up",
				"measure":  "measuring",
				"load":     "loading",
				"settle":   "waiting for compactions",
				"predict":  "predicting",
			}[name], name)+" "+unit.Seconds(seconds[name]))
		}
	}

	return fmt.Sprintf("%s; %.0f%% neither for Gets nor for loading", strings.Join(words, ", "),
		100*outside/max(total, 1e-9))
}

// AxesWords are the settings of a point, such as "cache 1%, threads 2".
func AxesWords(axes map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(axes)) {
		words = append(words, name+" "+axes[name])
	}
	return strings.Join(words, ", ")
}

// TellFailures tells which points failed, and whether measuring them again would come to the same
// end.
func TellFailures(done *result.Sweep, say func(format string, args ...any)) (forGood bool) {
	failed, again := 0, 0
	for _, point := range done.Points {
		if point.Status == result.Failed {
			say("the point with %s failed: %s", AxesWords(point.Axes),
				point.WithRemedy(point.Error))
			failed++
			if point.Code == engine.CodeNoBlocks {
				again++
			}
		}
	}

	return again > 0 && again == failed
}
