package report

import (
	"fmt"

	"github.com/statelab/statelab/result"
)

// figure is one chart of the page with what belongs to it.
type figure struct {
	title  string
	note   string // how to read it
	method string // the page that defines its numbers
	pic    *picture
	table  table
	open   bool // a table without a chart that is not folded away
}

// pointColumns are the columns that say which point a row is.
func pointColumns(c curve) table {
	var t table
	if c.x != "" && c.x != "cache" {
		t.Columns = append(t.Columns, column{Name: c.x, Text: true})
	}
	t.Columns = append(t.Columns, column{Name: "cache", Unit: c.cacheScale().name}, column{Name: "cache", Unit: "% of DB"}, column{Name: "phase"})
	return t
}

// rows adds a row for every point, the failed ones with their reason.
func (c curve) rows(t *table, figures func(Point) []string) {
	scale := c.cacheScale()
	for _, p := range c.pts {
		var cells []string
		if c.x != "" && c.x != "cache" {
			cells = append(cells, p.Axes[c.x])
		}
		phase := none
		if p.Phase > 0 {
			phase = fmt.Sprint(p.Phase)
		}
		cells = append(cells, positive(float64(p.CacheBytes), scale.in), positive(p.CachePercent, number), phase)
		if p.Status != result.OK {
			t.Rows = append(t.Rows, row{Cells: cells, Failed: true, Note: reason(p)})
			continue
		}
		t.Rows = append(t.Rows, row{Cells: append(cells, figures(p)...)})
	}
}

func (c curve) cacheScale() scale {
	var all []int64
	for _, p := range c.pts {
		all = append(all, p.CacheBytes)
	}
	return byteScale(all)
}
