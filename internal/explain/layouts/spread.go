package layouts

import (
	"strconv"

	"github.com/statelab/statelab/internal/explain/view"
)

// spread is the range of figures over repeats; without rows where nothing was repeated.
func (in Input) spread() view.Table {
	between := func(name, unit, figure string, scale float64) column {
		return column{Name: name, Unit: unit, Words: func(of row) string {
			r, known := of.Spread[figure]
			if !known {
				return view.None
			}
			return view.Number(r.Low*scale) + " to " + view.Number(r.High*scale)
		}}
	}
	var repeated []row
	for _, of := range in.measured() {
		if len(of.Spread) > 0 {
			repeated = append(repeated, of)
		}
	}
	return view.TableOf(repeated, failure, layoutKey, column{Name: "runs", Words: func(of row) string { return strconv.Itoa(len(of.Runs)) }},
		between("lookup", "us, mean", "lookup_ns", 1e-3), between("reads", "/lookup", "block_reads_per_lookup", 1),
		between("device reads", "/lookup", "device_reads_per_lookup", 1), between("update", "us", "update_ns", 1e-3))
}
