// Package session is the part of a runner that surrounds a timed loop: the clock,
// phases with counters before and after, the memory budget, warnings, absent
// figures, the series, the latency log and the run folder.
//
// Goals: engines, trees and layouts are measured by one set of rules; whatever
// fails is in run.json with the phase it failed in.
// Non-goals: the timed loop (timed); choosing what to run.
//
// Read in this order: session.go, phase.go.
package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Subject says how to count what is measured. C are its own counters.
type Subject[C any] struct {
	// Now returns the counters; nil where the subject is not open.
	Now func() *C
	// Between is what was counted from one moment to another.
	Between func(before, after C) C
	// Note enters a difference into run.json.
	Note func(C, *result.Phase)
}

// Session surrounds one run.
type Session[C any] struct {
	Result *result.Run
	Clock  *measure.Clock
	Device host.Device // that the database is on
	Tell   result.EventFunc

	out, dir   string
	subject    Subject[C]
	machine    *host.Watch
	series     *os.File // series.jsonl
	phase      string   // "": none
	phaseBegan time.Time
	latencies  []measure.LogEntry
	looks      int64            // times that the counters were read so far
	look       result.ProcessIO // what one of them reads
	own        host.OwnReads    // by which a harness watches the process
	memory     memory

	patience  time.Duration // snapshotPatience; shorter in tests
	unsettled atomic.Int64  // snapshots during which reads of own did not end
}

// Begin starts a session. run is what is known of the run so far, out the run
// folder, and dir where the database is or will be.
func Begin[C any](
	run *result.Run, out, dir string, tell result.EventFunc, subject Subject[C],
) *Session[C] {
	s := &Session[C]{
		Result:   run,
		Clock:    measure.NewClock(),
		Tell:     tell,
		out:      out,
		dir:      dir,
		subject:  subject,
		machine:  host.StartWatch(dir),
		patience: snapshotPatience,
	}

	run.Host = host.Describe(host.Existing(dir))
	run.Host.Clock, run.Host.ClockNanos = s.Clock.Kind(), s.Clock.CostNanos()
	var err error
	if s.Device, err = host.DeviceOf(host.Existing(dir)); err != nil && host.Counts {
		s.Warn(engine.Warning{
			Code:   "no_device",
			Text:   fmt.Sprintf("requests to the device cannot be counted: %v", err),
			Remedy: "put the database on a disk's own filesystem",
		})
	}

	return s
}

// End writes the run folder. err is what ended the run, and fullDisk tells the user
// what to do where that was a full disk.
func (s *Session[C]) End(ctx context.Context, err error, fullDisk string) (*result.Run, error) {
	if s.phase != "" { // a call of the subject never returned
		s.Result.Phases = append(s.Result.Phases, result.Phase{
			Name:    s.phase,
			Seconds: time.Since(s.phaseBegan).Seconds(),
		})
		err = fmt.Errorf("%s: %w", s.phase, err)
	}

	err = errors.Join(err, s.releaseMemory())
	if failed := OnDisk(err, s.dir, fullDisk); failed != nil {
		err = failed
	}

	s.Result.Status, s.Result.Error, s.Result.FailureInfo = status(ctx, err)
	var warnings []engine.Warning
	s.Result.Machine, warnings = s.machine.Stop()
	s.Warn(warnings...)
	s.warnOfUnsettled()
	return s.Result, errors.Join(err, s.store())
}

const interrupted = "interrupted: what was measured until then is kept"

// status is how a run ended. What an interrupt made a subject return is no failure;
// what went wrong besides is told, and a failure that came first stays one.
func status(ctx context.Context, err error) (status, text string, why result.FailureInfo) {
	if err == nil {
		return result.OK, "", why
	}

	others, stopped := besides(ctx, err)
	switch {
	case !stopped:
		return result.Failed, err.Error(), result.NewFailureInfo(failure.From(err))
	case others == nil:
		return result.Interrupted, interrupted, result.FailureInfo{Code: engine.CodeInterrupted}
	}

	return result.Interrupted, fmt.Sprintf("%s (and %v)", interrupted, others),
		result.FailureInfo{Code: engine.CodeInterrupted}
}

// besides are the errors joined in err that no interrupt explains; stopped tells whether
// one explains any.
func besides(ctx context.Context, err error) (others error, stopped bool) {
	if failed, is := err.(*engine.Failure); is {
		if other, explained := besides(ctx, failed.Err); explained {
			return other, true
		}
	}

	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var left []error
		for _, one := range joined.Unwrap() {
			other, explained := besides(ctx, one)
			left, stopped = append(left, other), stopped || explained
		}

		if stopped {
			return errors.Join(left...), true
		}

		return err, false // a wrapping error says more than its parts
	}

	if ctx.Err() != nil &&
		(errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()) ||
			failure.From(err).Code == engine.CodeInterrupted) {
		return nil, true
	}

	return err, false
}

func (s *Session[C]) store() error {
	var errs []error
	if s.series != nil {
		errs = append(errs, s.series.Close())
	}

	if len(s.latencies) > 0 {
		errs = append(errs, s.storeLatencies())
	}

	switch peak, err := host.PeakRSS(); {
	case s.Result.SharedProcess:
		s.MarkUnavailable(s.Uncounted(), figure.PeakMemory)
	case err != nil:
		s.MarkUnavailable(err.Error(), figure.PeakMemory)
	default:
		s.Result.Figures.Record(figure.PeakMemory, float64(peak))
	}

	return errors.Join(append(errs, result.WriteRun(s.out, s.Result))...)
}

// Latency keeps a histogram for latency.hlog.
func (s *Session[C]) Latency(entry measure.LogEntry) { s.latencies = append(s.latencies, entry) }

func (s *Session[C]) storeLatencies() error {
	f, err := os.Create(filepath.Join(s.out, result.LatencyFile))
	if err != nil {
		return err
	}
	return errors.Join(measure.WriteLog(f, s.Result.Started, s.latencies), f.Close())
}

// Warn adds warnings that the run does not have yet.
func (s *Session[C]) Warn(warnings ...engine.Warning) {
	for _, w := range warnings {
		if !slices.Contains(s.Result.Warnings, w) {
			s.Result.Warnings = append(s.Result.Warnings, w)
		}
	}
}

// MarkUnavailable says why figures are not there.
func (s *Session[C]) MarkUnavailable(why string, figures ...figure.Figure) {
	s.Result.Figures.Unavailable(why, figures...)
}

// Uncounted says why the kernel's counters of the process tell nothing about the run; "" where
// they do.
func (s *Session[C]) Uncounted() string {
	switch {
	case s.Result.SharedProcess:
		return "measured inside another program, whose whole process the kernel counts together"
	case !host.Counts:
		return "this operating system does not count what a process reads: Linux does"
	}
	return ""
}

// NotKnown says why facts of the run are not there, which are no figures.
func (s *Session[C]) NotKnown(why string, facts ...string) {
	for _, name := range facts {
		s.Result.Absent[name] = why
	}
}

// maxLeft is the share of a database that may be in the page cache when a run begins cold, and
// fewBytes what may be there of a small one: the kernel and the engine hold some pages at times.
const (
	maxLeft  = 0.01
	fewBytes = 1 << 20
)

// Evict drops the database's pages from the page cache. What stays there is an error: the run would
// measure memory.
func (s *Session[C]) Evict(ctx context.Context) error {
	if memory, err := host.InMemory(s.dir); err == nil && memory {
		return fmt.Errorf("%s is on a filesystem in memory, from which no read is cold: measure a "+
			"copy of it on a disk", s.dir)
	}

	method, err := host.Evict(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("drop the pages of %s from the page cache: %w", s.dir, err)
	}

	resident, total, err := host.Resident(s.dir)
	if err != nil {
		return fmt.Errorf("look at the page cache: %w", err)
	}

	if float64(resident) > max(maxLeft*float64(total), fewBytes) {
		return fmt.Errorf("%.1f%% of %s is still in the page cache after %s, so the run would "+
			"not be cold: end the programs that use these files, or measure a copy of them",
			100*float64(resident)/float64(total), s.dir, method)
	}

	return nil
}

// Share is part i of total operations, divided among so many workers.
func Share(total uint64, i, workers int) uint64 {
	share := total / uint64(workers)
	if uint64(i) < total%uint64(workers) {
		share++
	}
	return share
}

// overheadRounds are tries of which the fastest is the harness's own cost.
const overheadRounds = 5

// Overhead is what a loop costs without a subject, in nanoseconds an operation: work
// runs the loop for ops operations. It is NaN where the loop fails.
func Overhead(clock *measure.Clock, ops uint64, work func(ops uint64) error) float64 {
	best := math.Inf(1)
	for range overheadRounds {
		start := clock.Ticks()
		if err := work(ops / overheadRounds); err != nil {
			return math.NaN()
		}
		best = min(best, float64(clock.Nanos(clock.Ticks()-start))/float64(ops/overheadRounds))
	}

	return best
}

// OnDisk is what err means of something that writes below dir, nil for nil. remedy is
// what the user can do about a full disk.
func OnDisk(err error, dir, remedy string) *engine.Failure {
	return failure.ExplainDiskFull(failure.From(err), remedy, func() (int64, error) {
		return host.FreeBytes(host.Existing(dir))
	})
}
