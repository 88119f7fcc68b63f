package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// addPredicted draws the curve that the database's own filters and indexes imply
// beside the measured one. Where that cannot be worked out the sweep is as good
// without it; why is a warning.
func (a *app) addPredicted(s sweep.Sweep, done *result.Sweep, p *progress) {
	if !predictable(s) {
		return
	}
	points := slices.DeleteFunc(slices.Clone(done.Points), func(p result.Point) bool { return p.Status != result.OK })
	if done.Predicted = nil; len(points) == 0 {
		return
	}
	predicted, err := a.predictPoints(s, done, points, p)
	if err != nil {
		done.Warnings = append(done.Warnings, engine.Warning{Code: "not_predicted", Text: "no predicted curve: " + err.Error()})
		return
	}
	done.Predicted = predicted
	slices.SortFunc(done.Predicted, func(a, b result.PredictedPoint) int { return cmp.Compare(a.CacheBytes, b.CacheBytes) })
}

// predictable: the cache alone varies, on Pebble, and nothing is written.
func predictable(s sweep.Sweep) bool {
	for _, axis := range s.Axes {
		if (axis.Name == sweep.CacheAxis) != (len(axis.Values) > 1) {
			return false
		}
		if name, _, _ := strings.Cut(axis.Values[0], ":"); axis.Name == sweep.EngineAxis && !subject.IsPebble(name) {
			return false
		}
	}
	if !subject.IsPebble(s.Base.Engine) {
		return false
	}
	w := s.Base.Workload
	return (w == workload.ReadRandom || w == workload.ReadMissing) && s.Base.Gets*2 < maxCurveGets
}

func (a *app) predictPoints(s sweep.Sweep, done *result.Sweep, points []result.Point, p *progress) ([]result.PredictedPoint, error) {
	p.tell("", result.Event{Phase: "predicting"})
	spec := s.Base
	for _, axis := range s.Axes {
		setting, err := sweep.SettingOf(axis.Name, axis.Values[0])
		if err != nil {
			return nil, err
		}
		spec.Threads = max(spec.Threads, setting.Threads)
		if setting.Profile != "" {
			spec.Profile = setting.Profile
		}
		if setting.Engine != "" {
			spec.Engine = setting.Engine
		}
	}
	m := new(mistakes)
	f := newFlags(experiment.Sweep)
	f.DB, f.Engine, f.Profile, f.Existing, f.onlyLooks = done.Database.Dir, experiment.List(spec.Engine), experiment.List(spec.Profile), true, true
	t := a.target(f, m)
	if err := m.err(); err != nil {
		return nil, err
	}
	spec.Dir, spec.Foreign = done.Database.Dir, t.foreign
	var sizes []int64
	var warmups []uint64
	for _, point := range points {
		sizes, warmups = append(sizes, point.CacheBytes), append(warmups, point.WarmupGets)
	}
	return a.curvesOf(t, spec, done.Host.Cores, pebbledb.OpenReserveBytes, sizes, warmups)
}
