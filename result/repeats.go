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

// spread is the range of a figure over the repeats that have it; ok is false if fewer than two do.
func spread[T any](repeats []T, of func(T) figure.Value) (r Range, ok bool) {
	known := 0
	for _, one := range repeats {
		v, is := of(one).Number()
		if !is {
			continue
		}

		if known == 0 {
			r = Range{Low: v, High: v}
		}
		known++
		r.Low, r.High = min(r.Low, v), max(r.High, v)
	}

	return r, known > 1
}

// RepeatRule says, of one kind of subject, which repeat stands for a point and which figures have a
// range over its repeats. T is what one repeat came to.
type RepeatRule[T any] struct {
	// Cost is what Representative sorts repeats by; it may depend on all of them.
	Cost func(repeats []T) func(T) float64
	// Ranges are the figures, by the names that ranges are stored under.
	Ranges map[string]func(T) figure.Value
}

// Spreads are the ranges over repeats by name, nil of a single one. A figure that fewer than two
// repeats have is not in them.
func (r RepeatRule[T]) Spreads(repeats []T) map[string]Range {
	if len(repeats) < 2 {
		return nil
	}

	spreads := map[string]Range{}
	for name, of := range r.Ranges {
		if all, ok := spread(repeats, of); ok {
			spreads[name] = all
		}
	}

	return spreads
}

// Same tells whether stored ranges are those of repeats. Versions before 0.3 took a figure that a
// repeat did not have for 0 of it.
func (r RepeatRule[T]) Same(stored map[string]Range, repeats []T) bool {
	computed := r.Spreads(repeats)
	for name := range computed {
		if _, is := stored[name]; !is {
			return false
		}
	}

	for name, all := range stored {
		if again, is := computed[name]; is && again == all {
			continue
		}

		of := r.Ranges[name]
		if of == nil || len(repeats) < 2 {
			return false
		}

		old, _ := spread(repeats, func(one T) figure.Value {
			return figure.Known(of(one).OrZero())
		})
		if all != old {
			return false
		}
	}

	return true
}

// withoutAbsent leaves out the ranges of figures that the run which stands for the repeats does not
// have: versions before 0.3 stored them as 0 to 0.
func withoutAbsent(spreads map[string]Range, has func(key string) bool) map[string]Range {
	if spreads == nil {
		return nil
	}

	kept := map[string]Range{}
	for name, r := range spreads {
		if r != (Range{}) || has(name) {
			kept[name] = r
		}
	}

	return kept
}

// Apply returns the repeat that stands for a point, of at least one that is ok, and Spreads.
func (r RepeatRule[T]) Apply(repeats []T) (T, map[string]Range) {
	return Representative(repeats, r.Cost(repeats)), r.Spreads(repeats)
}

// alike are repeats that read the same to 1 %: their speed says which of them is
// the one in the middle.
const alike = 1.01

// valueOf is a figure of a run.
func valueOf(f figure.Figure) func(*Run) figure.Value {
	return func(run *Run) figure.Value { return run.Figures.Value(f) }
}

// numberOf is a figure of a run that repeats are sorted by, 0 where it is absent.
func numberOf(f figure.Figure) func(*Run) float64 {
	return func(run *Run) float64 { return run.Figures.OrZero(f) }
}

// PointRule is of the points of a sweep: by block reads per Get, by Gets a second where those are
// unknown or the same.
func PointRule() RepeatRule[*Run] {
	reads, speed := numberOf(figure.BlockReadsPerGet), numberOf(figure.GetsPerSecond)
	ranges := map[string]func(*Run) figure.Value{}
	ranged := []figure.Figure{figure.BlockReadsPerGet, figure.GetsPerSecond,
		figure.DeviceReadsPerGet}
	for _, f := range ranged {
		ranges[f.Key] = valueOf(f)
	}

	return RepeatRule[*Run]{
		Cost: func(runs []*Run) func(*Run) float64 {
			low, high := reads(runs[0]), reads(runs[0])
			for _, run := range runs {
				low, high = min(low, reads(run)), max(high, reads(run))
			}

			if high > alike*low {
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
		Ranges: map[string]func(*Run) figure.Value{
			figure.LeavesPerSecond.Key: valueOf(figure.LeavesPerSecond),
		},
	}
}

// meanLookup is the mean time of a row's lookups, in ns.
func (r LayoutRow) meanLookup() figure.Value {
	if r.LookupNanos == nil {
		return figure.Value{}
	}

	return figure.Known(r.LookupNanos.Mean)
}

// LayoutRule is of the layouts of state at one size: by the mean time of a lookup.
func LayoutRule() RepeatRule[LayoutRow] {
	return RepeatRule[LayoutRow]{
		Cost: func([]LayoutRow) func(LayoutRow) float64 {
			return func(row LayoutRow) float64 { return row.meanLookup().OrZero() }
		},
		Ranges: map[string]func(LayoutRow) figure.Value{
			figure.LookupTime.Key: LayoutRow.meanLookup,
			figure.DeviceReadsPerLookup.Key: func(r LayoutRow) figure.Value {
				return r.DeviceReads
			},
			figure.BlockReadsPerLookup.Key: func(r LayoutRow) figure.Value {
				return r.BlockReads
			},
			figure.UpdateTime.Key: func(r LayoutRow) figure.Value {
				return r.UpdateNanos
			},
		},
	}
}

// RepresentativeRun applies PointRule to the runs of a point that are ok.
func RepresentativeRun(runs []*Run) (*Run, map[string]Range) { return PointRule().Apply(runs) }

// OfTree applies TreeRule to the runs of a tree that are ok.
func OfTree(runs []*Run) (*Run, map[string]Range) { return TreeRule().Apply(runs) }
