package sweep

import (
	"path/filepath"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// LoadStep is what loading a database takes.
func LoadStep(spec *bench.Spec, on estimate.Machine) (estimate.Step, error) {
	values, err := keyspace.NewValues(spec.ValueModel, spec.ValueBytes, spec.Seed)
	if err != nil {
		return estimate.Step{}, err
	}
	return estimate.Load(estimate.LoadSpec{Engine: spec.Engine, Sorted: spec.Workload == workload.FillSorted, Keys: spec.Keys,
		PairBytes: float64(spec.KeyBytes) + values.MeanBytes(), Table32: spec.ValueModel == keyspace.Table32, CacheBytes: spec.CacheBytes,
		Threads: spec.Threads}, on), nil
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
