package report

import "slices"

// table is the data under a chart, or a list of facts.
type table struct {
	Columns []column
	Rows    []row
}

type column struct {
	Name string
	Unit string
	Text bool // words, left-aligned; else numbers, right-aligned
}

type row struct {
	Cells  []string
	Failed bool   // Cells only say which point it is
	Note   string // why it failed
}

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, row{Cells: cells}) }

// drop removes the columns in which no row has a figure.
func (t *table) drop() {
	keep := make([]bool, len(t.Columns))
	for _, r := range t.Rows {
		for i, cell := range r.Cells {
			keep[i] = keep[i] || cell != none && cell != ""
		}
	}
	var columns []column
	for i, c := range t.Columns {
		if keep[i] {
			columns = append(columns, c)
		}
	}
	t.Columns = columns
	for n := range t.Rows {
		var cells []string
		for i, cell := range t.Rows[n].Cells {
			if keep[i] {
				cells = append(cells, cell)
			}
		}
		t.Rows[n].Cells = cells
	}
}

// only keeps the columns with these names.
func (t table) only(names ...string) table {
	var out table
	var keep []int
	for i, c := range t.Columns {
		if slices.Contains(names, c.Name) {
			out.Columns = append(out.Columns, c)
			keep = append(keep, i)
		}
	}
	for _, r := range t.Rows {
		kept := row{Failed: r.Failed, Note: r.Note}
		for _, i := range keep {
			if i < len(r.Cells) {
				kept.Cells = append(kept.Cells, r.Cells[i])
			}
		}
		out.Rows = append(out.Rows, kept)
	}
	return out
}
