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
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result/figure"
)

// Sweep is sweep.json: an index of runs, and what several of them say together.
type Sweep struct {
	Schema string `json:"schema"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	FailureInfo
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
	// Simulated are caches of the sizes that were to be simulated and were not measured.
	Simulated []PredictedPoint `json:"simulated,omitempty"`
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
	Axes map[string]string `json:"axes"`
	// folder of the run that stands for the point, relative to the sweep: see RepresentativeRun
	Run    string   `json:"run"`
	Runs   []string `json:"runs"`
	Status string   `json:"status"`
	Error  string   `json:"error,omitempty"`
	FailureInfo
	Spread map[string]Range `json:"spread,omitempty"` // over repeats, by figure name

	// Of Run. Versions before 0.2 stored them in sweep.json as well.
	CacheBytes int64 `json:"cache_bytes,omitempty"` // effective
	// of it, that blocks have: Cache.UsableBytes
	BlockBytes   int64   `json:"cache_block_bytes,omitempty"`
	CachePercent float64 `json:"cache_percent_of_db,omitempty"`
	Regime       int     `json:"regime,omitempty"` // of BlockBytes
	WarmupGets   uint64  `json:"warmup_gets,omitempty"`
	Figures      Figures `json:"figures,omitzero"`

	Of *Run `json:"-"` // Run, as ReadSweep found it; nil: Problem
	// why it could not be read, or does not have the figures that an older sweep.json shows
	Problem error `json:"-"`
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
		p.BlockBytes = run.Cache.UsableBytes(run.Figures.Value(figure.CacheReserved))
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
	return Point{
		Axes:        p.Axes,
		Run:         p.Run,
		Runs:        p.Runs,
		Status:      p.Status,
		Error:       p.Error,
		FailureInfo: p.FailureInfo,
		Spread:      p.Spread,
	}
}

// Read reads the run that stands for the point from below the folder of its sweep.
func (p *Point) Read(dir string) {
	p.readRun(dir)
	if p.Of != nil {
		p.Spread = withoutAbsent(p.Spread, p.Figures.hasKey)
	}
}

func (p *Point) readRun(dir string) {
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

		if run.Figures.asFastAs(p.Figures) {
			p.Of, p.Run, p.Problem = run, folder, nil
			p.Figures.Explain(run.Figures.Absent())
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

// asFastAs tells whether two runs took the same time for as many operations: they are the same one.
func (f Figures) asFastAs(other Figures) bool {
	rates := func(f Figures) [3]float64 {
		return [3]float64{f.Seconds, f.OrZero(figure.GetsPerSecond), f.OrZero(figure.PutsPerSecond)}
	}

	return rates(f) == rates(other)
}

// Range is the least and the greatest of a figure over repeats.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Answer is a question of the study, answered from the measured points.
type Answer struct {
	Question     string  `json:"question"` // block reads per Get < 1.1, with the key of the figure
	Limit        float64 `json:"limit"`
	CacheBytes   int64   `json:"cache_bytes,omitempty"` // 0: no measured point
	CachePercent float64 `json:"cache_percent_of_db,omitempty"`
	// NotAtCacheBytes is the next smaller cache measured, which did not reach it.
	NotAtCacheBytes int64 `json:"not_at_cache_bytes,omitempty"`

	BlockReadsPerGet figure.Value `json:"-"` // absent: no measured point
}

func (a *Answer) members() figure.Members {
	return figure.Members{figure.BlockReadsPerGet: &a.BlockReadsPerGet}
}

// MarshalJSON writes the figures by their keys.
func (a Answer) MarshalJSON() ([]byte, error) {
	type plain Answer

	return a.members().Marshal(plain(a))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Answer) UnmarshalJSON(text []byte) error {
	type plain Answer

	return a.members().Unmarshal(text, (*plain)(a))
}

// PredictedPoint is a point of a predicted curve.
type PredictedPoint struct {
	CacheBytes int64 `json:"cache_bytes"`
	// of it, that memtables leave for blocks
	BlockBytes int64   `json:"cache_block_bytes,omitempty"`
	Low        float64 `json:"low"` // of BlockReadsPerGet
	High       float64 `json:"high"`

	BlockReadsPerGet float64            `json:"-"`
	SteadyState      float64            `json:"-"` // of BlockReadsPerGet
	HitRate          map[string]float64 `json:"-"` // by type of block
}

func (p *PredictedPoint) members() figure.Members {
	reads := figure.BlockReadsPerGet

	return figure.Members{reads: &p.BlockReadsPerGet, reads.SteadyState(): &p.SteadyState,
		figure.HitRate: &p.HitRate}
}

// MarshalJSON writes the figures by their keys.
func (p PredictedPoint) MarshalJSON() ([]byte, error) {
	type plain PredictedPoint

	return p.members().Marshal(plain(p))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *PredictedPoint) UnmarshalJSON(text []byte) error {
	type plain PredictedPoint

	return p.members().Unmarshal(text, (*plain)(p))
}

// WriteSweep writes sweep.json into dir, whole or not at all. Figures are in the runs.
func WriteSweep(dir string, s *Sweep) error {
	return writeIndex(filepath.Join(dir, SweepFile), s, &s.Points, Point.index, &s.Schema,
		schema.Sweep, &s.Warnings)
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
	return output.ReadJSON(filepath.Join(dir, SweepFile), schema.Sweep,
		func(v *Sweep) string { return v.Schema })
}

// Answers tells, for each limit, the smallest measured cache with fewer block
// reads per Get. Only measured points count: nothing is interpolated. All
// points must share their other axes; failed ones are passed over.
func Answers(points []Point, limits ...float64) []Answer {
	measured := slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return p.Status != OK || !p.Figures.Has(figure.BlockReadsPerGet) || p.CacheBytes <= 0
	})
	slices.SortStableFunc(measured, func(a, b Point) int {
		return cmp.Compare(a.CacheBytes, b.CacheBytes)
	})
	answers := make([]Answer, 0, len(limits))
	for _, limit := range limits {
		a := Answer{Question: fmt.Sprintf("%s < %g", figure.BlockReadsPerGet.Key, limit),
			Limit: limit}
		for _, p := range measured {
			reads := p.Figures.Value(figure.BlockReadsPerGet)
			if reads.OrZero() < limit {
				a.CacheBytes, a.CachePercent, a.BlockReadsPerGet = p.CacheBytes, p.CachePercent,
					reads
				break
			}

			a.NotAtCacheBytes = p.CacheBytes
		}

		answers = append(answers, a)
	}

	return answers
}
