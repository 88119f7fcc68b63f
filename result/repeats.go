package result

import (
	"cmp"
	"slices"
)

// Representative is the repeat that stands for a point in every figure, chart and
// table: the one in the middle, of an even number the worse of the two in the
// middle. cost is lower where a run is better.
func Representative[T any](repeats []T, cost func(T) float64) T {
	sorted := slices.Clone(repeats)
	slices.SortStableFunc(sorted, func(a, b T) int { return cmp.Compare(cost(a), cost(b)) })
	return sorted[len(sorted)/2]
}

// Spread is the range of a figure over repeats.
func Spread[T any](repeats []T, figure func(T) float64) Range {
	r := Range{Low: figure(repeats[0]), High: figure(repeats[0])}
	for _, one := range repeats {
		v := figure(one)
		r.Low, r.High = min(r.Low, v), max(r.High, v)
	}
	return r
}

// alike are repeats that read the same to 1 %: their speed says which of them is
// the one in the middle.
const alike = 1.01

// OfPoint is the run that stands for a point of a sweep, by block reads per Get (by Gets a
// second where those are unknown or the same), and the spread of all; none of one run.
func OfPoint(runs []*Run) (*Run, map[string]Range) {
	reads := func(run *Run) float64 { return OrZero(run.Figures.BlockReadsPerGet) }
	speed := func(run *Run) float64 { return run.Figures.GetsPerSecond }
	spread := map[string]Range{}
	cost := func(run *Run) float64 { return -speed(run) }
	all := Spread(runs, reads)
	if all.High > alike*all.Low {
		cost = reads
	}
	if len(runs) > 1 {
		spread["block_reads_per_get"], spread["gets_per_second"] = all, Spread(runs, speed)
		spread["device_reads_per_get"] = Spread(runs, func(run *Run) float64 { return OrZero(run.Figures.DeviceReadsPerGet) })
	}
	return Representative(runs, cost), spread
}

// OfTree is the run that stands for a tree of a replay, and the spread of all.
func OfTree(runs []*Run) (*Run, map[string]Range) {
	speed := func(run *Run) float64 { return run.Figures.Replay.LeavesPerSecond }
	var spread map[string]Range
	if len(runs) > 1 {
		spread = map[string]Range{"leaves_per_second": Spread(runs, speed)}
	}
	return Representative(runs, func(run *Run) float64 { return -speed(run) }), spread
}

// OrZero is a figure, 0 where it is not known.
func OrZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
