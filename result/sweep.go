package result

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
)

// Sweep is sweep.json: an index of runs, and what several of them say together.
type Sweep struct {
	Schema string `json:"schema"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	Why
	Source     string           `json:"source"` // "measured", or where an import came from
	Name       string           `json:"name"`   // a short label for charts
	Started    time.Time        `json:"started"`
	Command    []string         `json:"command"`
	Host       Host             `json:"host"`
	Database   Database         `json:"database"`
	Axes       []Axis           `json:"axes"`
	Points     []Point          `json:"points"`
	Inflection *Inflection      `json:"inflection,omitempty"`
	Predicted  []PredictedPoint `json:"predicted,omitempty"`
	// Smallest measured cache with fewer block reads per Get than the limit, interpolated never.
	Answers  []Answer         `json:"answers,omitempty"`
	Warnings []engine.Warning `json:"warnings"`
	// PhaseSeconds is where the time went: the phases of all runs added up, "start" for
	// starting, ending and inspecting, "predict" for the predicted curve. What an earlier
	// invocation measured has its phases alone.
	PhaseSeconds map[string]float64 `json:"phase_seconds,omitempty"`
}

// Axis is a setting that a sweep varies.
type Axis struct {
	Name   string   `json:"name"` // cache, threads, handles, profile, engine, ...
	Values []string `json:"values"`
}

// Point is one setting of all axes: one run or several repeats. sweep.json holds what no
// run knows; all else is of the run that stands for the point, and is read from there.
type Point struct {
	Axes   map[string]string `json:"axes"`
	Run    string            `json:"run"` // folder of the run that stands for the point, relative to the sweep: see OfPoint
	Runs   []string          `json:"runs"`
	Status string            `json:"status"`
	Error  string            `json:"error,omitempty"`
	Why
	Spread map[string]Range `json:"spread,omitempty"` // over repeats, by figure name

	// Of Run. Versions before 0.2 stored them in sweep.json as well.
	CacheBytes   int64   `json:"cache_bytes,omitempty"`       // effective
	BlockBytes   int64   `json:"cache_block_bytes,omitempty"` // of it, that blocks have: Cache.ForBlocks
	CachePercent float64 `json:"cache_percent_of_db,omitempty"`
	Regime       int     `json:"regime,omitempty"` // of BlockBytes
	WarmupGets   uint64  `json:"warmup_gets,omitempty"`
	Figures      Figures `json:"figures,omitzero"`

	Of      *Run  `json:"-"` // Run, as ReadSweep found it; nil: Problem
	Problem error `json:"-"` // why it could not be read, or does not have the figures that an older sweep.json shows
}

// Show makes run what stands for the point. Of one that is not ok only the cache is shown,
// so that reports name the point.
func (p *Point) Show(run *Run) {
	p.CacheBytes = cmp.Or(run.Cache.Effective, p.CacheBytes)
	if run.Database.Bytes > 0 {
		p.CachePercent = 100 * float64(p.CacheBytes) / float64(run.Database.Bytes)
	}
	p.showRegime(run)
	if run.Status == OK {
		p.Figures, p.WarmupGets = run.Figures, run.Workload.WarmupGets
	}
}

func (p *Point) showRegime(run *Run) {
	if run.Verb == "read" {
		p.BlockBytes = run.Cache.ForBlocks(run.Figures.CacheReservedBytes)
	}
	if run.Inflection != nil {
		p.Regime = run.Inflection.Regime
	}
}

// UnmarshalJSON reads a point, also of versions that called the regime phase.
func (p *Point) UnmarshalJSON(text []byte) error {
	type plain Point
	old := struct {
		*plain
		Phase int `json:"phase"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(text, &old); err != nil {
		return err
	}
	p.Regime = cmp.Or(p.Regime, old.Phase)
	return nil
}

// index is the part of the point that sweep.json holds.
func (p Point) index() Point {
	return Point{Axes: p.Axes, Run: p.Run, Runs: p.Runs, Status: p.Status, Error: p.Error, Why: p.Why, Spread: p.Spread}
}

// Read reads the run that stands for the point from below the folder of its sweep.
func (p *Point) Read(dir string) {
	if p.Figures.IsZero() {
		if p.Of, p.Problem = readBelow(dir, p.Run); p.Problem == nil {
			p.Show(p.Of)
		}
		return
	}
	// Figures are here in versions before 0.2, and 0.1.0 named the first of several repeats
	// whichever they were of.
	candidates := append([]string{p.Run}, p.Runs...)
	for i, folder := range candidates {
		if folder == "" || slices.Contains(candidates[:i], folder) {
			continue
		}
		run, err := readBelow(dir, folder)
		if err != nil {
			p.Problem = err
			continue
		}
		if p.Of == nil {
			p.Of, p.Run = run, folder // for its settings, if none has the figures
		}
		if f, g := run.Figures, p.Figures; f.Seconds == g.Seconds && f.GetsPerSecond == g.GetsPerSecond && f.PutsPerSecond == g.PutsPerSecond {
			p.Of, p.Run, p.Problem = run, folder, nil
			p.showRegime(run)
			return
		}
	}
	if p.Problem == nil && p.Of != nil && p.Status == OK {
		p.Problem = errors.New("none of its repeats has the figures that the sweep shows")
	}
}

// SustainedShare is the share of an arrival rate that must be achieved for the rate to count as
// sustained.
const SustainedShare = 0.98

// Range is the least and the greatest of a figure over repeats.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Answer is a question of the study, answered from the measured points.
type Answer struct {
	Question         string  `json:"question"` // such as "block_reads_per_get < 1.1"
	Limit            float64 `json:"limit"`
	CacheBytes       int64   `json:"cache_bytes,omitempty"` // 0: no measured point
	CachePercent     float64 `json:"cache_percent_of_db,omitempty"`
	BlockReadsPerGet float64 `json:"block_reads_per_get,omitempty"`
	// AlsoTried is the next smaller cache measured, which did not reach it.
	NotAtCacheBytes int64 `json:"not_at_cache_bytes,omitempty"`
}

// PredictedPoint is a point of a predicted curve.
type PredictedPoint struct {
	CacheBytes       int64              `json:"cache_bytes"`
	BlockBytes       int64              `json:"cache_block_bytes,omitempty"` // of it, that memtables leave for blocks
	BlockReadsPerGet float64            `json:"block_reads_per_get"`
	Low              float64            `json:"low"`
	High             float64            `json:"high"`
	HitRate          map[string]float64 `json:"hit_rate,omitempty"`
	SteadyState      float64            `json:"steady_state_block_reads_per_get"`
}

// WriteSweep writes sweep.json into dir, whole or not at all. Figures are in the runs.
func WriteSweep(dir string, s *Sweep) error {
	return writeIndex(filepath.Join(dir, SweepFile), s, &s.Points, Point.index, &s.Schema, SweepSchema, &s.Warnings)
}

// ReadSweep reads dir/sweep.json and of every point the run that stands for it.
func ReadSweep(dir string) (*Sweep, error) {
	s, err := ReadIndex(dir)
	if err != nil {
		return nil, err
	}
	for i := range s.Points {
		s.Points[i].Read(dir)
	}
	return s, nil
}

// ReadIndex reads dir/sweep.json alone.
func ReadIndex(dir string) (*Sweep, error) {
	return output.ReadJSON(filepath.Join(dir, SweepFile), SweepSchema, func(v *Sweep) string { return v.Schema })
}

// Answers tells, for each limit, the smallest measured cache with fewer block
// reads per Get. Only measured points count: nothing is interpolated. All
// points must share their other axes; failed ones are passed over.
func Answers(points []Point, limits ...float64) []Answer {
	measured := slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return p.Status != OK || p.Figures.BlockReadsPerGet == nil || p.CacheBytes <= 0
	})
	slices.SortStableFunc(measured, func(a, b Point) int { return cmp.Compare(a.CacheBytes, b.CacheBytes) })
	answers := make([]Answer, 0, len(limits))
	for _, limit := range limits {
		a := Answer{Question: fmt.Sprintf("block_reads_per_get < %g", limit), Limit: limit}
		for _, p := range measured {
			if *p.Figures.BlockReadsPerGet < limit {
				a.CacheBytes, a.CachePercent, a.BlockReadsPerGet = p.CacheBytes, p.CachePercent, *p.Figures.BlockReadsPerGet
				break
			}
			a.NotAtCacheBytes = p.CacheBytes
		}
		answers = append(answers, a)
	}
	return answers
}
