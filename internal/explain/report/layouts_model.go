package report

import (
	"fmt"
	"math"

	"github.com/statelab/statelab/result"
)

// layoutModelTable holds the reads that a model of the caches predicted beside those
// that were measured, below the layout's own caches and below the page cache.
func layoutModelTable(l *result.Layouts) table {
	t := table{Columns: []column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "reads"}, {Name: "predicted"}, {Name: "off by"},
		{Name: "device", Unit: "reads"}, {Name: "predicted"}, {Name: "off by"}}}
	layoutRows(l, &t, func(of result.LayoutRow) []string {
		cells := append([]string{}, besideMeasured(of.BlockReads, of.PredictedHeldReads)...)
		return append(cells, besideMeasured(of.DeviceReads, of.PredictedDeviceReads)...)
	})
	kept := t.Rows[:0]
	for _, r := range t.Rows {
		if !r.Failed && (r.Cells[2] != none || r.Cells[5] != none) {
			kept = append(kept, r)
		}
	}
	t.Rows = kept
	t.drop()
	return t
}

// besideMeasured is what was measured, what was predicted, and how far off that is. Of a
// lookup in twenty that reads at all a share says little: there it is left out.
func besideMeasured(measured, predicted *float64) []string {
	off := none
	const few = .05
	if measured != nil && predicted != nil && *measured >= few {
		off = fmt.Sprintf("%+d %%", int(math.Round(100*(*predicted / *measured - 1))))
	}
	return []string{optional(measured, perGet), optional(predicted, perGet), off}
}
