package engines

import (
	"fmt"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// pointColumns are the columns that say which point a row is.
func pointColumns(c curve) view.Table {
	var t view.Table
	if c.x != "" && c.x != "cache" {
		t.Columns = append(t.Columns, view.Column{Name: c.x, Text: true})
	}
	t.Columns = append(t.Columns, view.Column{Name: "cache", Unit: c.cacheScale().Name}, view.Column{Name: "cache", Unit: "% of DB"}, view.Column{Name: "phase"})
	return t
}

// rows adds a row for every point, the failed ones with their reason.
func (c curve) rows(t *view.Table, figures func(Point) []string) {
	scale := c.cacheScale()
	for _, p := range c.pts {
		var cells []string
		if c.x != "" && c.x != "cache" {
			cells = append(cells, p.Axes[c.x])
		}
		phase := view.None
		if p.Phase > 0 {
			phase = fmt.Sprint(p.Phase)
		}
		cells = append(cells, view.Positive(float64(p.CacheBytes), scale.In), view.Positive(p.CachePercent, view.Number), phase)
		if p.Status != result.OK {
			t.Rows = append(t.Rows, view.Row{Cells: cells, Failed: true, Note: reason(p)})
			continue
		}
		t.Rows = append(t.Rows, view.Row{Cells: append(cells, figures(p)...)})
	}
}

func (c curve) cacheScale() view.Scale {
	var all []int64
	for _, p := range c.pts {
		all = append(all, p.CacheBytes)
	}
	return view.ByteScale(all)
}
