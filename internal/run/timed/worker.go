// Package timed is the loop that times Gets, the same one for every kind of subject:
// choose, wait, call, record, check.
//
// Goals: only the call lies between the two clock reads; workers share nothing while
// they run; an operation allocates nothing; a wrong answer ends the run.
// Non-goals: what to get and which answer is right (bench, lookup, replay); phases,
// counters and the run folder (session).
//
// Read in this order: worker.go, team.go.
package timed

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/internal/base/pace"
	"github.com/statelab/statelab/internal/observe/measure"
)

// Reader answers the calls: an engine's reader as it is, or a few instructions around
// that of another subject.
type Reader interface {
	// Get returns the value, in dst where it fits. A reader of several Gets at a time
	// keeps their answers for its source.
	Get(key, dst []byte) (value []byte, found bool, err error)
}

// Source chooses what to get and knows the right answer. It is for one worker.
type Source interface {
	// Next chooses the next call: its key, valid until the following Next, and of how
	// many Gets it is, from 1 to most.
	Next(maximum uint64) (key []byte, gets uint64)
	// Check compares the answer with what the key must give.
	Check(value []byte, found bool) error
	// LastRequest names the call in an error.
	LastRequest() string
}

// Worker issues the Gets of one thread. Nothing in it is shared while it runs, except
// the stop flag, which it only reads.
type Worker struct {
	source   Source
	reader   Reader
	clock    *measure.Clock
	pace     pace.Pacer
	service  *measure.Recorder
	response *measure.Recorder // open loop only
	stop     *atomic.Bool
	began    int64 // ticks when the stretch began
	value    []byte
}

// NewWorker returns a worker that issues a Get as soon as the one before has returned.
func NewWorker(clock *measure.Clock, source Source, reader Reader) *Worker {
	return &Worker{
		source:  source,
		reader:  reader,
		clock:   clock,
		service: measure.NewRecorder(),
		stop:    new(atomic.Bool),
	}
}

// SetPacer makes it issue Gets when they are due by p, or, where the one before has not returned
// then, right after it. Response times count from when they were due.
func (w *Worker) SetPacer(p pace.Pacer) { w.pace, w.response = p, measure.NewRecorder() }

// ErrStopped ends a worker early; what it has measured stays.
var ErrStopped = errors.New("stopped")

// Run is the data path: choose, wait, call, record, check. Only the call may sit
// between the two clock reads.
func (w *Worker) Run(gets uint64) error {
	for gets > 0 {
		key, n := w.source.Next(gets)
		due, open := w.pace.Next()
		if open {
			SleepUntil(w.clock, w.began, due, w.stop)
		}

		if w.stop.Load() {
			return ErrStopped
		}

		start := w.clock.Ticks()
		value, found, err := w.reader.Get(key, w.value)
		end := w.clock.Ticks()
		w.service.AddMany(w.clock.Nanos(end-start), n)
		if open {
			w.response.AddMany(w.clock.Nanos(end-w.began)-due, n)
		}

		if err == nil {
			err = w.source.Check(value, found)
		}

		if err != nil {
			return fmt.Errorf("%s: %w", w.source.LastRequest(), err)
		}

		if value != nil { // a miss may give nothing back
			w.value = value[:0]
		}

		gets -= n
	}

	return nil
}

// finish lets the next tick take what the worker counted.
func (w *Worker) finish() {
	w.service.Finish()
	if w.response != nil {
		w.response.Finish()
	}
}

// spinNanos is how much earlier than due a sleep ends: timers wake late by about
// this much.
const spinNanos = 60_000

// SleepUntil returns due nanoseconds after began, which is in ticks, or when stop is set.
func SleepUntil(clock *measure.Clock, began, due int64, stop *atomic.Bool) {
	for {
		left := due - clock.Nanos(clock.Ticks()-began)
		switch {
		case left <= 0 || stop.Load():
			return
		case left > spinNanos:
			time.Sleep(min(time.Duration(left-spinNanos), 100*time.Millisecond))
		default:
			runtime.Gosched()
		}
	}
}
