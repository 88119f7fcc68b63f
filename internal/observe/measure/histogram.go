package measure

import (
	"iter"
	"math"
	"math/bits"

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
