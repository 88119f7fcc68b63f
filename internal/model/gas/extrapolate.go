package gas

import (
	"fmt"
	"math"
	"slices"

	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// WorstTested is the tested error from which a prediction says too little to be shown.
const WorstTested = .25

// Extrapolate predicts the first lookups of a kind in a layout, in a state of a size that was not
// built: by its model alone, or corrected by what was measured over what it says of the largest
// size built, as a factor or as a difference. Whichever was closest to the largest size, corrected
// by the one before, is taken; alone if it was off by no more than it expects of one database.
//
// at are the lookups that were measured, of the smallest size first, each in so many builds.
// uncached is what the model says of a size, if anything. Not ok: nothing was measured, the size
// was built, or the model does not know it.
func Extrapolate(
	at []result.PriceRow, size Size, builds int, uncached func(Size) (statemodel.Reads, bool),
) (r result.PriceRow, ok bool) {
	if len(at) == 0 ||
		slices.ContainsFunc(at, func(b result.PriceRow) bool { return SizeOf(b) == size }) {
		return r, false
	}

	model := func(s Size) float64 {
		reads, known := uncached(s)
		if !known {
			return math.NaN()
		}
		return reads.Mean
	}

	factor := func(from result.PriceRow, to Size) float64 {
		return from.Reads.Value * model(to) / model(SizeOf(from))
	}
	difference := func(from result.PriceRow, to Size) float64 {
		return max(0, from.Reads.Value+model(to)-model(SizeOf(from)))
	}
	alone := func(_ result.PriceRow, to Size) float64 { return model(to) }

	largest := at[len(at)-1]
	how, words := factor, "times what was measured over the model"
	r = largest
	off, steps := (largest.Reads.High-largest.Reads.Low)/2/max(largest.Reads.Value, 1e-9), 1.0
	if len(at) == 1 { // nothing says how far off the model is
		off, steps = max(off, WorstTested), further(largest, size, math.Log(10))
	} else {
		before := at[len(at)-2]
		steps = further(largest, size,
			math.Abs(math.Log(SizeOf(largest).records()/SizeOf(before).records())))
		tested := func(how func(result.PriceRow, Size) float64) float64 {
			return math.Abs(how(before, SizeOf(largest))/max(largest.Reads.Value, 1e-9) - 1)
		}
		if tested(difference) < tested(how) || math.IsNaN(tested(how)) {
			how, words = difference, "and the difference of what was measured from the model"
		}

		// A model that is as close as it says, and as the measurement is exact, needs no
		// correction.
		own, _ := uncached(SizeOf(largest))
		chance := own.Off / math.Sqrt(float64(builds))
		if tested(alone) < tested(how) || own.Off > 0 && tested(alone) <= math.Hypot(chance, off) {
			how, words = alone, "alone, which was close enough; the largest size built was"
		}

		e := tested(how)
		// A test sees no smaller error than that by which one database differs from others.
		r.TestedError, off = figure.Known(e), max(off, e, chance)
	}

	reads := how(largest, size)
	if math.IsNaN(reads) || math.IsInf(reads, 0) {
		return r, false
	}

	r.Predicted = true
	r.Accounts, r.ContractSlots, r.SpreadSlots = size.Accounts, size.ContractSlots, size.SpreadSlots
	r.Accesses, r.Bytes = figure.Value{}, figure.Value{}
	r.Basis = fmt.Sprintf("predicted: a model of the layout %s at %d accounts, %d slots", words,
		largest.Accounts, largest.ContractSlots)
	if len(at) == 1 {
		r.Basis += ", untested: one size was built"
	}

	ofModel, _ := uncached(size)
	off = math.Hypot(off*steps, ofModel.Off)
	r.Reads = within(reads, off)

	grown := func(from result.PriceRow, reads float64) figure.Value {
		cpu, known := from.CPUNanos.Number()
		if !known {
			return from.CPUNanos
		}

		return figure.Known(cpu * max(1, reads/max(from.Reads.Value, 1e-9)))
	}
	// A read takes the CPU as long in any state: the error is of that, and of the reads.
	if e, known := largest.CPUError.Number(); known {
		r.CPUError = figure.Known(math.Hypot(e, off))
	}

	r.CPUNanos = grown(largest, reads)

	return r, true
}

// within are the reads that a model is off by a factor of at most 1+off, either way: one that may
// be as far off as its value does not say that a lookup may read nothing.
func within(reads, off float64) result.Estimate {
	return result.Estimate{Value: reads, Low: reads / (1 + off), High: reads * (1 + off)}
}

// Off is the error of reads, as a share of them: how far the high end of their band is.
func Off(reads result.Estimate) float64 { return reads.High/max(reads.Value, 1e-9) - 1 }

// further is how many times as far from the largest state built a size is as what the prediction
// was tested over, in the logarithm of their records. The error may grow as much.
func further(largest result.PriceRow, size Size, tested float64) float64 {
	return max(1,
		math.Abs(math.Log(size.records()/SizeOf(largest).records()))/max(tested, math.Ln2))
}

// WithMemory predicts warm lookups of a kind with so much memory in a state that was not built:
// first is the prediction of its first lookups, reads are what a model of the layout's memory says,
// and off is how far that model was off, as a share. CPU time is that of a warm lookup and, for
// each read, what each read of the first lookups took more in cold, the largest state built.
func WithMemory(
	first, cold, warm result.PriceRow, memoryBytes int64, reads, off float64, tested bool,
) result.PriceRow {
	r := first
	r.Condition, r.MemoryBytes, r.TestedError = warm.Condition, memoryBytes, figure.Value{}
	r.Basis = "predicted: a model of the layout's memory"
	if tested {
		r.TestedError = figure.Known(off)
	} else {
		r.Basis += ", untested: what was built nearly fits in its memory"
	}

	r.Reads = within(reads, off)
	r.CPUNanos = warm.CPUNanos
	if both, known := first.CPUError.Number(); known { // of a read's CPU time, and of the reads
		ofReads := Off(first.Reads)
		ofRead := math.Sqrt(max(0, both*both-ofReads*ofReads))
		r.CPUError = figure.Known(math.Hypot(ofRead, off))
	}

	cpu, known := warm.CPUNanos.Number()
	uncached, both := cold.CPUNanos.Number()
	switch {
	case !known:
	case !both:
		r.CPUNanos = cold.CPUNanos
	case cold.Reads.Value > 0:
		r.CPUNanos = figure.Known(cpu + reads*max(0, uncached-cpu)/cold.Reads.Value)
	}

	return r
}
