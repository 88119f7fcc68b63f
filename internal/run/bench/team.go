package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
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

// drive runs the team until every worker has done its share of gets, writing a
// line a second to the series. A worker that fails stops the others.
func (r *run) drive(ctx context.Context, name string, t *team, gets uint64, ops *atomic.Uint64, service, response *measure.Histogram) error {
	failed := make(chan error, len(t.workers)+len(t.writers)+1)
	var group, writing sync.WaitGroup
	began := r.clock.Ticks()
	for i, w := range t.workers {
		share := gets / uint64(len(t.workers))
		if uint64(i) < gets%uint64(len(t.workers)) {
			share++
		}
		w.stop, w.began = &t.stop, began
		group.Go(func() {
			if err := w.run(share); err != nil && !errors.Is(err, errStopped) {
				failed <- fmt.Errorf("thread %d: %w", i, err)
				t.stop.Store(true)
			}
		})
	}
	for i, w := range t.writers {
		w.stop, w.began = &t.readersDone, began
		if len(t.workers) == 0 {
			w.stop = &t.stop
		}
		writing.Go(func() {
			if err := w.run(); err != nil && !errors.Is(err, errStopped) {
				failed <- fmt.Errorf("writer %d: %w", i, err)
				t.stop.Store(true)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		t.readersDone.Store(true)
		writing.Wait()
		close(done)
	}()
	watched := r.watch(ctx, name, t, gets, ops, service, response, done)
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

const (
	tickEvery = time.Second
	patience  = 50 * time.Millisecond // for workers to hand their histograms over
)

// watch follows a running team until it is done: a tick a second.
func (r *run) watch(ctx context.Context, name string, t *team, gets uint64, ops *atomic.Uint64, service, response *measure.Histogram, done <-chan struct{}) error {
	services, responses, puts := t.recorders()
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	began, last := r.phaseBegan, time.Now()
	counted := r.db.Counters()
	processed, err := host.ProcessNow()
	if err != nil {
		t.stop.Store(true)
		<-done
		return err
	}
	putsBefore := t.puts()
	end := ctx.Done()
	var interrupted error
	for {
		ended := false
		select {
		case <-done:
			ended = true
		case <-end:
			t.stop.Store(true)
			end, interrupted = nil, context.Cause(ctx)
			continue
		case <-ticker.C:
		}
		interval := measure.NewHistogram()
		collect := func(recorders []*measure.Recorder, into *measure.Histogram) {
			if ended {
				measure.Rest(recorders, into)
			} else {
				measure.Interval(recorders, patience, into)
			}
		}
		collect(services, interval)
		service.Merge(interval)
		collect(responses, response)
		collect(puts, r.putLatency)
		ops.Add(interval.N())
		r.tell(Event{Phase: name, Done: ops.Load(), Total: r.expected(name, gets), Unit: "Gets"})

		now, counters := time.Now(), r.db.Counters()
		process, err := host.ProcessNow()
		if err != nil {
			t.stop.Store(true)
			<-done
			return err
		}
		seconds := now.Sub(last).Seconds()
		tick := result.Tick{Phase: name, Seconds: now.Sub(began).Seconds(), Ops: interval.N(), OpsPerSecond: float64(interval.N()) / seconds,
			DeviceReadBytes: process.ReadBytes - processed.ReadBytes}
		if interval.N() > 0 {
			tick.P50, tick.P99 = interval.Quantile(0.5), interval.Quantile(0.99)
			d := counters.Sub(counted)
			if d.Reads != nil {
				perOp := float64(d.Reads.Total().Count) / float64(interval.N())
				tick.BlockReadsPerOp, tick.ByType = &perOp, perGet(byType(d.Reads), interval.N())
			}
		}
		if len(t.writers) > 0 {
			n := t.puts()
			tick.PutsPerSecond = float64(n-putsBefore) / seconds
			putsBefore = n
		}
		if counters.CacheReservedBytes != nil {
			tick.CacheReserved = *counters.CacheReservedBytes
			r.reservedMax = max(r.reservedMax, tick.CacheReserved)
		}
		// The last stretch is often a fraction of a second: too short for a rate.
		if !ended || seconds > tickEvery.Seconds()/4 || now.Sub(began) < tickEvery {
			if err := r.series.write(tick); err != nil {
				t.stop.Store(true)
				<-done
				return err
			}
		}
		last, counted, processed = now, counters, process
		if ended {
			return interrupted
		}
	}
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
