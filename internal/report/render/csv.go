package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/report/doc"
)

// CSV writes all tables of the document for a program, each below a line with its title.
func CSV(w io.Writer, d *doc.Document) error {
	for _, s := range d.Sections {
		for _, b := range s.Blocks {
			if len(b.Table.Rows) == 0 {
				continue
			}

			if _, err := fmt.Fprintf(w, "# %s: %s\n", s.Title, b.Title); err != nil {
				return fmt.Errorf("write CSV: %w", err)
			}

			if err := writeTable(w, b.Table); err != nil {
				return fmt.Errorf("write CSV: %w", err)
			}
		}
	}

	return nil
}

// writeTable writes values in full, and a row that failed with its reason.
func writeTable(w io.Writer, t doc.Table) error {
	heads := doc.Each(t.Heads, func(h doc.Head) string {
		return strings.TrimSuffix(h.Name+" ["+h.Unit+"]", " []")
	})
	records := [][]string{append(heads, "failed")}

	for _, row := range t.Rows {
		record := make([]string, len(heads)+1)
		for i, cell := range row.Cells {
			if row.Values[i] != nil {
				cell = strconv.FormatFloat(*row.Values[i], 'g', -1, 64)
			} else if cell == doc.None {
				cell = ""
			}

			record[i] = cell
		}

		record[len(heads)] = row.Note
		records = append(records, record)
	}

	return csv.NewWriter(w).WriteAll(records)
}
