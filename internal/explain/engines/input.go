// Package engines explains runs and sweeps of key-value engines: what a Get costs, by
// cache size, engine, threads or rate.
package engines

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Input is what a report is made from.
type Input struct {
	Sweeps []*Sweep
}

// points are those of all sweeps.
func (in Input) points() []Point {
	return doc.Flat(in.Sweeps, func(s *Sweep) []Point { return s.Points })
}

// JSON is what the first folder says, for a program: a sweep with the figures of its points, or a
// run.
func (in Input) JSON() any {
	first := in.Sweeps[0]
	if first.Schema == "" && len(first.Points) == 1 && first.Points[0].Run != nil {
		return first.Points[0].Run
	}

	return first.Sweep
}

// Sweep is a sweep folder, or a run folder seen as a sweep of one point.
type Sweep struct {
	result.Sweep
	Dir    string
	Points []Point
	Disk   *result.Disk // nil: the folder holds no limit of its disk

	varied  []string // see varying: worked out once, because every point asks
	differs []string // engine options in which the sweep differs from others in the report
}

// Point is a point with the run whose figures it shows.
type Point struct {
	result.Point
	Run     *result.Run // nil: it could not be read, see Problem
	Problem string      // why part of the folder could not be read

	speeds            difference.Sample // Gets a second of every repeat
	Ticks             []result.Tick
	Service, Response *hdrhistogram.Histogram // nil: none kept
}

// maxSampled is of how many folders a report tells answers, settings and what the figures
// rest on, and keeps series and histograms for charts; maxHeld is of how many points of a
// sweep it keeps them. Those of thousands would fill the memory, curves beyond maxDetailed
// have no charts of their own, and a chart draws a few points of many.
const (
	maxSampled = 10 * maxDetailed
	maxHeld    = 500
)

// Read reads sweep or run folders. Points whose folder cannot be read
// stay, with the reason.
func Read(dirs ...string) (Input, error) {
	var in Input
	if len(dirs) == 0 {
		return in, errors.New("no folder given: name a sweep or a run folder")
	}

	for _, dir := range dirs {
		s, err := readFolder(dir)
		if err != nil {
			return Input{}, err
		}

		if len(in.Sweeps) >= maxSampled {
			for i := range s.Points {
				s.Points[i].forget()
			}
		}

		in.Sweeps = append(in.Sweeps, s)
	}

	in.tellApart()
	for _, s := range in.Sweeps {
		s.varied = s.varying()
	}

	return in, in.nothing()
}

// Damaged names what could not be read of the folders; the rest is reported.
func (in Input) Damaged() []string {
	return doc.Flat(in.Sweeps, func(s *Sweep) []string {
		return doc.Each(s.damages(), func(w doc.Warning) string { return s.Dir + ": " + w.Text })
	})
}

// nothing is the error that no point of any folder could be read; nil if there is one
// that failed, or that has figures.
func (in Input) nothing() error {
	var problem string
	for _, p := range in.points() {
		if problem = p.Problem; p.Run != nil || problem == "" || p.Status != result.OK ||
			p.Figures.Gets > 0 || p.Figures.Puts > 0 {
			return nil
		}
	}

	if problem == "" {
		return nil
	}

	return errors.New("nothing could be drawn: " + problem)
}

func readFolder(dir string) (*Sweep, error) {
	sweep, err := result.ReadSweep(dir)
	if err == nil {
		s := &Sweep{Sweep: *sweep, Dir: dir}
		for i, of := range sweep.Points {
			p := readPoint(dir, of)
			if i%(len(sweep.Points)/maxHeld+1) > 0 {
				p.forget()
			}
			s.Points = append(s.Points, p)
		}

		if s.Disk, err = result.ReadDisk(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Warnings = append(s.Warnings, engine.Warning{
				Code: "disk",
				Text: "the disk's limit could not be read: " + err.Error(),
			})
		}

		made := doc.Each(s.Points, func(p Point) result.DiskPoint {
			return p.DeviceReads(p.threads())
		})
		told := func(w engine.Warning) bool { return w.Code == result.DiskContradicted }
		if s.Disk.FindContradiction(made...) != "" && !slices.ContainsFunc(s.Warnings, told) {
			s.Warnings = append(slices.Clip(s.Warnings), s.Disk.Warning())
		}

		return s, nil
	}

	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}

	run, err := result.ReadRun(dir)
	var none *result.NoRunError
	if errors.As(err, &none) && !none.Begun() {
		return nil, fmt.Errorf("%s is not a folder of results: it has neither %s nor %s%s", dir,
			result.SweepFile, result.RunFile, nearby(dir))
	}

	if err != nil {
		return nil, err
	}

	return fromRun(dir, run), nil
}

// fromRun sees a run as a sweep without axes.
func fromRun(dir string, run *result.Run) *Sweep {
	database := run.Database
	if run.After != nil {
		database = *run.After
	}

	p := Point{
		Run: run,
		Point: result.Point{
			Axes:        map[string]string{},
			Run:         ".",
			Status:      run.Status,
			Error:       run.Error,
			FailureInfo: run.FailureInfo,
		},
	}

	p.Show(run)
	p.Figures, p.CachePercent = run.Figures, doc.PercentOf(run.Cache.Effective, database.Bytes)
	p.readSamples(dir)
	return &Sweep{Dir: dir, Points: []Point{p}, Sweep: result.Sweep{
		Status:      run.Status,
		Error:       run.Error,
		FailureInfo: run.FailureInfo,
		Name:        run.Engine.Name,
		Started:     run.Started,
		Command:     run.Command,
		Host:        run.Host,
		Database:    database,
		Inflection:  run.Inflection,
		Warnings:    []engine.Warning{},
	}}
}

// readPoint adds to a point what its run only summarises.
func readPoint(dir string, p result.Point) Point {
	point := Point{Point: p, Run: p.Of}
	point.speeds, point.Problem = speedsOf(dir, p)
	if p.Of != nil {
		point.readSamples(filepath.Join(dir, filepath.FromSlash(p.Run)))
	}

	if p.Problem != nil {
		point.Problem = within(dir, p.Problem)
		if errors.Is(p.Problem, os.ErrNotExist) {
			point.Problem += ". To measure it again: statelab run --resume --out " + dir
		}
	}

	return point
}

// within is an error about a file of a folder, which is named from there.
func within(dir string, err error) string {
	return strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
}

// speedsOf are the Gets a second of every repeat; none if one of them cannot be read: a
// part of them ranks nothing. A damaged one is a problem; one that is not there is not.
func speedsOf(dir string, p result.Point) (speeds difference.Sample, problem string) {
	var none difference.Sample
	if len(p.Runs) < 2 || p.Status != result.OK {
		return none, ""
	}

	for _, rel := range p.Runs {
		if !filepath.IsLocal(filepath.FromSlash(rel)) {
			return none, ""
		}

		run, err := result.ReadRun(filepath.Join(dir, filepath.FromSlash(rel)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return none, within(dir, err)
		}

		if err != nil || !(run.Figures.OrZero(figure.GetsPerSecond) > 0) {
			return none, ""
		}

		speeds.Values = append(speeds.Values, run.Figures.OrZero(figure.GetsPerSecond))
		speeds.Loads = append(speeds.Loads, run.Load())
	}

	return speeds, ""
}

// readSamples reads what run.json only summarises. A damaged file costs its
// chart, not the report.
func (p *Point) readSamples(folder string) {
	var err error
	if p.Ticks, err = result.ReadSeries(folder); err != nil {
		p.Problem = err.Error()
	}

	f, err := os.Open(filepath.Join(folder, result.LatencyFile))
	if errors.Is(err, os.ErrNotExist) {
		return
	}

	var found map[string]*hdrhistogram.Histogram
	if err == nil {
		defer f.Close()
		found, err = ReadLatencies(f)
	}

	p.Service, p.Response = found[""], found["response"]
	if l := p.Figures.ServiceNanos; err == nil && l != nil && l.N > 0 && p.Service == nil {
		err = errors.New(result.LatencyFile + " is damaged: it holds no service times")
	}

	if err != nil {
		p.Problem = err.Error()
	}
}

// forget drops the samples.
func (p *Point) forget() { p.Ticks, p.Service, p.Response = nil, nil, nil }

// maxLatencyBytes bounds a latency.hlog: a histogram line has some kB.
const maxLatencyBytes = 16 << 20

// ReadLatencies merges the intervals of a latency.hlog by their tag: none for service times,
// "response" for response times, others of other subjects.
func ReadLatencies(r io.Reader) (map[string]*hdrhistogram.Histogram, error) {
	found := map[string]*hdrhistogram.Histogram{}
	log := hdrhistogram.NewHistogramLogReader(io.LimitReader(r, maxLatencyBytes))
	for {
		h, err := log.NextIntervalHistogram()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s is damaged: %w", result.LatencyFile, err)
		case h == nil:
			return found, nil
		case found[h.Tag()] == nil:
			found[h.Tag()] = h
		default:
			found[h.Tag()].Merge(h)
		}
	}
}

// nearby names a folder of results next to one that is none: around it, or inside it.
func nearby(dir string) string {
	inside, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, folder := range append([]string{filepath.Dir(filepath.Clean(dir))}, inside...) {
		for _, name := range []string{result.SweepFile, result.RunFile} {
			if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
				return "; " + folder + " has " + name
			}
		}
	}

	return ""
}
