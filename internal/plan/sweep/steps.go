package sweep

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// LoadStep is what loading a database takes.
func LoadStep(spec *bench.Spec, on estimate.Machine) (estimate.Step, error) {
	values, err := keyspace.NewValues(spec.ValueModel, spec.ValueBytes, spec.Seed)
	if err != nil {
		return estimate.Step{}, err
	}
	return estimate.Load(estimate.LoadSpec{Engine: spec.Engine, Sorted: spec.Workload == workload.FillSorted, Keys: spec.Keys,
		PairBytes: float64(spec.KeyBytes) + values.MeanBytes(), Table32: spec.ValueModel == keyspace.Table32, CacheBytes: spec.CacheBytes}, on), nil
}

// Steps are what each run of s will take, in their order: the first on a database that is to be made
// makes it. withCgo tells of an engine whether it is measured built with cgo; predicts, whether the
// curve is predicted at the end.
func (s Sweep) Steps(how plan.Plan, on estimate.Machine, withCgo func(engine string) bool, predicts bool) (steps []estimate.Step, err error) {
	settings := s.Settings()
	made := map[string]estimate.Step{}
	held, files := host.FilesIn(s.Base.Dir)
	var points []estimate.ReadSpec
	for _, step := range plan.Order(len(settings), how.Repeats, how.Seed) {
		setting := settings[step.Point]
		var load estimate.Step
		first := false
		if s.Base.Dir == "" {
			spec := setting.Made()
			var known bool
			if load, known = made[spec.Dir]; !known {
				if load, err = LoadStep(&spec, on); err != nil {
					return nil, err
				}
				made[spec.Dir], first = load, true
			}
			held = load.TableBytes
		}
		spec := setting.Spec(held)
		point := estimate.ReadSpec{Engine: spec.Engine, Keys: max(setting.Load.Keys, uint64(spec.SampleKeys)), DatabaseBytes: held, Files: files,
			CacheBytes: spec.CacheBytes, MemoryBytes: spec.MemoryBytes, Threads: spec.Threads, Gets: spec.Gets, WarmupGets: spec.WarmupGets,
			WarmupAuto: spec.WarmupAuto, AccessGets: spec.AccessGets, Direct: spec.PageCache == bench.Direct, Cold: spec.PageCache == bench.Cold,
			Rate: spec.Rate, Cgo: withCgo(spec.Engine)}
		points = append(points, point)
		read := estimate.Read(point, on)
		if first {
			load.Kind, load.Name = "load and read", load.Name+", then reading"
			load.Seconds, load.MemoryBytes = load.Seconds+read.Seconds, max(load.MemoryBytes, read.MemoryBytes)
			read = load
		}
		steps = append(steps, read)
	}
	if predicts {
		steps = append(steps, estimate.Curve(points))
	}
	return steps, nil
}

// Unfinished are the steps that --resume has to measure, and the curve after them.
func (s Sweep) Unfinished(steps []estimate.Step, how plan.Plan) (left []estimate.Step) {
	points := New(s, how, nil).Points()
	order := plan.Order(len(points), how.Repeats, how.Seed)
	for n, step := range steps {
		if n < len(order) {
			if run, err := result.ReadRun(filepath.Join(how.Out, how.Folder(points, order[n]))); err == nil && run.Status == result.OK {
				continue
			}
		}
		left = append(left, step)
	}
	return left
}

// LoadDeclared is the load that e declares, or that goes on; what is wrong with it goes to m.
func LoadDeclared(e *experiment.Experiment, resume bool, engines Engines, command []string, m *setting.Mistakes) bench.Spec {
	if !e.DB.Given() {
		m.At("db", "", "name the directory of the new database: %s", m.Name("db", "DIR"))
	}
	s := experiment.Of[*experiment.Loaded](e)
	spec := LoadSpec(e, &s.Made, command)
	spec.Engine, spec.Profile = cmp.Or(s.Engine.String(), subject.DefaultEngine()), s.Profile.V()
	spec.Dir, spec.Resume, spec.Threads, spec.Handles = output.Absolute(e.DB.V()), resume, s.Threads.V(), int(s.Handles.V())
	if cache := s.Cache.V(); s.Cache.Given() {
		spec.CacheAsked, spec.CacheBytes = s.Cache.String(), cache.Bytes
		if cache.Share > 0 {
			m.At("cache", s.Cache.String(), "the size of a database that is being loaded is not known: give a size such as %s", m.Name("cache", "512MiB"))
		}
	}
	if e.DB.Given() {
		if err := output.OutsideDatabases(filepath.Dir(spec.Dir)); err != nil {
			m.At("db", "", "%v", err)
		}
	}
	if len(m.Found) == 0 {
		checkLoadTarget(e, resume, &spec, m)
	}
	engines.UseLibrary(spec.Overrides)
	if found := engines.Find(spec.Engine); found != nil {
		spec.Profile = cmp.Or(spec.Profile, found.Info().Profiles[0].Name)
		CheckOptions(found, spec, m)
	}
	return spec
}

// checkLoadTarget keeps a load from landing on something that is there already,
// and a resume from going on with something else than was begun.
func checkLoadTarget(e *experiment.Experiment, resume bool, spec *bench.Spec, m *setting.Mistakes) {
	dir := e.DB.V()
	manifest, err := keyspace.ReadManifest(spec.Dir)
	switch {
	case err == nil && resume:
		if s := experiment.Of[*experiment.Loaded](e); s.Engine.Given() && spec.Engine != manifest.Engine {
			m.At("engine", spec.Engine, "--resume continues the load of %s with %s: remove %s", dir, manifest.Engine, m.Name("engine", ""))
		}
		if err := dbformat.Check(manifest.Engine, engine.Options{Dir: dir}); err != nil {
			m.Add("--resume: %v", err)
		}
		spec.Engine, spec.Profile, spec.Overrides = manifest.Engine, manifest.Profile, manifest.Overrides
		spec.Keys, spec.Workload = manifest.Keys, manifest.Workload
		return
	case err == nil && manifest.Loaded == manifest.Keys:
		m.At("db", dir, "holds a complete database of %s keys already: read it, or name a new directory", unit.Count(manifest.Keys))
		return
	case err == nil:
		m.At("db", dir, "holds an unfinished load (%s of %s keys): add --resume to continue it", unit.Count(manifest.Loaded), unit.Count(manifest.Keys))
		return
	case !errors.Is(err, keyspace.ErrNoManifest):
		m.At("db", "", "%v", err)
		return
	case resume:
		m.Add("--resume: %s holds no unfinished load", dir)
		return
	}
	if err := dbformat.Check(spec.Engine, engine.Options{Dir: dir, Create: true}); err != nil {
		m.Add("%v", err)
		return
	}
	entries, err := os.ReadDir(spec.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.At("db", "", "%v", err)
	}
	for _, entry := range entries {
		if !engine.MayBeIn(entry.Name()) {
			m.At("db", dir, "the directory is not empty (%s): name a new one", entry.Name())
			return
		}
	}
}
