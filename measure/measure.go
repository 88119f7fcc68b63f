// Package measure measures a key-value engine of your own inside your own Go program, such as a
// test or a benchmark: how many blocks a Get reads, of which type, and how long it takes, beside
// the engines of statelab (packages engines/pebble2, engines/goleveldb and so on).
//
//	import (
//		"github.com/statelab/statelab/engines/pebble2" // go get github.com/statelab/statelab
//		"github.com/statelab/statelab/measure"
//		"github.com/statelab/statelab/result/figure"
//	)
//
//	run, err := measure.Run(ctx, pebble2.Engine{}, measure.Workload{
//		Keys:       100_000,
//		CacheBytes: 1 << 20,
//		Gets:       50_000,
//	})
//	...
//	reads, known := run.Figures.Number(figure.BlockReadsPerGet) // float64, bool
//	if !known {
//		fmt.Println("no block reads:", run.Figures.Reason(figure.BlockReadsPerGet))
//	}
//	fmt.Println(reads, "block reads per Get, of data", run.Figures.BlockReadsPerGetByType["data"])
//	fmt.Println(run.Figures.ServiceNanos.Mean, run.Figures.ServiceNanos.P99, "ns a Get")
//
// takes about a second and prints nothing else. Sweep measures several caches:
//
//	w := measure.Workload{Keys: 100_000}
//	sweep, err := measure.Sweep(ctx, pebble2.Engine{}, w, 1<<20, 4<<20)
//	...
//	for _, point := range sweep.Points {
//		reads, known := point.Figures.Number(figure.BlockReadsPerGet)
//		fmt.Println(point.CacheBytes, reads, known, point.Of.Figures.ServiceNanos.Mean)
//	}
//
// Your own engine is a value of [engine.Engine]. Package engine/simple makes one of five methods,
// and package engine/enginetest tests any. With Workload.Out, the results are a folder, of which
// the command statelab (go install github.com/statelab/statelab/cmd/statelab@latest) makes a page:
// statelab report FOLDER.
//
// # What is measured
//
// Run loads a database with hashed keys and random values from a seed, opens it, makes Gets that
// are not measured until the engine's cache is warm, and measures Gets of random keys. The timed
// loop, the checks and the figures are those of the command statelab: only the engine's call is
// timed, each answer is compared with what was written, and a wrong one fails the run. The same
// database, seed and number of threads give the same Gets here and there, so block reads are equal,
// exactly so with one thread and an engine that is deterministic.
//
// The result is a [result.Run]. Package result/figure has each figure with its unit and definition;
// run.Figures.Numbers has those of this run by key, and figure.ByKey has what a key stands for.
// Benchmarks report figures by b.ReportMetric(number, f.Bench); Workload.Gets does not follow from
// b.N: measure once, and report.
// Block reads are there if the engine counts them ([engine.CanReadBlocks]), accesses and hit rates
// if it can show them ([engine.CanTraceAccesses]).
//
// # What a shared process cannot measure
//
// The kernel counts CPU time, page faults, context switches, read calls, bytes that reached a
// device and memory for a whole process, and other goroutines of your program add to them. Figures
// that follow from these counters are therefore unavailable, and the run has the reason
// (run.Figures.Reason of a figure; run.Reasons() has all that could not be told, and why). Among
// them are the block reads of engines that read through mmap ([engine.UsesPageCache]). There is no
// memory budget, since the kernel limits whole processes. Times are measured, but other goroutines
// and the garbage collector of your program may lengthen them. A panic of the engine ends your
// program.
//
// The command statelab measures each point in a process of its own, and has all figures. To add
// your engine to it, see docs/native.md of this repository.
//
// Measurements of one process wait for each other. While one runs, GOMAXPROCS is at least its
// number of threads.
package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// Workload is a database and the Gets to measure on it. The zero value of a field stands for its
// default.
type Workload struct {
	// Dir is the folder of the database. If it is new or empty, the database is loaded into it
	// first; a database that Run, Sweep or statelab load has loaded there with this engine is read
	// as it is. "": a temporary database in os.TempDir, which is removed at the end.
	Dir string

	// Keys is the number of keys to load. 0: those of the database in Dir.
	Keys uint64
	// KeyBytes is the size of a key in bytes, from 8 to 1024; default 32.
	KeyBytes int
	// ValueBytes is the size of a value in bytes; default 110.
	ValueBytes int
	// Seed decides keys, values and which keys are asked for; default 1.
	Seed uint64

	// Profile is one of the engine's profiles; default: the one that the database was loaded with,
	// which is the engine's first if the database is new.
	Profile string
	// Options are further options of the engine, by its own names: those of its Info().Options.
	Options map[string]string
	// CacheBytes is the size of the engine's block cache in bytes; default: the profile's. Sweep
	// sets it. An engine without a cache (engine.HasNoCache) ignores it.
	CacheBytes int64
	// Direct makes the engine read with O_DIRECT ([engine.CanDirect]): past the page cache of the
	// operating system, so that each block read reaches the device.
	Direct bool

	// Gets is the number of measured Gets, of all threads together; default 500,000.
	Gets uint64
	// WarmupGets is the number of Gets before them; default: until the cache has stopped filling
	// and the reads per Get have stopped changing.
	WarmupGets uint64
	// Threads is the number of goroutines that make Gets, each one after the other; default 1.
	Threads int
	// MissingShare is the share of Gets that ask for keys that are not there, from 0 to 1.
	MissingShare float64
	// ZipfTheta is the exponent of a Zipf distribution of the keys; 0: all are equally likely.
	ZipfTheta float64

	// Out is a new or empty folder for the results, which statelab report and statelab compare
	// take; "": they are returned only.
	Out string
}

// Run measures one point. The error says everything that is wrong with w, whose code
// ([engine.CodeOf]) is [engine.CodeUsage], or what ended the run early. Such a run is returned and
// written as far as it came; it is nil if it did not begin. When ctx ends, the error is its cause.
func Run(ctx context.Context, e engine.Engine, w Workload) (_ *result.Run, err error) {
	p, err := prepare(ctx, e, w, nil)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, p.end()) }()
	spec := p.spec
	spec.Out = p.out
	run, err := p.Do(ctx, sweep.JobOf(&spec), func(result.Event) {})
	if err == nil {
		err = failureOf(ctx, run.Status, run.Error, run.FailureInfo)
	}

	return run, err
}

// Sweep measures w once with each of several cache sizes, in bytes, on one database. The points of
// the result have their runs (Of). The error is that of the first point that failed, or as of Run;
// points that were measured before are in the result. It is nil if none began.
func Sweep(
	ctx context.Context, e engine.Engine, w Workload, cacheBytes ...int64,
) (_ *result.Sweep, err error) {
	p, err := prepare(ctx, e, w, append([]int64{}, cacheBytes...))
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, p.end()) }()
	name := e.Info().Name
	if w.Out != "" {
		name = filepath.Base(p.out)
	}

	how := plan.Plan{
		Out:     p.out,
		Repeats: 1,
		Seed:    p.spec.Seed,
		Resume:  "measure again, with another Workload.Out",
	}

	work := sweep.New(sweep.Sweep{
		Name: name,
		Base: p.spec,
		Axes: []sweep.Axis{sweep.Caches(&p.caches)},
	}, how, p)
	so, err := plan.Run(ctx, how, work, func(plan.Progress) {})
	done, readErr := result.ReadSweep(p.out)
	if err = errors.Join(err, readErr); err != nil {
		return work.Result, err
	}

	for _, point := range done.Points {
		if point.Status == result.Failed {
			return done, fmt.Errorf("%s: %w", sweep.AxesWords(point.Axes),
				point.Failure(point.Error))
		}
	}

	return done, failureOf(ctx, so.Status, so.Error, so.FailureInfo)
}

// failureOf is the error of what ended with a status.
func failureOf(ctx context.Context, status, text string, why result.FailureInfo) error {
	switch {
	case status == result.OK:
		return nil
	case status == result.Interrupted && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return why.Failure(text)
}

// prepared is a measurement of a database that is loaded.
type prepared struct {
	engine engine.Engine
	spec   bench.Spec // of each point, but for its cache and folder
	caches setting.Value[setting.CacheSize]
	out    string
	undo   []func() error
}

// turn is held by the measurement that runs: each would disturb the times of another one, and
// GOMAXPROCS is of the process.
var turn = make(chan struct{}, 1)

// prepare checks everything, waits for the turn of this measurement and loads the database. caches
// are those of a sweep.
func prepare(
	ctx context.Context, e engine.Engine, w Workload, caches []int64,
) (_ *prepared, err error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case turn <- struct{}{}:
	}

	p := &prepared{engine: e, undo: []func() error{func() error { <-turn; return nil }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.end())
		}
	}()

	if err := context.Cause(ctx); err != nil {
		return nil, err
	}

	load, err := p.check(w, caches)
	if err != nil {
		return nil, err
	}

	if w.Dir == "" || w.Out == "" {
		temporary, err := os.MkdirTemp("", "statelab-measure-")
		if err != nil {
			return nil, err
		}

		p.undo = append(p.undo, func() error { return os.RemoveAll(temporary) })
		p.spec.Dir = cmp.Or(p.spec.Dir, filepath.Join(temporary, "database"))
		p.out = filepath.Join(temporary, "results")
		if err := os.Mkdir(p.out, 0o755); err != nil {
			return nil, err
		}
	}

	if w.Out != "" {
		p.out = output.Absolute(w.Out)
		tidy, err := output.MakeFolder(p.out)
		if err != nil {
			return nil, err
		}
		p.undo = append(p.undo, tidy)
	}

	load.Dir = p.spec.Dir
	return p, sweep.EnsureLoaded(ctx, p, load, func(result.Event) {})
}

// end gives back what the measurement took.
func (p *prepared) end() error {
	var errs []error
	for i := len(p.undo) - 1; i >= 0; i-- {
		errs = append(errs, p.undo[i]())
	}
	return errors.Join(errs...)
}

// Do implements plan.Executor in this process.
func (p *prepared) Do(
	ctx context.Context, job runners.Job, tell result.EventFunc,
) (*result.Run, error) {
	spec := *job.Spec.(*bench.Spec)
	spec.SharedProcess = true
	if err := os.MkdirAll(spec.Out, 0o755); err != nil {
		return nil, err
	}

	run, err := bench.Run(ctx, p.engine, &spec, tell)
	if _, unwritten := result.ReadRun(spec.Out); unwritten != nil {
		return run, errors.Join(err, unwritten)
	}

	return run, nil // which has the error
}
