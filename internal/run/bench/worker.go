package bench

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/pace"
	"github.com/statelab/statelab/internal/observe/measure"
)

// worker issues the Gets of one thread. Nothing in it is shared while it runs,
// except the stop flag, which it only reads.
type worker struct {
	keys     keySource
	pace     pace.Pace
	reader   engine.Reader
	clock    *measure.Clock
	began    int64 // ticks when the phase began
	service  *measure.Recorder
	response *measure.Recorder // open loop only
	stop     *atomic.Bool
	value    []byte
	found    uint64
	missing  uint64

	// Of batches.
	batches *batches // nil: one Get at a time
	many    getMany
	answers []engine.Answer // as many as a batch has keys
}

// errStopped ends a worker early; what it has measured stays.
var errStopped = errors.New("stopped")

// run is the data path: choose, wait, call, record, check. Only the call may
// sit between the two clock reads.
func (w *worker) run(gets uint64) error {
	if w.batches != nil {
		return w.runBatches(gets)
	}
	for range gets {
		next := w.keys.next()
		due, open := w.pace.Next()
		if open {
			sleepUntil(w.clock, w.began, due, w.stop)
		}
		if w.stop.Load() {
			return errStopped
		}
		start := w.clock.Ticks()
		value, found, err := w.reader.Get(next.key, w.value)
		end := w.clock.Ticks()
		w.service.Add(w.clock.Nanos(end - start))
		if open {
			w.response.Add(w.clock.Nanos(end-w.began) - due)
		}
		if err == nil {
			err = w.check(next, value, found)
		}
		if err != nil {
			return fmt.Errorf("get key %x: %w", next.key, err)
		}
		w.value = value[:0]
	}
	return nil
}

// finish lets the next tick take what the worker counted.
func (w *worker) finish() {
	w.service.Finish()
	if w.response != nil {
		w.response.Finish()
	}
}

func (w *worker) close() error {
	if w.many != nil {
		return w.many.Close()
	}
	return w.reader.Close()
}

// check compares the answer with what the key must give. A fast wrong answer is
// a failure.
func (w *worker) check(asked choice, value []byte, found bool) error {
	switch {
	case found && asked.absent && !w.keys.mayExist():
		return fmt.Errorf("wrong answer: a value of %d bytes for a key that was never written", len(value))
	case found:
		w.found++
		if asked.absent {
			return nil
		}
		if err := w.keys.check(asked, value); err != nil {
			return fmt.Errorf("wrong answer: %w", err)
		}
		return nil
	case asked.absent:
		w.missing++
		return nil
	}
	return errors.New("wrong answer: a key that was written is missing")
}

// spinNanos is how much earlier than due a sleep ends: timers wake late by about
// this much.
const spinNanos = 60_000

// sleepUntil returns due nanoseconds after began, which is in ticks, or when stop is set.
func sleepUntil(clock *measure.Clock, began, due int64, stop *atomic.Bool) {
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
