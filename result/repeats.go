package result

import (
	"cmp"
	"slices"

	"github.com/statelab/statelab/result/figure"
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

// RepeatRule says, of one kind of subject, which repeat stands for a point and which figures have a
// range over its repeats. T is what one repeat came to.
type RepeatRule[T any] struct {
	// Cost is what Representative sorts repeats by; it may depend on all of them.
	Cost func(repeats []T) func(T) float64
	// Ranges are the figures, by the names that ranges are stored under.
	Ranges map[string]func(T) float64
}

// Spreads are the ranges over repeats by name, nil of a single one.
func (r RepeatRule[T]) Spreads(repeats []T) map[string]Range {
	if len(repeats) < 2 {
		return nil
	}
	spreads := map[string]Range{}
	for name, figure := range r.Ranges {
		spreads[name] = Spread(repeats, figure)
	}
	return spreads
}

// Apply returns the repeat that stands for a point, of at least one that is ok, and Spreads.
func (r RepeatRule[T]) Apply(repeats []T) (T, map[string]Range) {
	return Representative(repeats, r.Cost(repeats)), r.Spreads(repeats)
}

// alike are repeats that read the same to 1 %: their speed says which of them is
// the one in the middle.
const alike = 1.01

// numberOf is a figure of a run, 0 where it is absent.
func numberOf(f figure.Figure) func(*Run) float64 {
	return func(run *Run) float64 { return run.Figures.OrZero(f) }
}

// PointRule is of the points of a sweep: by block reads per Get, by Gets a second where those are
// unknown or the same.
func PointRule() RepeatRule[*Run] {
	reads, speed := numberOf(figure.BlockReadsPerGet), numberOf(figure.GetsPerSecond)
	ranges := map[string]func(*Run) float64{}
	ranged := []figure.Figure{figure.BlockReadsPerGet, figure.GetsPerSecond,
		figure.DeviceReadsPerGet}
	for _, f := range ranged {
		ranges[f.Key] = numberOf(f)
	}

	return RepeatRule[*Run]{
		Cost: func(runs []*Run) func(*Run) float64 {
			if all := Spread(runs, reads); all.High > alike*all.Low {
				return reads
			}
			return func(run *Run) float64 { return -speed(run) }
		},
		Ranges: ranges,
	}
}

// TreeRule is of the trees of a replay: by leaves per second.
func TreeRule() RepeatRule[*Run] {
	speed := numberOf(figure.LeavesPerSecond)

	return RepeatRule[*Run]{
		Cost: func([]*Run) func(*Run) float64 {
			return func(run *Run) float64 { return -speed(run) }
		},
		Ranges: map[string]func(*Run) float64{figure.LeavesPerSecond.Key: speed},
	}
}

// LayoutRule is of the layouts of state at one size: by the mean time of a lookup.
func LayoutRule() RepeatRule[LayoutRow] {
	nanos := func(row LayoutRow) float64 {
		if row.LookupNanos == nil {
			return 0
		}
		return row.LookupNanos.Mean
	}

	return RepeatRule[LayoutRow]{
		Cost: func([]LayoutRow) func(LayoutRow) float64 { return nanos },
		Ranges: map[string]func(LayoutRow) float64{
			figure.LookupTime.Key: nanos,
			figure.DeviceReadsPerLookup.Key: func(r LayoutRow) float64 {
				return r.DeviceReads.OrZero()
			},
			figure.BlockReadsPerLookup.Key: func(r LayoutRow) float64 {
				return r.BlockReads.OrZero()
			},
			figure.UpdateTime.Key: func(r LayoutRow) float64 {
				return r.UpdateNanos.OrZero()
			},
		},
	}
}

// RepresentativeRun applies PointRule to the runs of a point that are ok.
func RepresentativeRun(runs []*Run) (*Run, map[string]Range) { return PointRule().Apply(runs) }

// OfTree applies TreeRule to the runs of a tree that are ok.
func OfTree(runs []*Run) (*Run, map[string]Range) { return TreeRule().Apply(runs) }
