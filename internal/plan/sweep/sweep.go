package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// RunPoint measures one point in a process of its own.
type RunPoint func(ctx context.Context, spec *bench.Spec, tell bench.Tell) (*result.Run, error)

// Progress is told what the sweep is at; point counts from 1.
type Progress func(point, points int, label string, e bench.Event)

// limits are the questions of the study.
var limits = []float64{2, 1.1}

// sweeper is a sweep while it runs.
type sweeper struct {
	plan      Plan
	out       string
	measure   RunPoint
	progress  Progress
	settings  []Setting
	databases map[string]*result.Run // inspected, by folder
	accesses  map[string]map[string]float64
	runs      map[Step]*result.Run
	sweep     *result.Sweep
}

// Run carries out the plan in the folder out. Steps that an earlier Run has
// finished there are not measured again.
func Run(ctx context.Context, plan Plan, out string, measure RunPoint, progress Progress) (*result.Sweep, error) {
	settings, err := plan.Settings()
	if err != nil {
		return nil, err
	}
	s := &sweeper{plan: plan, out: out, measure: measure, progress: progress, settings: settings,
		databases: map[string]*result.Run{}, accesses: map[string]map[string]float64{}, runs: map[Step]*result.Run{},
		sweep: &result.Sweep{Source: "measured", Name: plan.Name, Started: time.Now().UTC(), Command: plan.Command, Axes: plan.Axes}}
	if err := os.MkdirAll(filepath.Join(out, result.PointsDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the sweep folder: %w", err)
	}
	if err := WritePlan(out, plan); err != nil {
		return nil, err
	}
	runErr := s.run(ctx)
	s.conclude(ctx, runErr)
	return s.sweep, errors.Join(runErr, result.WriteSweep(out, s.sweep))
}

func (s *sweeper) run(ctx context.Context) error {
	steps := Order(len(s.settings), s.plan.Repeats, s.plan.Seed)
	for _, step := range steps {
		if run, err := result.ReadRun(filepath.Join(s.out, s.folder(step))); err == nil && run.Status == result.OK {
			s.keep(step, run)
		}
	}
	for n, step := range steps {
		if _, done := s.runs[step]; done {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.step(ctx, step, n+1, len(steps)); err != nil {
			return err
		}
		s.conclude(ctx, nil)
		s.sweep.Status = result.Interrupted // until the last point is in
		if err := result.WriteSweep(s.out, s.sweep); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeper) step(ctx context.Context, step Step, n, of int) error {
	setting := s.settings[step.Setting]
	label := s.label(step)
	tell := func(e bench.Event) { s.progress(n, of, label, e) }
	spec := s.plan.spec(setting, 0)
	if spec.Dir == "" {
		dir, err := s.ensureLoaded(ctx, setting, spec, tell)
		if err != nil {
			return err
		}
		spec.Dir = dir
	}
	database, err := s.inspect(ctx, spec, tell)
	if err != nil {
		return err
	}
	dir := spec.Dir
	spec = s.plan.spec(setting, database.Database.Bytes)
	spec.Dir, spec.Out = dir, filepath.Join(s.out, s.folder(step))
	spec.Accesses = s.accesses[dir]
	run, err := s.measure(ctx, &spec, tell)
	if err != nil {
		return err
	}
	if run.Status != result.Interrupted {
		s.keep(step, run)
	}
	return nil
}

// keep takes a finished run into the sweep. The accesses of a Get do not depend
// on the cache: the first point of a database that knows them tells the others.
func (s *sweeper) keep(step Step, run *result.Run) {
	s.runs[step] = run
	if dir := run.Database.Dir; s.accesses[dir] == nil {
		s.accesses[dir] = run.Figures.BlockAccessesPerGetByType
	}
}

// ensureLoaded makes the database of a setting inside the sweep folder.
func (s *sweeper) ensureLoaded(ctx context.Context, setting Setting, point bench.Spec, tell bench.Tell) (string, error) {
	load := *s.plan.Load
	load.Engine, load.Profile = point.Engine, point.Profile
	load.Keys = cmp.Or(setting.Keys, load.Keys)
	load.Dir = filepath.Join(s.out, "databases", databaseName(load))
	load.Out = filepath.Join(load.Dir, engine.OwnFolder, "load")
	switch m, err := keyspace.ReadManifest(load.Dir); {
	case err == nil && m.Loaded == m.Keys && m.Settled:
		return load.Dir, nil
	case err == nil:
		load.Resume = true
	case !errors.Is(err, keyspace.ErrNoManifest):
		return "", err
	}
	run, err := s.measure(ctx, &load, tell)
	if err != nil {
		return "", err
	}
	if run.Status != result.OK {
		return "", fmt.Errorf("load %s: %s", load.Dir, run.Error)
	}
	return load.Dir, nil
}

// databaseName tells the databases of a sweep apart: engines and profiles lay out
// files differently.
func databaseName(load bench.Spec) string {
	parts := []string{load.Engine, load.Profile, fmt.Sprint(load.Keys)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
}

// inspect learns the size and shape of the database that spec reads.
func (s *sweeper) inspect(ctx context.Context, spec bench.Spec, tell bench.Tell) (*result.Run, error) {
	if known := s.databases[spec.Dir]; known != nil {
		return known, nil
	}
	spec.Verb, spec.ReadOnly, spec.PageCache = bench.Inspect, true, bench.AsIs
	spec.Out = filepath.Join(s.out, "inspect", fmt.Sprintf("%03d", len(s.databases)))
	spec.CacheBytes, spec.CacheAsked, spec.MemoryBytes, spec.MemoryAsked = 0, "", 0, ""
	run, err := s.measure(ctx, &spec, tell)
	if err != nil {
		return nil, err
	}
	if run.Status == result.Interrupted {
		return nil, context.Cause(ctx)
	}
	if run.Status != result.OK {
		return nil, errors.New(run.Error)
	}
	s.databases[spec.Dir] = run
	return run, nil
}

// conclude brings sweep.json up to what is measured.
func (s *sweeper) conclude(ctx context.Context, runErr error) {
	s.sweep.Points = s.sweep.Points[:0]
	s.sweep.Warnings = nil
	failed := 0
	for _, setting := range s.settings {
		point, warnings, ok := s.point(setting)
		if !ok {
			continue
		}
		if point.Status == result.Failed {
			failed++
		}
		s.sweep.Points = append(s.sweep.Points, point)
		for _, w := range warnings {
			// One of a kind: points differ in the figures of a warning only.
			if !slices.ContainsFunc(s.sweep.Warnings, func(known engine.Warning) bool { return known.Code == w.Code }) {
				s.sweep.Warnings = append(s.sweep.Warnings, w)
			}
		}
	}
	s.sweep.Status, s.sweep.Error = result.OK, ""
	switch {
	case runErr != nil && ctx.Err() != nil:
		s.sweep.Status = result.Interrupted
		s.sweep.Error = fmt.Sprintf("interrupted with %d of %d points measured: statelab sweep --resume --out %s goes on", len(s.sweep.Points), len(s.settings), s.out)
	case runErr != nil:
		s.sweep.Status, s.sweep.Error = result.Failed, runErr.Error()
	case failed > 0:
		s.sweep.Status, s.sweep.Error = result.Failed, fmt.Sprintf("%d of %d points failed", failed, len(s.settings))
	}
	s.sweep.Answers = result.Answers(s.sweep.Points, limits...)
}

// point is the outcome of a setting: the repeat with the median of block reads
// per Get (of Gets a second where those are unknown or the same), and the spread of all.
func (s *sweeper) point(setting Setting) (p result.Point, warnings []engine.Warning, ok bool) {
	var runs []*result.Run
	p = result.Point{Axes: setting.Values, Status: result.OK, Spread: map[string]result.Range{}}
	for repeat := range s.plan.Repeats {
		step := Step{setting.Number, repeat}
		run := s.runs[step]
		if run == nil {
			continue
		}
		p.Runs = append(p.Runs, s.folder(step))
		warnings = append(warnings, run.Warnings...)
		if run.Status != result.OK {
			p.Status, p.Error = run.Status, run.Error
			continue
		}
		runs = append(runs, run)
		s.describe(run)
	}
	if len(p.Runs) == 0 {
		return p, nil, false
	}
	p.Run = p.Runs[0]
	if len(runs) == 0 {
		return p, warnings, true
	}
	by := rank
	if reads := span(runs, rank); reads.High <= alike*reads.Low {
		by = func(run *result.Run) float64 { return run.Figures.GetsPerSecond }
	}
	slices.SortStableFunc(runs, func(a, b *result.Run) int { return cmp.Compare(by(a), by(b)) })
	median := runs[len(runs)/2]
	p.Figures = median.Figures
	p.CacheBytes, p.WarmupGets = median.Cache.Effective, median.Workload.WarmupGets
	if median.Database.Bytes > 0 {
		p.CachePercent = 100 * float64(p.CacheBytes) / float64(median.Database.Bytes)
	}
	if median.Inflection != nil {
		p.Phase = lsm.PhaseOf(p.CacheBytes, *median.Inflection)
	}
	if len(runs) > 1 {
		p.Spread["block_reads_per_get"] = span(runs, func(r *result.Run) float64 { return value(r.Figures.BlockReadsPerGet) })
		p.Spread["gets_per_second"] = span(runs, func(r *result.Run) float64 { return r.Figures.GetsPerSecond })
		p.Spread["device_reads_per_get"] = span(runs, func(r *result.Run) float64 { return value(r.Figures.DeviceReadsPerGet) })
	}
	return p, warnings, true
}

// describe takes host and database from the first run that knows them.
func (s *sweeper) describe(run *result.Run) {
	if s.sweep.Host.Kernel == "" {
		s.sweep.Host, s.sweep.Database, s.sweep.Inflection = run.Host, run.Database, run.Inflection
	}
}

// alike are repeats that read the same to 1 %: their speed says which of them is
// the one in the middle.
const alike = 1.01

func rank(run *result.Run) float64 {
	if reads := run.Figures.BlockReadsPerGet; reads != nil {
		return *reads
	}
	return run.Figures.GetsPerSecond
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func span(runs []*result.Run, figure func(*result.Run) float64) result.Range {
	r := result.Range{Low: figure(runs[0]), High: figure(runs[0])}
	for _, run := range runs {
		v := figure(run)
		r.Low, r.High = min(r.Low, v), max(r.High, v)
	}
	return r
}

func (s *sweeper) folder(step Step) string {
	name := fmt.Sprintf("%03d", step.Setting)
	if s.plan.Repeats > 1 {
		name = fmt.Sprintf("%03d-%d", step.Setting, step.Repeat)
	}
	return filepath.Join(result.PointsDir, name)
}

// label names a step for progress lines: the axes that really vary.
func (s *sweeper) label(step Step) string {
	var parts []string
	for _, axis := range s.plan.Axes {
		if len(axis.Values) > 1 {
			parts = append(parts, axis.Name+" "+s.settings[step.Setting].Values[axis.Name])
		}
	}
	if s.plan.Repeats > 1 {
		parts = append(parts, fmt.Sprintf("repeat %d", step.Repeat+1))
	}
	return strings.Join(parts, ", ")
}
