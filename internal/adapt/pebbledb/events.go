package pebbledb

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// Events is what Pebble tells while it works. Pebble may hold its locks while
// it calls, so nothing here calls back or waits.
type Events struct {
	changed     blockio.Changes
	statsLoaded chan struct{} // closed when the tables found at open have statistics
	failed      chan struct{} // closed at the first failure of background work

	loadedOnce, failedOnce sync.Once
	failure                error // set before failed is closed

	jobs       atomic.Int64 // finished
	stalls     atomic.Int64
	stallNanos atomic.Int64
	stallStart atomic.Int64 // Unix nanoseconds; 0: none
}

// newEvents returns events of a database that is about to be opened.
func newEvents() *Events {
	return &Events{
		changed:     blockio.NewChanges(),
		statsLoaded: make(chan struct{}),
		failed:      make(chan struct{}),
	}
}

// TablesChanged is to be called at the end of a flush, compaction or ingestion.
func (e *Events) TablesChanged() {
	e.jobs.Add(1)
	e.changed.Tell()
}

// StatsLoaded is to be called when the initial statistics are loaded.
func (e *Events) StatsLoaded() { e.loadedOnce.Do(func() { close(e.statsLoaded) }) }

// Failed is to be called when background work fails.
func (e *Events) Failed(err error) {
	e.failedOnce.Do(func() {
		e.failure = err
		close(e.failed)
	})
}

// Err is the first failure of background work.
func (e *Events) Err() error {
	select {
	case <-e.failed:
		return e.failure
	default:
		return nil
	}
}

// StallBegan is to be called when writes stall.
func (e *Events) StallBegan() {
	e.stalls.Add(1)
	e.stallStart.Store(time.Now().UnixNano())
}

// StallEnded is to be called when writes go on.
func (e *Events) StallEnded() {
	if start := e.stallStart.Swap(0); start != 0 {
		e.stallNanos.Add(time.Now().UnixNano() - start)
	}
}

// Logger passes Pebble's messages on. It has the method set of the Logger of
// both versions.
type Logger struct {
	Adapter string
	Log     func(string) // may be nil
}

// Infof passes a message on.
func (l Logger) Infof(format string, args ...any) {
	if l.Log != nil {
		l.Log(fmt.Sprintf(format, args...))
	}
}

// Errorf passes a message on; failures also come as events.
func (l Logger) Errorf(format string, args ...any) { l.Infof(format, args...) }

// Fatalf is called where Pebble cannot go on and expects no return. The runner
// process ends; whoever started it reports that.
func (l Logger) Fatalf(format string, args ...any) {
	panic(l.Adapter + ": " + fmt.Sprintf(format, args...))
}

// Batch is the batch of a version, whose type of write options is O.
type Batch[O any] interface {
	Set(key, value []byte, _ *O) error
	Delete(key []byte, _ *O) error
	DeleteRange(from, to []byte, _ *O) error
	Commit(*O) error
	Empty() bool
	Count() uint32
	Reset()
	Close() error
}

type writer[O any] struct {
	db     *DB
	batch  Batch[O]
	noSync *O
	bytes  int64 // keys and values in the batch
}

// NewWriter returns a writer to d that fills batch and commits it with noSync.
func NewWriter[O any](d *DB, batch Batch[O], noSync *O) engine.Writer {
	return &writer[O]{db: d, batch: batch, noSync: noSync}
}

func (w *writer[O]) Put(key, value []byte) error {
	w.bytes += int64(len(key) + len(value))
	return w.batch.Set(key, value, nil)
}

func (w *writer[O]) Delete(key []byte) error {
	w.bytes += int64(len(key))
	return w.batch.Delete(key, nil)
}

func (w *writer[O]) DeleteRange(from, to []byte) error {
	w.bytes += int64(len(from) + len(to))
	return w.batch.DeleteRange(from, to, nil)
}

func (w *writer[O]) Commit() error {
	if w.batch.Empty() {
		return nil
	}

	if err := w.batch.Commit(w.noSync); err != nil {
		err = fmt.Errorf("%s: commit a batch of %d entries: %w", w.db.config.adapter,
			w.batch.Count(), err)
		// Pebble keeps the batch in the queue of its commits: all later ones wait for it.
		w.db.events.Failed(err)
		return err
	}

	w.db.written.Add(w.bytes)
	w.bytes = 0
	w.batch.Reset()
	return nil
}

func (w *writer[O]) Close() error { return w.batch.Close() }
