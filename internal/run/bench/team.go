package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
)

// team is the workers of a phase with what a phase does around them.
type team struct {
	workers []*worker
	writers []*writer
	stop    atomic.Bool
	// after one side has ended the other is told to.
	readersDone atomic.Bool
}

// stretch is what a team does at once: a phase, or a window of one.
type stretch struct {
	phase             string
	gets              uint64
	ops               *atomicCount
	service, response *measure.Histogram
}

// drive runs the team until every worker has done its share of the stretch's Gets,
// writing a line a second to the series. A worker that fails stops the others.
func (r *run) drive(ctx context.Context, t *team, s stretch) error {
	failed := make(chan error, len(t.workers)+len(t.writers))
	done := r.start(t, s.gets, failed)
	watched := r.watch(ctx, t, s, done)
	if watched != nil {
		t.stop.Store(true)
		<-done
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

// start lets the team run; done is closed when all of it has ended.
func (r *run) start(t *team, gets uint64, failed chan<- error) (done chan struct{}) {
	var reading, writing sync.WaitGroup
	began := r.Clock.Ticks()
	run := func(group *sync.WaitGroup, who string, i int, work func() error) {
		group.Go(func() {
			if err := work(); err != nil && !errors.Is(err, errStopped) {
				failed <- fmt.Errorf("%s %d: %w", who, i, err)
				t.stop.Store(true)
			}
		})
	}
	for i, w := range t.workers {
		share := session.Share(gets, i, len(t.workers))
		w.stop, w.began = &t.stop, began
		run(&reading, "thread", i, func() error {
			defer w.finish()
			return w.run(share)
		})
	}
	for i, w := range t.writers {
		w.stop, w.began = &t.readersDone, began
		if len(t.workers) == 0 {
			w.stop = &t.stop
		}
		run(&writing, "writer", i, func() error {
			defer w.commits.Finish()
			return w.run()
		})
	}
	done = make(chan struct{})
	go func() {
		reading.Wait()
		t.readersDone.Store(true)
		writing.Wait()
		close(done)
	}()
	return done
}

// patience is for workers to hand their histograms over, which a long Get delays.
const patience = 500 * time.Millisecond

// watch follows a running team until it is done: a tick a second. Where it returns an
// error but for an interrupt's, the team may still run.
func (r *run) watch(ctx context.Context, t *team, s stretch, done <-chan struct{}) error {
	w := &watcher{run: r, team: t, stretch: s, puts: t.puts()}
	var err error
	if w.interval, err = r.Interval(s.phase); err != nil {
		return err
	}
	ticker := time.NewTicker(session.TickEvery)
	defer ticker.Stop()
	end := ctx.Done()
	var interrupted error
	for {
		select {
		case <-done:
			return errors.Join(w.tick(true), interrupted)
		case <-end:
			t.stop.Store(true)
			end, interrupted = nil, context.Cause(ctx)
		case <-ticker.C:
			if err := w.tick(false); err != nil {
				return err
			}
		}
	}
}

// watcher turns what a team does into lines of the series.
type watcher struct {
	*run
	team *team
	stretch
	interval *session.Interval[engine.Counters]
	puts     uint64
}

// tick collects what the team did since the last one; ended, it has stopped.
func (w *watcher) tick(ended bool) error {
	services, responses, commits := w.team.recorders()
	times := measure.NewHistogram()
	if !ended {
		measure.Offer(services, times)
		measure.Offer(responses, w.response)
		measure.Offer(commits, w.putLatency)
	}
	short := ended && w.interval.TooShort()
	cost, err := w.interval.Cut()
	if err != nil {
		return err
	}
	puts := w.team.puts()
	collect := func(recorders []*measure.Recorder, into *measure.Histogram) {
		if ended {
			measure.Rest(recorders, into)
		} else {
			measure.Take(recorders, patience, into)
		}
	}
	collect(services, times)
	w.service.Merge(times)
	collect(responses, w.response)
	collect(commits, w.putLatency)
	gets := times.N()
	w.ops.Add(gets)
	tick := w.interval.Tick(gets, cost)
	if gets > 0 {
		tick.P50, tick.P99 = times.Quantile(0.5), times.Quantile(0.99)
		if reads := cost.Subject.Reads; reads != nil {
			tick.BlockReadsPerOp, tick.ByType = ratio(reads.Total().Count, float64(gets)), perGet(byType(reads), gets)
		}
	}
	tick.PutsPerSecond = float64(puts-w.puts) / cost.Seconds
	if reserved := w.db.Counters().CacheReservedBytes; reserved != nil {
		tick.CacheReserved = *reserved
		w.reservedMax = max(w.reservedMax, tick.CacheReserved)
	}
	w.puts = puts
	e := result.Event{Phase: w.phase, Done: w.ops.Load(), Total: w.expected(w.phase, w.gets), Unit: "Gets"}
	if short {
		w.Tell(e)
		return nil
	}
	e.Tick = &tick
	w.Tell(e)
	return w.WriteTick(tick)
}

// expected is how many Gets a phase is going to be, 0 where it ends by itself.
func (r *run) expected(phase string, gets uint64) uint64 {
	if phase == "warm" && r.spec.WarmupAuto {
		return 0
	}
	return gets
}

func (t *team) recorders() (services, responses, puts []*measure.Recorder) {
	for _, w := range t.workers {
		services = append(services, w.service)
		if w.response != nil {
			responses = append(responses, w.response)
		}
	}
	for _, w := range t.writers {
		puts = append(puts, w.commits)
	}
	return services, responses, puts
}

func (t *team) puts() (n uint64) {
	for _, w := range t.writers {
		n += w.done.Load()
	}
	return n
}

func perGet(types map[string]engine.Tally, gets uint64) map[string]float64 {
	each := map[string]float64{}
	for name, tally := range types {
		each[name] = float64(tally.Count) / float64(gets)
	}
	return each
}
