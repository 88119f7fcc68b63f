package measure

import (
	"fmt"
	"io"
	"iter"
	"math"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/statelab/statelab/result"
)

// The layout is HdrHistogram's for lowest value 1 and 3 significant digits, so
// that an export loses nothing: values below 2048 have a counter each, and every
// further doubling has 1024 counters, each less than 0.1 % of its values wide.
const (
	halfBits    = 10
	linearBits  = halfBits + 1
	rangeBits   = 42
	doublings   = rangeBits - linearBits
	numParts    = doublings + 2
	numCounters = numParts << halfBits
)

// MaxNanos is the largest value told apart: 73 minutes.
const MaxNanos = 1<<rangeBits - 1

// part are the counters of a doubling.
type part [1 << halfBits]uint64

// Histogram counts durations of 0..MaxNanos nanoseconds with an error below
// 0.1 %. One goroutine at a time. Counters are made when they are first needed, 8 KB
// for each doubling: those of 64 workers must not fill the memory that they measure.
//
// What falls outside is counted. A longer value is part of N, Mean, Max and the
// quantiles, which then give Max; a negative one (a clock that went back) is in
// Negative alone.
type Histogram struct {
	parts    [numParts]*part
	n        uint64
	sum      int64
	max      int64
	tooLong  uint64
	negative uint64
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram { return new(Histogram) }

// Add counts one duration.
func (h *Histogram) Add(nanos int64) { h.AddMany(nanos, 1) }

// AddMany counts n durations that are the same.
func (h *Histogram) AddMany(nanos int64, n uint64) {
	if uint64(nanos) > MaxNanos {
		h.addOutside(nanos, n)
		return
	}

	i := counter(nanos)
	p := h.parts[i>>halfBits]
	if p == nil {
		p = h.part(i >> halfBits)
	}

	p[i&(len(p)-1)] += n
	h.n += n
	h.sum += nanos * int64(n)
	if nanos > h.max {
		h.max = nanos
	}
}

// part makes the counters of a doubling that has none.
func (h *Histogram) part(i int) *part {
	if h.parts[i] == nil {
		h.parts[i] = new(part)
	}
	return h.parts[i]
}

func (h *Histogram) addOutside(nanos int64, n uint64) {
	if nanos < 0 {
		h.negative += n
		return
	}
	h.tooLong += n
	h.n += n
	h.sum += nanos * int64(n)
	h.max = max(h.max, nanos)
}

// counter is where a value in range is counted.
func counter(nanos int64) int {
	shift := bits.Len64(uint64(nanos)|(1<<linearBits-1)) - linearBits
	return shift<<halfBits + int(nanos>>shift)
}

// highest is the largest value that is counted in counter i.
func highest(i int) int64 {
	shift := max(0, i>>halfBits-1)
	return int64(i-shift<<halfBits+1)<<shift - 1
}

// N is how many durations were counted, all but negative ones.
func (h *Histogram) N() uint64 { return h.n }

// TooLong is how many durations exceeded MaxNanos.
func (h *Histogram) TooLong() uint64 { return h.tooLong }

// Negative is how many durations were negative.
func (h *Histogram) Negative() uint64 { return h.negative }

// Max is the longest duration: exact, but after Sub the upper end of its counter.
func (h *Histogram) Max() int64 { return h.max }

// Sum of all durations, exact.
func (h *Histogram) Sum() int64 { return h.sum }

// Mean is exact; 0 of nothing.
func (h *Histogram) Mean() float64 {
	if h.n == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.n)
}

// Quantile returns a duration that a share q (0..1) of the durations do not
// exceed: at most 0.1 % above the exact one, never below it. 0 of nothing.
func (h *Histogram) Quantile(q float64) int64 {
	if h.n == 0 {
		return 0
	}

	// The factor undoes rounding, which can make 0.07*100 a little more than 7.
	rank := uint64(max(1, math.Ceil(q*float64(h.n)*(1-0x1p-51))))
	var seen uint64
	for i, count := range h.counters() {
		if seen += count; seen >= rank {
			return min(highest(i), h.max)
		}
	}

	return h.max
}

// Merge adds what g has counted.
func (h *Histogram) Merge(g *Histogram) {
	for i, of := range g.parts {
		if of == nil {
			continue
		}

		into := h.part(i)
		for at, count := range of {
			into[at] += count
		}
	}

	h.n += g.n
	h.sum += g.sum
	h.max = max(h.max, g.max)
	h.tooLong += g.tooLong
	h.negative += g.negative
}

// Reset empties h and keeps its counters for use again.
func (h *Histogram) Reset() {
	for _, p := range h.parts {
		if p != nil {
			clear(p[:])
		}
	}
	h.n, h.sum, h.max, h.tooLong, h.negative = 0, 0, 0, 0, 0
}

// counters are those that were made, in ascending order of what they count.
func (h *Histogram) counters() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for i, p := range h.parts {
			if p == nil {
				continue
			}

			for at, count := range p {
				if !yield(i<<halfBits+at, count) {
					return
				}
			}
		}
	}
}

// Summary is what run.json holds.
func (h *Histogram) Summary() result.Latency {
	return result.Latency{
		P50:  h.Quantile(0.50),
		P90:  h.Quantile(0.90),
		P99:  h.Quantile(0.99),
		P999: h.Quantile(0.999),
		Max:  h.Max(),
		Mean: h.Mean(),
		N:    h.N(),
	}
}

// HDR returns the counters as an HdrHistogram, which has no room for durations
// outside the range: see WriteLog.
func (h *Histogram) HDR() *hdrhistogram.Histogram {
	counts := make([]int64, numCounters)
	for i, count := range h.counters() {
		counts[i] = int64(count)
	}

	return hdrhistogram.Import(&hdrhistogram.Snapshot{
		LowestTrackableValue:  1,
		HighestTrackableValue: MaxNanos,
		SignificantFigures:    3,
		Counts:                counts,
	})
}

// LogEntry is one line of an HdrHistogram log.
type LogEntry struct {
	Tag        string // "" for service times
	Start, End time.Time
	Durations  *Histogram
}

// WriteLog writes an HdrHistogram log, format 1.3, with absolute times. Values
// are nanoseconds, the Interval_Max column milliseconds. Durations outside the
// histogram's range are told in a comment: the format has no place for them.
func WriteLog(w io.Writer, started time.Time, entries []LogEntry) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	for _, write := range []func() error{
		log.OutputLogFormatVersion,
		func() error { return log.OutputComment("[Values are nanoseconds]") },
		func() error { return log.OutputStartTime(started.UnixMilli()) },
		log.OutputLegend,
	} {
		if err := write(); err != nil {
			return fmt.Errorf("write latency log: %w", err)
		}
	}

	for _, e := range entries {
		if strings.ContainsAny(e.Tag, ", \r\n") {
			return fmt.Errorf("write latency log: tag %q holds a comma, a space or a line break",
				e.Tag)
		}

		if long, negative := e.Durations.TooLong(), e.Durations.Negative(); long+negative > 0 {
			outside := fmt.Sprintf("[Outside the range: Tag=%s too_long=%d negative=%d]", e.Tag,
				long, negative)
			if err := log.OutputComment(outside); err != nil {
				return fmt.Errorf("write latency log: %w", err)
			}
		}

		hdr := e.Durations.HDR()
		hdr.SetTag(e.Tag)
		hdr.SetStartTimeMs(e.Start.UnixMilli())
		hdr.SetEndTimeMs(e.End.UnixMilli())
		if err := log.OutputIntervalHistogram(hdr); err != nil {
			return fmt.Errorf("write latency log: %w", err)
		}
	}

	return nil
}

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

// Collect merges into h what the recorders counted before Offer. It waits for writers that
// have not finished, at most patience.
func Collect(recorders []*Recorder, patience time.Duration, h *Histogram) {
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

// CollectRest merges into h what the recorders counted since the last Take, once their
// writers have stopped. The recorders are empty then and can be used again.
func CollectRest(recorders []*Recorder, h *Histogram) {
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
