package render

import (
	"bytes"
	"fmt"
	"html/template"
	"io"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/web"
)

// Page writes the document as HTML: one file that loads nothing. Nothing is written of a page
// that fails halfway.
func Page(w io.Writer, d *doc.Document) error {
	t, err := template.New("report").Parse(web.Report)
	if err != nil {
		return fmt.Errorf("read the report's template: %w", err)
	}

	var out bytes.Buffer
	if err := t.Execute(&out, page{d}); err != nil {
		return fmt.Errorf("lay out report: %w", err)
	}

	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("write report: %w", err)
	}

	return nil
}

// page is what the template asks for.
type page struct{ *doc.Document }

// Style is the page's own style sheet.
func (page) Style() template.CSS {
	return template.CSS(doc.PaletteStyle() + web.ChartStyle + web.ReportStyle)
}

// Script saves tables and charts.
func (page) Script() template.JS { return template.JS(web.ReportScript) }

// Library draws the charts; "" if the page has none.
func (p page) Library() template.JS {
	if p.MainChart() == nil {
		return ""
	}
	return template.JS(web.ChartLibrary + "\n" + web.ChartScript)
}

// Sections are those of the document.
func (p page) Sections() []section {
	return doc.Each(p.Document.Sections, func(s doc.Section) section {
		return section{s.Title, doc.Each(s.Blocks, func(b doc.Block) block { return block{b} })}
	})
}

type section struct {
	Title  string
	Blocks []block
}

type block struct{ doc.Block }

// Data is the block's table; nil if it has none.
func (b block) Data() *table {
	if len(b.Table.Rows) == 0 {
		return nil
	}
	return &table{b.Table}
}

type table struct{ doc.Table }

// IsText reports whether a cell is aligned to the left.
func (t *table) IsText(i int) bool { return i < len(t.Heads) && t.Heads[i].Text }

// Left is how many columns a failed row has not filled.
func (t *table) Left(row doc.Row) int { return max(1, len(t.Heads)-len(row.Cells)) }
