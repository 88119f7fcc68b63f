package gas

import (
	"fmt"
	"slices"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Rows are accesses priced on every hardware, with the parameters that follow from others. Accesses
// of one layout, size and condition stand together in all.
func Rows(
	all []result.PriceRow, hardware []result.Hardware, gasPerSecond float64,
) (rows []result.PriceRow) {
	for _, h := range hardware {
		priced := map[string]result.PriceRow{}
		for i, r := range all {
			Fill(&r, h, gasPerSecond)
			rows = append(rows, r)
			priced[priceKey(r.Parameter, r.Absent)] = r
			if i+1 == len(all) || placeOf(all[i+1]) != placeOf(r) {
				rows = append(rows, derived(priced)...)
				clear(priced)
			}
		}
	}

	return rows
}

func priceKey(parameter string, absent bool) string { return fmt.Sprint(parameter, absent) }

// derived are the parameters that follow from others of the same place.
func derived(from map[string]result.PriceRow) (rows []result.PriceRow) {
	for _, d := range Derived() {
		var parts []result.PriceRow
		for _, name := range d.Of {
			r, known := from[priceKey(name, d.Absent)]
			if !known {
				r, known = from[priceKey(name, false)]
			}

			if known {
				parts = append(parts, r)
			}
		}

		if len(parts) < len(d.Of) {
			continue
		}

		r := parts[0]
		combined := func(of func(result.PriceRow) result.Estimate) result.Estimate {
			value, low, high := map[string]float64{}, map[string]float64{}, map[string]float64{}
			for _, part := range parts {
				e := of(part)
				value[part.Parameter], low[part.Parameter], high[part.Parameter] = e.Value, e.Low,
					e.High
				if part.Parameter == d.Less {
					low[part.Parameter], high[part.Parameter] = e.High, e.Low
				}
			}

			return result.Estimate{Value: d.From(value), Low: d.From(low), High: d.From(high)}
		}

		r.Parameter, r.Absent, r.Basis = d.Name, false, result.DerivedBasis(d.About)
		r.Accesses, r.Bytes, r.Share = figure.Value{}, figure.Value{}, figure.Value{}
		r.Reads = combined(func(r result.PriceRow) result.Estimate { return r.Reads })
		if i := slices.IndexFunc(parts, func(r result.PriceRow) bool {
			return !r.IsPriced()
		}); i >= 0 {
			r.CPUNanos = parts[i].CPUNanos
			rows = append(rows, unpriced(r))
			continue
		}

		r.AloneGas = combined(func(r result.PriceRow) result.Estimate { return r.AloneGas })
		r.QueuedGas = combined(func(r result.PriceRow) result.Estimate { return r.QueuedGas })
		r.AloneNanos = combined(func(r result.PriceRow) result.Estimate { return r.AloneNanos })
		r.QueuedNanos = combined(func(r result.PriceRow) result.Estimate { return r.QueuedNanos })
		r.CPUNanos = figure.Known(combined(func(r result.PriceRow) result.Estimate {
			return result.Estimate{Value: r.CPUNanos.OrZero()}
		}).Value)
		rows = append(rows, r)
	}

	return rows
}
