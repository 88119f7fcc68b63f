package layouts

import (
	"fmt"
	"math"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// modelTable holds the reads that a model of the caches predicted beside those
// that were measured, below the layout's own caches and below the page cache.
func modelTable(l *result.Layouts) view.Table {
	t := view.Table{Columns: []view.Column{{Name: "layout", Unit: "accounts", Text: true}, {Name: "reads"}, {Name: "predicted"}, {Name: "off by"},
		{Name: "device", Unit: "reads"}, {Name: "predicted"}, {Name: "off by"}}}
	rows(l, &t, func(of result.LayoutRow) []string {
		cells := append([]string{}, besideMeasured(of.BlockReads, of.PredictedHeldReads)...)
		return append(cells, besideMeasured(of.DeviceReads, of.PredictedDeviceReads)...)
	})
	kept := t.Rows[:0]
	for _, r := range t.Rows {
		if !r.Failed && (r.Cells[2] != view.None || r.Cells[5] != view.None) {
			kept = append(kept, r)
		}
	}
	t.Rows = kept
	t.Drop()
	return t
}

// besideMeasured is what was measured, what was predicted, and how far off that is. Of a
// lookup in twenty that reads at all a share says little: there it is left out.
func besideMeasured(measured, predicted *float64) []string {
	off := view.None
	const few = .05
	if measured != nil && predicted != nil && *measured >= few {
		off = fmt.Sprintf("%+d %%", int(math.Round(100*(*predicted / *measured - 1))))
	}
	return []string{view.Optional(measured, view.PerGet), view.Optional(predicted, view.PerGet), off}
}
