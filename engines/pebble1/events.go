package pebble1

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble"
)

// events is what Pebble tells while it works. Pebble may hold its locks while
// it calls, so nothing here calls back or waits.
type events struct {
	// changed gets a token when tables came or went.
	changed chan struct{}
	// statsLoaded is closed when the statistics of the tables found at open are
	// loaded.
	statsLoaded chan struct{}
	loadedOnce  sync.Once

	jobs       atomic.Int64 // finished
	stalls     atomic.Int64
	stallNanos atomic.Int64
	stallStart atomic.Int64 // Unix nanoseconds; 0: none
	failure    atomic.Pointer[error]
}

func newEvents() *events {
	return &events{changed: make(chan struct{}, 1), statsLoaded: make(chan struct{})}
}

func (e *events) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			err = fmt.Errorf("pebble1: background work: %w", err)
			e.failure.CompareAndSwap(nil, &err)
		},
		CompactionEnd:    func(pebble.CompactionInfo) { e.jobDone() },
		FlushEnd:         func(pebble.FlushInfo) { e.jobDone() },
		TableIngested:    func(pebble.TableIngestInfo) { e.jobDone() },
		TableStatsLoaded: func(pebble.TableStatsInfo) { e.loadedOnce.Do(func() { close(e.statsLoaded) }) },
		WriteStallBegin: func(pebble.WriteStallBeginInfo) {
			e.stalls.Add(1)
			e.stallStart.Store(time.Now().UnixNano())
		},
		WriteStallEnd: func() {
			if start := e.stallStart.Swap(0); start != 0 {
				e.stallNanos.Add(time.Now().UnixNano() - start)
			}
		},
	}
}

func (e *events) jobDone() {
	e.jobs.Add(1)
	select {
	case e.changed <- struct{}{}:
	default: // a refresh is due already
	}
}

// err is the first failure of background work.
func (e *events) err() error {
	if err := e.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// logger passes Pebble's messages on.
type logger struct{ log func(string) }

func (l logger) Infof(format string, args ...any) {
	if l.log != nil {
		l.log(fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) { l.Infof(format, args...) }

// Fatalf is called where Pebble cannot go on and expects no return. The runner
// process ends; whoever started it reports that.
func (l logger) Fatalf(format string, args ...any) {
	panic("pebble1: " + fmt.Sprintf(format, args...))
}
