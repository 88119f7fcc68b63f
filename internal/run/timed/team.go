package timed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
)

// Team is workers that make Gets at the same time.
type Team struct {
	Workers []*Worker
	// Background goes on until the last worker has ended, if there are any.
	Background []BackgroundTask
	// Broken tells of a failure after which workers may wait for ever; nil: there is no such one.
	Broken func() error
}

// BackgroundTask is what goes on beside Gets, such as a thread that writes.
type BackgroundTask interface {
	// Run works until it is done or stop is set, from began on, which is in ticks.
	Run(began int64, stop *atomic.Bool) error
	// Finish lets the next tick take what Times counted.
	Finish()
	Times() *measure.Recorder
	// Done is how much it has done so far.
	Done() uint64
}

// Times are histograms of a stretch, to which what its workers counted is added.
// A histogram may be nil if nothing is counted in it.
type Times struct {
	Service, Response, Background *measure.Histogram
}

// Tick is about a second of a team, or the rest of a stretch.
type Tick[C any] struct {
	result.Tick // what can be told of every subject
	Gets        uint64
	Times       *measure.Histogram // service times
	Cost        session.Cost[C]
	BesideDone  uint64 // by all that goes on beside, when Cost ended
	// Short tells that the rest of a stretch is too short for a rate.
	Short bool
}

// Run lets every worker make its share of the Gets of a phase, or of a window of one, and
// tells what they did once a second and at the end. The first that fails stops the others.
// Nothing is told and no counter read meanwhile where tell is nil. Where it returns an error
// of tell or of a counter, all have been stopped. Where it returns one of Broken, some may still
// wait: nothing that they use may be closed.
func Run[C any](
	ctx context.Context, s *session.Session[C], t *Team, phase string, gets uint64, into Times,
	tell func(*Tick[C]) error,
) error {
	var stop atomic.Bool
	failed := make(chan error, len(t.Workers)+len(t.Background))
	w := watcher[C]{team: t, into: into, tell: tell}
	if tell != nil {
		var err error
		if w.interval, err = s.Interval(phase); err != nil {
			return err
		}
	}

	watched := w.watch(ctx, &stop, t.start(gets, s.Clock.Ticks(), &stop, failed))
	if errors.As(watched, new(*brokenError)) {
		return watched
	}

	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}

	if len(errs) == 0 && watched != nil {
		errs = append(errs, watched)
	}

	return errors.Join(errs...)
}

// brokenError is one of Team.Broken.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// broken tells whether the team may wait for ever.
func (t *Team) broken() error {
	if t.Broken == nil {
		return nil
	}

	if err := t.Broken(); err != nil {
		return &brokenError{err}
	}

	return nil
}

// start lets the team run; done is closed when all of it has ended.
func (t *Team) start(
	gets uint64, began int64, stop *atomic.Bool, failed chan<- error,
) (done chan struct{}) {
	var reading, others sync.WaitGroup
	run := func(group *sync.WaitGroup, who string, i int, work func() error) {
		group.Go(func() {
			if err := work(); err != nil && !errors.Is(err, ErrStopped) {
				failed <- fmt.Errorf("%s %d: %w", who, i, err)
				stop.Store(true)
			}
		})
	}

	for i, w := range t.Workers {
		share := session.Share(gets, i, len(t.Workers))
		w.stop, w.began = stop, began
		run(&reading, "thread", i, func() error {
			defer w.finish()
			return w.Run(share)
		})
	}

	endOthers, readersDone := stop, new(atomic.Bool)
	if len(t.Workers) > 0 {
		endOthers = readersDone
	}

	for i, b := range t.Background {
		run(&others, "writer", i, func() error {
			defer b.Finish()
			return b.Run(began, endOthers)
		})
	}

	done = make(chan struct{})
	go func() {
		reading.Wait()
		readersDone.Store(true)
		others.Wait()
		close(done)
	}()

	return done
}

// patience is for workers to hand their histograms over, which a long Get delays.
const patience = 500 * time.Millisecond

// watcher turns what a team does into ticks.
type watcher[C any] struct {
	team     *Team
	into     Times
	tell     func(*Tick[C]) error // nil: nobody wants to know
	interval *session.Interval[C]
}

// watch follows a running team until it is done. What is to be told and cannot be ends it.
func (w *watcher[C]) watch(ctx context.Context, stop *atomic.Bool, done <-chan struct{}) error {
	ticker := time.NewTicker(session.TickEvery)
	defer ticker.Stop()
	end := ctx.Done()
	var interrupted error
	for {
		select {
		case <-done:
			return errors.Join(w.tick(true), interrupted)
		case <-end:
			stop.Store(true)
			end, interrupted = nil, context.Cause(ctx)
		case <-ticker.C:
			if err := w.team.broken(); err != nil {
				stop.Store(true)
				return err
			}

			if err := w.tick(false); err != nil {
				stop.Store(true)
				<-done
				return err
			}
		}
	}
}

// tick collects what the team did since the last one; ended, it has stopped.
func (w *watcher[C]) tick(ended bool) error {
	of := w.team.recorders()
	tick := &Tick[C]{Times: measure.NewHistogram()}
	into := [...]*measure.Histogram{tick.Times, w.into.Response, w.into.Background}
	collect := func(how func([]*measure.Recorder, *measure.Histogram)) {
		for i, recorders := range of {
			if len(recorders) > 0 {
				how(recorders, into[i])
			}
		}
	}

	switch {
	case ended && w.tell == nil:
		into[0] = w.into.Service
		collect(measure.CollectRest)
		return nil
	case w.tell == nil:
		return nil
	case !ended:
		collect(measure.Offer)
	}

	tick.Short = ended && w.interval.TooShort()
	var err error
	if tick.Cost, err = w.interval.Cut(); err != nil {
		return err
	}

	for _, b := range w.team.Background {
		tick.BesideDone += b.Done()
	}

	if ended {
		collect(measure.CollectRest)
	} else {
		collect(func(recorders []*measure.Recorder, h *measure.Histogram) {
			measure.Collect(recorders, patience, h)
		})
	}

	if w.into.Service != nil {
		w.into.Service.Merge(tick.Times)
	}

	tick.Gets = tick.Times.N()
	tick.Tick = w.interval.Tick(tick.Gets, tick.Cost)
	if tick.Gets > 0 {
		tick.P50, tick.P99 = tick.Times.Quantile(0.5), tick.Times.Quantile(0.99)
	}

	return w.tell(tick)
}

// recorders are those of service times, of response times, and of what is beside them.
func (t *Team) recorders() (of [3][]*measure.Recorder) {
	for _, w := range t.Workers {
		of[0] = append(of[0], w.service)
		if w.response != nil {
			of[1] = append(of[1], w.response)
		}
	}

	for _, b := range t.Background {
		of[2] = append(of[2], b.Times())
	}

	return of
}
