package measure

import (
	"sync/atomic"
	"time"
)

// Recorder is one worker's histogram that another goroutine may look at while
// the worker runs.
//
// Go's atomic store costs as much as the whole of Histogram.Add, so counters are
// not read under the writer's hands. They change hands instead: the reader
// offers an empty histogram, and the writer, at its next Add, puts the filled
// one down and goes on with the empty one. To the writer that is one plain load
// per Add. A writer stuck in a long call hands over late, never wrongly: its
// durations belong to a later interval.
type Recorder struct {
	current *Histogram                // the writer's
	offered atomic.Pointer[Histogram] // empty, from the reader
	filled  atomic.Pointer[Histogram] // full, from the writer
	spare   *Histogram                // the reader's: empty, or nil while it is offered or filled

	finished atomic.Bool // the writer has stopped, and no longer hands over
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{current: NewHistogram(), spare: NewHistogram()}
}

// Add counts one duration. For the writer alone.
func (r *Recorder) Add(nanos int64) { r.AddMany(nanos, 1) }

// AddMany counts n durations that are the same. For the writer alone.
func (r *Recorder) AddMany(nanos int64, n uint64) {
	if r.offered.Load() != nil {
		r.handOver()
	}
	r.current.AddMany(nanos, n)
}

func (r *Recorder) handOver() {
	empty := r.offered.Swap(nil)
	r.filled.Store(r.current)
	r.current = empty
}

// Finish says that nothing more is added until Rest. For the writer alone.
func (r *Recorder) Finish() { r.finished.Store(true) }

// Offer asks the recorders' writers to hand over. What Take then gets from a writer is
// what it had counted when Offer returned: a duration that ends later, and so the rest
// of a call that was under way, is of the next interval. Counters that are read between
// Offer and Take are therefore of the same moment. What was handed over late the last
// time is merged into h. One reader at a time.
func Offer(recorders []*Recorder, h *Histogram) {
	for _, r := range recorders {
		r.take(h)
		r.offer()
	}
}

// Take merges into h what the recorders counted before Offer. It waits for writers that
// have not finished, at most patience.
func Take(recorders []*Recorder, patience time.Duration, h *Histogram) {
	for deadline := time.Now().Add(patience); ; time.Sleep(patience / 20) {
		waiting := false
		for _, r := range recorders {
			if r.finished.Load() {
				r.rest(h)
			}
			r.take(h)
			waiting = waiting || r.spare == nil
		}
		if !waiting || !time.Now().Before(deadline) {
			return
		}
	}
}

// Rest merges into h what the recorders counted since the last Take, once their
// writers have stopped. The recorders are empty then and can be used again.
func Rest(recorders []*Recorder, h *Histogram) {
	for _, r := range recorders {
		r.rest(h)
		r.finished.Store(false)
	}
}

// rest takes everything from a writer that has stopped.
func (r *Recorder) rest(h *Histogram) {
	r.take(h)
	if refused := r.offered.Swap(nil); refused != nil {
		r.spare = refused
	}
	h.Merge(r.current)
	r.current.Reset()
}

func (r *Recorder) offer() {
	if r.spare != nil {
		r.offered.Store(r.spare)
		r.spare = nil
	}
}

func (r *Recorder) take(h *Histogram) {
	if full := r.filled.Swap(nil); full != nil {
		h.Merge(full)
		full.Reset()
		r.spare = full
	}
}
