package curve

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Taken is what memtables take of a cache; nil is as in an open database.
type Taken struct{ bytes *int64 }

// TakenKind reads auto or a size.
var TakenKind = setting.Kind[Taken]{Name: "size", Parse: func(text string) (t Taken, err error) {
	if text == "auto" {
		return t, nil
	}
	bytes, err := unit.ParseBytes(text)
	if err != nil {
		err = fmt.Errorf("%w, or auto", err)
	}
	return Taken{&bytes}, err
}}

// Of is what memtables take of the cache of an engine; it is a Reserve.
func (t Taken) Of(engine, profile string, cacheBytes int64, readOnly bool) (int64, error) {
	if t.bytes == nil {
		return pebbledb.OpenReserveBytes(engine, profile, cacheBytes, readOnly)
	}
	return *t.bytes, nil
}

// Pipe as the name of a trace is standard input or output.
const Pipe = "-"

// Load reads a trace, or of a shift above 0 one of 2^shift blocks of it.
func Load(path string, shift int) (t *cachesim.Trace, header trace.Header, err error) {
	file := os.Stdin
	if path != Pipe {
		if file, err = os.Open(path); err != nil {
			return nil, header, err
		}
		defer file.Close() // it was only read
	}
	if shift > 0 {
		t, header, err = trace.LoadSample(file, shift)
	} else {
		t, header, err = trace.Load(file)
	}
	if err != nil {
		return nil, header, fmt.Errorf("%s: %w", path, err)
	}
	return t, header, nil
}

// Policies replays a trace against caches of several policies, none for that of the traced
// engine, at all sizes.
func Policies(ctx context.Context, t *cachesim.Trace, header trace.Header, setup cachesim.Setup, policies []cachesim.Policy, sizes []int64,
	reserve Reserve, tell func(policy string, e result.Event)) (out enginereport.Simulation, err error) {
	out = enginereport.Simulation{Schema: enginereport.SimulationSchema, Trace: header}
	setup = Setup(header, setup.Cores)
	if len(policies) == 0 {
		policies = []cachesim.Policy{setup.Policy}
	}
	for i, policy := range policies {
		tell(string(policy), result.Event{Phase: "simulating", Done: uint64(i), Total: uint64(len(policies)), Unit: "policies"})
		setup.Policy = policy
		points, err := Simulate(ctx, t, setup, sizes, func(cacheBytes int64) (int64, error) {
			return reserve(header.Engine, header.Profile, cacheBytes, header.ReadOnly)
		})
		if err != nil {
			return out, fmt.Errorf("simulate %s: %w", policy, err)
		}
		for _, p := range points {
			s := enginereport.SimulatedPoint{Policy: string(policy), CacheBytes: p.CacheBytes, ReadsPerGet: p.BlockReadsPerGet(), ByType: map[string]float64{},
				HitRate: p.HitRates(), Error: p.ReadsPerGetError}
			for _, kind := range engine.BlockTypes() {
				if p.Accesses[kind] > 0 {
					s.ByType[kind.String()] = float64(p.Reads[kind]) / float64(p.Gets)
				}
			}
			out.Gets, out.Points = p.Gets, append(out.Points, s)
		}
	}
	return out, nil
}

// Predictable reports whether the curve of a sweep can be worked out: the cache alone varies, of an
// engine whose Gets are resolved, the keys are known here, and nothing is written.
func Predictable(s sweep.Sweep) bool {
	for _, axis := range s.Axes {
		if (axis.Name == sweep.CacheAxis) != (len(axis.Values) > 1) {
			return false
		}
	}
	one := s.Settings()[0].Read
	w := one.Workload
	known := subject.IsPebble(one.Engine) || slices.Contains(subject.Traced(), one.Engine) && !one.Foreign
	return known && (w == workload.ReadRandom || w == workload.ReadMissing) && one.Gets*2 < MostGets
}

// Beside adds the curve that the database's own filters and indexes imply to a measured sweep. open
// finds the database. Where the curve cannot be worked out the sweep is as good without it; why is
// a warning.
func Beside(ctx context.Context, s sweep.Sweep, done *result.Sweep, open func(sweep.Wanted) (sweep.Target, engine.Engine, error)) {
	points := slices.DeleteFunc(slices.Clone(done.Points), func(p result.Point) bool { return p.Status != result.OK })
	if !Predictable(s) || len(points) == 0 {
		return
	}
	spec := s.Settings()[0].Read
	t, linked, err := open(sweep.Wanted{Dir: done.Database.Dir, Engine: spec.Engine, Profile: spec.Profile, Existing: true, ReadOnly: true})
	if err == nil {
		spec.Dir, spec.Foreign = done.Database.Dir, t.Foreign
		var sizes []int64
		var warmups []uint64
		for _, point := range points {
			sizes, warmups = append(sizes, point.CacheBytes), append(warmups, point.WarmupGets)
		}
		o := Of{Engine: linked, Version: t.Engine.Info().Version, Spec: spec}
		done.Predicted, err = Predict(ctx, o, done.Host.Cores, pebbledb.OpenReserveBytes, sizes, warmups)
	}
	if err != nil {
		done.Predicted, done.Warnings = nil, append(done.Warnings, engine.Warning{Code: "not_predicted", Text: "no predicted curve: " + err.Error()})
		return
	}
	slices.SortFunc(done.Predicted, func(a, b result.PredictedPoint) int { return cmp.Compare(a.CacheBytes, b.CacheBytes) })
}
