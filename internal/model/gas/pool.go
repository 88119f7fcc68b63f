package gas

import (
	"fmt"
	"math"

	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Size is that of a state: its accounts, and the slots of its one contract or, as on the main
// network, of contracts of all sizes.
type Size struct{ Accounts, ContractSlots, SpreadSlots uint64 }

// SizeOf is that of the state which a row is of.
func SizeOf(r result.PriceRow) Size { return Size{r.Accounts, r.ContractSlots, r.SpreadSlots} }

// MainnetTable names the table that SpreadSlots are divided by.
const MainnetTable = statemodel.MainnetTable

// Slots are those of all contracts.
func (s Size) Slots() uint64 { return s.ContractSlots + s.SpreadSlots }

func (s Size) records() float64 { return float64(s.Accounts + s.Slots()) }

// place is what rows must have in common for one to follow from others.
type place struct {
	layout, condition string
	memoryBytes       int64
	size              Size
}

func placeOf(r result.PriceRow) place {
	return place{r.Layout, r.Condition, r.MemoryBytes, SizeOf(r)}
}

// Pool makes one row of the accesses of several builds of one state: their mean, and a band of
// twice its standard error, from how far builds are apart, if that is wider than the error of a
// build.
func Pool(all []result.PriceRow) (means []result.PriceRow) {
	type what struct {
		place
		parameter, basis string
		absent           bool
	}

	builds := map[what][]result.PriceRow{}
	var order []what
	for _, r := range all {
		w := what{placeOf(r), r.Parameter, r.Basis, r.Absent}
		if builds[w] == nil {
			order = append(order, w)
		}
		builds[w] = append(builds[w], r)
	}

	for _, w := range order {
		of := builds[w]
		r, n := of[0], float64(len(of))
		if n > 1 {
			mean := func(value func(result.PriceRow) float64) (mean float64) {
				for _, b := range of {
					mean += value(b) / n
				}
				return mean
			}

			meanIf := func(value func(result.PriceRow) figure.Value) figure.Value {
				for _, b := range of {
					if v := value(b); !v.IsKnown() {
						return v
					}
				}

				return figure.Known(mean(func(b result.PriceRow) float64 {
					return value(b).OrZero()
				}))
			}

			reads := mean(func(b result.PriceRow) float64 { return b.Reads.Value })
			apart := mean(func(b result.PriceRow) float64 {
				off := b.Reads.Value - reads
				return off * off
			}) * n / (n - 1)

			each := mean(func(b result.PriceRow) float64 {
				half := (b.Reads.High - b.Reads.Low) / 2
				return half * half
			})

			off := math.Sqrt(max(4*apart, each) / n)
			r.Reads = result.Estimate{Value: reads, Low: max(0, reads-off), High: reads + off}
			r.CPUNanos = meanIf(func(b result.PriceRow) figure.Value { return b.CPUNanos })
			if cpu := r.CPUNanos.OrZero(); cpu > 0 {
				apart := mean(func(b result.PriceRow) float64 {
					off := b.CPUNanos.OrZero()/cpu - 1
					return off * off
				}) * n / (n - 1)
				// An error that all builds share does not shrink in their mean.
				shared := mean(func(b result.PriceRow) float64 { return b.CPUError.OrZero() })
				r.CPUError = figure.Known(max(shared, 2*math.Sqrt(apart/n)))
			}

			r.Accesses = meanIf(func(b result.PriceRow) figure.Value { return b.Accesses })
			r.Bytes = meanIf(func(b result.PriceRow) figure.Value { return b.Bytes })
			r.Share = meanIf(func(b result.PriceRow) figure.Value { return b.Share })
			r.Basis += fmt.Sprintf("; the mean of %d builds", len(of))
		}

		r.Builds = len(of)
		means = append(means, r)
	}

	return means
}
