package report

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/statelab/statelab/internal/unit"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/web"
)

// layoutsMethod is the page that defines the figures.
const layoutsMethod = "layouts.md"

// WriteLayouts makes the page of a comparison of layouts: one file that loads
// nothing.
func WriteLayouts(w io.Writer, l *result.Layouts) error {
	t, err := template.New("report").Parse(web.Report)
	if err != nil {
		return fmt.Errorf("read the report's template: %w", err)
	}
	p, err := layoutsPage(l)
	if err != nil {
		return err
	}
	var out bytes.Buffer // nothing is written of a page that fails halfway
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("lay out report: %w", err)
	}
	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func layoutsPage(l *result.Layouts) (*page, error) {
	p := &page{Title: "Statelab: state layouts", Style: template.CSS(web.ReportStyle), Cards: []card{layoutsCard(l)}}
	for _, answer := range layoutAnswers(l) {
		p.Answers = append(p.Answers, said{"", answer})
	}
	for _, w := range l.Warnings {
		p.Warnings = append(p.Warnings, doubt{Text: w.Text, Remedy: w.Remedy})
	}
	for figure, why := range l.Absent {
		p.Warnings = append(p.Warnings, doubt{Text: strings.ReplaceAll(figure, "_", " ") + " is absent: " + why})
	}
	if err := p.addFigures("Over the size", layoutFigures(l)); err != nil {
		return nil, err
	}
	p.Sections = append(p.Sections,
		section{Title: "All figures", Blocks: []block{
			{Title: "A lookup", Note: "Of a present account, caches warm, memory held, one lookup in flight. Formulas stand beside what they predict.", Method: layoutsMethod, Table: view(layoutLookupTable(l))},
			{Title: "Below the caches, and in a second", Note: "Device bytes with memory held; cold: of a process that has just opened the state.", Method: layoutsMethod, Table: view(layoutDeviceTable(l))},
			{Title: "Keeping and changing the state", Method: layoutsMethod, Table: view(layoutCostTable(l))},
			{Title: "Not built, but carried on from what was", Note: "Formulas, and lines through the measured sizes: no measurement.", Method: layoutsMethod, Table: view(layoutOutlookTable(l))},
		}},
		section{Title: "Facts", Blocks: []block{
			{Title: "Every kind of lookup", Method: layoutsMethod, Table: view(layoutKindsTable(l)), Folded: true},
			{Title: "What the layouts are", Table: view(layoutLabelsTable(l)), Folded: true},
			{Title: "Command", Pre: shell(l.Command), Folded: true},
		}})
	return p, nil
}

func layoutsCard(l *result.Layouts) card {
	w := l.Workload
	var sizes []string
	for _, n := range w.Accounts {
		sizes = append(sizes, unit.ShortCount(float64(n)))
	}
	return card{Name: "layouts", Facts: [][2]string{
		{"accounts", strings.Join(sizes, ", ")},
		{"storage", fmt.Sprintf("%d slots of %s of the accounts", w.SlotsPer, unit.Percent(w.ContractShare))},
		{"updates", fmt.Sprintf("%d blocks of %d accounts", w.UpdateBlocks, w.UpdateAccounts)},
		{"lookups", unit.Count(w.Reads) + " of each kind"},
		{"memory", unit.Bytes(w.MemoryBytes)},
		{"seed", fmt.Sprint(w.Seed)},
		{"machine", fmt.Sprintf("%s, %d cores, %s", l.Host.CPU, l.Host.Cores, unit.Bytes(l.Host.MemoryBytes))},
		{"disk", strings.TrimSpace(l.Host.Device + " " + l.Host.Filesystem)},
		{"measured", l.Started.UTC().Format("2006-01-02 15:04 UTC")},
	}}
}

func layoutLabelsTable(l *result.Layouts) table {
	t := table{Columns: []column{{Name: "layout", Text: true}, {Name: "version", Text: true}, {Name: "root rule", Text: true}, {Name: "durability", Text: true}, {Name: "history", Text: true}}}
	for _, name := range layoutNames(l) {
		for _, row := range l.Rows {
			if row.Layout == name {
				t.add(row.Layout, row.Version, row.RootRule, row.Durability, row.History)
				break
			}
		}
	}
	return t
}
