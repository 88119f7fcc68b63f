package timed

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/pace"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
)

// asked is a source whose every call is of so many Gets, and a reader that answers them.
type asked struct {
	gets  uint64
	calls int
	onGet func(call int) error
	wrong int // the call whose answer is wrong; 0: none
}

func (a *asked) Next(maximum uint64) ([]byte, uint64) { return nil, min(maximum, a.gets) }

func (a *asked) Get(_, dst []byte) ([]byte, bool, error) {
	a.calls++
	if a.onGet == nil {
		return dst, true, nil
	}
	return dst, true, a.onGet(a.calls)
}

func (a *asked) Check([]byte, bool) error {
	if a.calls == a.wrong {
		return errors.New("wrong answer")
	}
	return nil
}

func (a *asked) LastRequest() string { return "get it" }

func on(a *asked) *Worker { return NewWorker(measure.NewClock(), a, a) }

// rest is what a worker that has stopped counted.
func rest(r *measure.Recorder) *measure.Histogram {
	h := measure.NewHistogram()
	measure.CollectRest([]*measure.Recorder{r}, h)
	return h
}

func TestEveryGetIsRecordedOnce(t *testing.T) {
	for gets, calls := range map[uint64]int{1: 1000, 64: 16} {
		a := &asked{gets: gets}
		w := on(a)
		// all parts of the histogram are made
		for nanos := int64(1); nanos < measure.MaxNanos; nanos *= 2 {
			w.service.Add(nanos)
		}

		rest(w.service)
		if allocs := testing.AllocsPerRun(5, func() {
			if err := w.Run(1000); err != nil {
				t.Error(err)
			}
		}); allocs != 0 {
			t.Errorf("%d Gets a call: %v allocations in 1000 Gets", gets, allocs)
		}

		if n := rest(w.service).N(); n != 6*1000 || a.calls != 6*calls {
			t.Errorf("%d Gets a call: %d recorded in %d calls, want 6000 in %d", gets, n, a.calls,
				6*calls)
		}
	}
}

func TestAWrongOrFailedGetEndsTheWorker(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, a := range []*asked{{gets: 1, wrong: 7}, {gets: 1, onGet: func(call int) error {
		if call == 7 {
			return broken
		}
		return nil
	}}} {
		w := on(a)
		err := w.Run(100)
		if err == nil || !strings.HasPrefix(err.Error(), "get it: ") ||
			a.wrong == 0 && !errors.Is(err, broken) {
			t.Error(err)
		}

		if n := rest(w.service).N(); n != 7 || a.calls != 7 {
			t.Errorf("%d of 7 Gets recorded, %d calls", n, a.calls)
		}
	}
}

// TestAStallIsOneSlowServiceAndManySlowResponses is coordinated omission: who
// times only the calls sees one slow Get, who has a schedule sees that 20 Gets
// were due meanwhile.
func TestAStallIsOneSlowServiceAndManySlowResponses(t *testing.T) {
	// Half a stall is longer than any preemption.
	const stalledCall, stall, calls, rate = 50, time.Second, 250, 200
	w := on(&asked{gets: 1, onGet: func(call int) error {
		if call == stalledCall {
			time.Sleep(stall)
		}
		return nil
	}})

	w.SetPacer(pace.ConstantRate(rate, 0, 1))
	w.began = w.clock.Ticks()
	if err := w.Run(calls); err != nil {
		t.Fatal(err)
	}

	service, response := rest(w.service), rest(w.response)
	if service.N() != calls || response.N() != calls {
		t.Fatalf("%d service and %d response times of %d calls", service.N(), response.N(), calls)
	}

	if slow := atLeast(service, stall/2); slow != 1 {
		t.Errorf("%d service times of %v and more, want 1", slow, stall/2)
	}

	if slow := atLeast(response, stall/2); slow < rate/2 {
		t.Errorf("%d response times of %v and more, want the %d that were due in the first half "+
			"of the stall", slow, stall/2, rate/2)
	}
}

func atLeast(h *measure.Histogram, d time.Duration) (n int64) {
	for _, bar := range h.HDR().Distribution() {
		if bar.From >= int64(d) {
			n += bar.Count
		}
	}
	return n
}

// writes goes on until it is stopped.
type writes struct {
	times   *measure.Recorder
	stopped atomic.Bool
}

func (w *writes) Run(_ int64, stop *atomic.Bool) error {
	for w.times.Add(1); !stop.Load(); w.times.Add(1) {
		time.Sleep(time.Millisecond)
	}
	w.stopped.Store(true)
	return ErrStopped
}

func (w *writes) Finish()                  { w.times.Finish() }
func (w *writes) Done() uint64             { return 0 }
func (w *writes) Times() *measure.Recorder { return w.times }

func begun(t *testing.T) *session.Session[engine.Counters] {
	dir := t.TempDir()
	return session.Begin(
		&result.Run{Absent: map[string]string{}},
		dir,
		dir,
		func(result.Event) {},
		session.Subject[engine.Counters]{
			Now: func() *engine.Counters { return new(engine.Counters) },
			Between: func(before, after engine.Counters) engine.Counters {
				return after.Sub(before)
			},
			Note: func(engine.Counters, *result.Phase) {},
		},
	)
}

// Whatever is told or not, the histograms of the stretch have every Get, and what is
// beside the Gets ends with them.
func TestATeamSharesTheGetsAndIsCountedWhole(t *testing.T) {
	for _, told := range []bool{true, false} {
		s := begun(t)
		beside := &writes{times: measure.NewRecorder()}
		team := &Team{Background: []BackgroundTask{beside}}
		for range 3 {
			team.Workers = append(team.Workers, on(&asked{gets: 1}))
		}

		var counted uint64
		tell := func(tick *Tick[engine.Counters]) error {
			counted += tick.Gets
			return nil
		}

		if !told {
			tell = nil
		}

		into := Times{Service: measure.NewHistogram(), Background: measure.NewHistogram()}
		if err := Run(context.Background(), s, team, "measure", 1000, into, tell); err != nil {
			t.Fatal(err)
		}

		if into.Service.N() != 1000 || into.Background.N() == 0 || !beside.stopped.Load() ||
			told != (counted == 1000) {
			t.Errorf("told %v: %d Gets, %d of them told, %d beside", told, into.Service.N(),
				counted, into.Background.N())
		}
	}
}

func TestOneThatFailsStopsTheOthers(t *testing.T) {
	broken := errors.New("disk on fire")
	slow := func(int) error { time.Sleep(time.Millisecond); return nil }
	team := &Team{Workers: []*Worker{on(&asked{gets: 1, onGet: slow}),
		on(&asked{gets: 1, onGet: func(int) error { return broken }})}}
	err := Run(context.Background(), begun(t), team, "measure", 1<<40,
		Times{Service: measure.NewHistogram()}, nil)
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "thread 1: get it: ") {
		t.Error(err)
	}
}

// TestATeamThatWaitsForEverIsLeft: where one failure lets the others wait, they are not waited for.
func TestATeamThatWaitsForEverIsLeft(t *testing.T) {
	failure := errors.New("disk on fire")
	var failed atomic.Bool
	released := make(chan struct{})
	defer close(released)
	team := &Team{
		Workers: []*Worker{
			on(&asked{gets: 1, onGet: func(int) error { <-released; return nil }}),
			on(&asked{gets: 1, onGet: func(int) error { failed.Store(true); return failure }}),
		},
		Broken: func() error {
			if failed.Load() {
				return failure
			}
			return nil
		},
	}

	err := Run(context.Background(), begun(t), team, "measure", 1<<40,
		Times{Service: measure.NewHistogram()}, nil)
	if !errors.Is(err, failure) {
		t.Error(err)
	}
}

func TestAnInterruptEndsATeam(t *testing.T) {
	why := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	team := &Team{Workers: []*Worker{on(&asked{
		gets:  1,
		onGet: func(int) error { time.Sleep(time.Millisecond); return nil },
	})}}

	if err := Run(ctx, begun(t), team, "measure", 1<<40, Times{Service: measure.NewHistogram()},
		nil); !errors.Is(err, why) {
		t.Error(err)
	}
}
