package main

import (
	"cmp"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// addPredicted draws the curve that the database's own filters and indexes imply
// beside the measured one. Where that cannot be worked out the sweep is as good
// without it; why is a warning.
func (a *app) addPredicted(s sweep.Sweep, done *result.Sweep, p *console.Progress) {
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
	}
	one := s.Settings()[0].Read
	w := one.Workload
	return subject.IsPebble(one.Engine) && (w == workload.ReadRandom || w == workload.ReadMissing) && one.Gets*2 < curve.MostGets
}

func (a *app) predictPoints(s sweep.Sweep, done *result.Sweep, points []result.Point, p *console.Progress) ([]result.PredictedPoint, error) {
	p.Tell("", result.Event{Phase: "predicting"})
	m := new(mistakes)
	spec := s.Settings()[0].Read
	t := a.find(sweep.Wanted{Dir: done.Database.Dir, Engine: spec.Engine, Profile: spec.Profile, Existing: true, ReadOnly: true}, m)
	if err := m.err(); err != nil {
		return nil, err
	}
	spec.Dir, spec.Foreign = done.Database.Dir, t.Foreign
	var sizes []int64
	var warmups []uint64
	for _, point := range points {
		sizes, warmups = append(sizes, point.CacheBytes), append(warmups, point.WarmupGets)
	}
	return curve.Predict(a.ctx, gets(t, spec), done.Host.Cores, pebbledb.OpenReserveBytes, sizes, warmups)
}
