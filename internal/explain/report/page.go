package report

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/web"
)

// maxDetailed is how many curves get charts of their own: a page stays below
// 1 MB. Further ones are in the compared charts and in the tables.
const maxDetailed = 4

// page is what the template lays out.
type page struct {
	Title    string
	Style    template.CSS
	Answers  []said
	Advice   []said
	Warnings []doubt
	Cards    []card
	Sections []section
}

type said struct{ Of, Text string }

type doubt struct{ Text, Where, Remedy string }

type card struct {
	Name  string
	Facts [][2]string
}

type section struct {
	Title  string
	Blocks []block
}

// block is a chart, a table or a text with what explains it.
type block struct {
	Title, Note string
	Method      string // file in docs/methods
	SVG         template.HTML
	Pre         string
	Table       *tableView
	Aside       bool // the table is folded below its chart
	Verdicts    []verdictView
	Folded      bool
}

type tableView struct {
	Columns []column
	Rows    []rowView
}

type rowView struct {
	row
	columns []column
}

// IsText tells how a cell is aligned.
func (r rowView) IsText(i int) bool { return i < len(r.columns) && r.columns[i].Text }

// Left is how many columns a failed row has not filled.
func (r rowView) Left() int { return max(1, len(r.columns)-len(r.Cells)) }

// Write makes the page: one file that loads nothing.
func Write(w io.Writer, in Input) error {
	p, err := newPage(in)
	if err != nil {
		return err
	}
	return p.write(w)
}

// write lays the page out: one file that loads nothing.
func (p *page) write(w io.Writer) error {
	p.Style = template.CSS(web.ReportStyle)
	t, err := template.New("report").Parse(web.Report)
	if err != nil {
		return fmt.Errorf("read the report's template: %w", err)
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

// Picture draws the main chart as a PNG: the stacked reads of one curve, or the
// block reads of several in one picture.
func Picture(in Input, w io.Writer) error {
	curves := in.curves()
	var pic *picture
	if s := &in.Sweeps[0]; s.compares() {
		pic = s.arenas()[0].chart()
	}
	if pic == nil && len(curves) > 1 {
		pic = overlay(curves, len(in.Sweeps) > 1, "block reads per Get by cache size", "block reads per Get", blockReads, true)
	}
	for i := 0; pic == nil && i < len(curves); i++ {
		if pic = readsChart(curves[i]); pic == nil {
			pic = typeBars(curves[i])
		}
	}
	if pic == nil {
		return errors.New("nothing to draw: no point has block reads per Get")
	}
	return pic.png(w)
}

func newPage(in Input) (*page, error) {
	curves := in.curves()
	p := &page{Title: "Statelab: what a lookup costs", Warnings: in.doubts()}
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		name := s.Name
		if name == "" {
			name = "settings"
		}
		p.Cards = append(p.Cards, card{Name: name, Facts: s.settings()})
		if len(s.Points) == 0 {
			p.Answers = append(p.Answers, said{s.Name, curve{sweep: s, x: "cache"}.sentence()})
		}
	}
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		if !s.compares() {
			continue
		}
		for _, a := range s.arenas() {
			of := a.heading(len(in.Sweeps) > 1)
			if of != "" {
				of += ":"
			}
			for _, text := range a.sentences() {
				p.Answers = append(p.Answers, said{of, text})
			}
		}
	}
	for _, c := range curves {
		if c.sweep.compares() {
			continue
		}
		of := ""
		if len(curves) > 1 {
			of = c.name(len(in.Sweeps) == 1) + ":"
		}
		p.Answers = append(p.Answers, said{of, c.sentence()})
		if line := c.beyond(); line != "" {
			p.Advice = append(p.Advice, said{strings.TrimSuffix(of, ":"), line})
		}
	}
	if err := addCharts(p, in, curves); err != nil {
		return nil, err
	}
	addFacts(p, in)
	return p, nil
}

// addCharts adds the charts, what answers most first: of several curves, all
// of them together.
func addCharts(p *page, in Input, curves []curve) error {
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		if !s.compares() {
			continue
		}
		title := "Compared"
		if len(in.Sweeps) > 1 {
			title += ": " + s.Name
		}
		if err := p.addFigures(title, s.comparedEngines()); err != nil {
			return err
		}
	}
	if len(curves) == 1 {
		return errors.Join(addCurves(p, curves), addSpeed(p, in))
	}
	byCache := slices.DeleteFunc(slices.Clone(curves), func(c curve) bool { return c.sweep.compares() })
	return errors.Join(p.addFigures("Compared", comparedFigures(byCache, len(in.Sweeps) > 1)), addSpeed(p, in), addCurves(p, curves))
}

func addCurves(p *page, curves []curve) error {
	for i, c := range curves {
		title := c.name(false)
		if title == "" {
			title = "Measured"
		}
		if i == maxDetailed {
			p.Sections = append(p.Sections, section{Title: "Further curves", Blocks: []block{{
				Note: unit.Count(len(curves)-i) + " more curves have no charts of their own here: their points are in the tables above. A report of fewer sweeps shows them."}}})
			break
		}
		if err := p.addFigures(title, curveFigures(c)); err != nil {
			return err
		}
	}
	return nil
}

func addSpeed(p *page, in Input) error {
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		title := "Speed"
		if len(in.Sweeps) > 1 {
			title += ": " + s.Name
		}
		figures := axisFigures(s)
		if s.Disk != nil {
			figures = append(figures, figure{title: "The disk's own limit", note: "Random 4-KiB reads with O_DIRECT, without an engine: " + s.Disk.Dir + ".", method: "engines.md", table: ceilingTable(s)})
		}
		if err := p.addFigures(title, figures); err != nil {
			return err
		}
	}
	return nil
}

// addFigures draws figures into a section; none, no section.
func (p *page) addFigures(title string, figures []figure) error {
	s := section{Title: title}
	for _, f := range figures {
		b := block{Title: f.title, Note: f.note, Method: f.method, Table: view(f.table), Folded: f.pic == nil && !f.open}
		if f.pic != nil {
			text, err := f.pic.svg()
			if err != nil {
				return err
			}
			b.SVG = template.HTML(text) // drawn by us; vgsvg escapes its texts
		}
		s.Blocks = append(s.Blocks, b)
	}
	if len(s.Blocks) > 0 {
		p.Sections = append(p.Sections, s)
	}
	return nil
}

func blockReads(f result.Figures) *float64 { return f.BlockReadsPerGet }

func hitRate(name string) func(result.Figures) *float64 {
	return func(f result.Figures) *float64 {
		rate, ok := f.HitRate[name]
		if !ok {
			return nil
		}
		rate *= 100
		return &rate
	}
}

// comparedFigures lay all curves over each other.
func comparedFigures(curves []curve, shares bool) []figure {
	var out []figure
	for _, f := range []struct {
		title, y, unit, method string
		value                  func(result.Figures) *float64
		print                  func(float64) string
	}{
		{"Block reads per Get", "block reads per Get", "block reads/Get", "reads.md", blockReads, perGet},
		{"Index hit rate", "hit rate of index blocks, %", "%", "reads.md", hitRate("index"), number},
		{"Overall hit rate", "hit rate of all blocks, %", "%", "reads.md", hitRate("all"), number},
		{"Device reads per Get", "device reads per Get", "device reads/Get", "device-reads.md", func(f result.Figures) *float64 { return f.DeviceReadsPerGet }, perGet},
	} {
		reads := f.title == "Block reads per Get"
		with := 0
		for _, c := range curves {
			if slices.ContainsFunc(c.measured(), func(p Point) bool { return f.value(p.Figures) != nil }) {
				with++
			}
		}
		if with < 2 {
			continue // nothing to compare
		}
		pic := overlay(curves, shares, f.title+" by cache size", f.y, f.value, reads)
		if pic == nil {
			continue
		}
		note := "One line per curve, through its measured points."
		if shares {
			note += " The cache is a share of each database, so that their sizes do not matter."
		}
		if len(curves) > maxLines {
			note += fmt.Sprintf(" %d curves are drawn; the table has all %d.", maxLines, len(curves))
		}
		out = append(out, figure{title: f.title, note: note, method: f.method, pic: pic, table: overlayTable(curves, f.unit, f.value, f.print)})
	}
	return out
}

// curveFigures are the charts of one curve.
func curveFigures(c curve) []figure {
	var out []figure
	add := func(f figure) {
		if f.pic != nil {
			out = append(out, f)
		}
	}
	if reads := (figure{title: "Block reads per Get, by type", method: "reads.md", table: readsTable(c)}); c.x == "cache" && len(c.withReads()) > 1 {
		reads.pic = readsChart(c)
		reads.note = "Each band is a block type; the line joins what was measured." + marksNote(c.sweep.Inflection)
		add(reads)
	} else {
		reads.pic = typeBars(c)
		reads.note = "Each part of a bar is a block type."
		add(reads)
	}
	if c.x == "cache" {
		add(figure{title: "Hit rate, by type", note: "Share of block accesses that the cache served.", method: "reads.md", pic: hitRateChart(c), table: hitRateTable(c)})
		add(figure{title: "Overall hit rate", note: "All block types together. It hides what the types show: most accesses are of blocks that are always cached.", method: "reads.md",
			pic: overlay([]curve{c}, false, "overall hit rate by cache size", "hit rate of all blocks, %", hitRate("all"), false), table: hitRateTable(c).only("cache", "phase", "all")})
		add(figure{title: "Block reads against device reads", note: "The number at a point is the agreement: device reads / block reads." + countedBy(c), method: "device-reads.md", pic: deviceChart(c), table: deviceTable(c)})
	}
	if t, ok := levelReads(c); ok {
		out = append(out, figure{title: "Block reads per Get, by level", method: "reads.md", table: t})
	}
	service := func(f result.Figures) *result.Latency { return f.ServiceNanos }
	response := func(f result.Figures) *result.Latency { return f.ResponseNanos }
	add(figure{title: "Service time", note: "From the call to its return. The axis stretches towards 100%: each step to the right is a tenth of the Gets left.", method: "reads.md",
		pic: latencyChart(c, "service", func(p Point) *hdrhistogram.Histogram { return p.Service }), table: latencyTable(c, service)})
	add(figure{title: "Response time", note: "From when the schedule wanted the call to its return: waiting included.", method: "reads.md",
		pic: latencyChart(c, "response", func(p Point) *hdrhistogram.Histogram { return p.Response }), table: latencyTable(c, response)})
	pic, all := seriesChart(c)
	add(figure{title: "Second by second", note: "Warm-up before 0, measured after it. Flat lines mean that the figures are of a steady state.", method: "reads.md", pic: pic, table: seriesTable(c, all)})
	return out
}

// countedBy tells where device reads come from.
func countedBy(c curve) string {
	var sources []string
	for _, p := range c.measured() {
		if source := p.Figures.DeviceSource; source != "" && !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	if len(sources) == 0 {
		return ""
	}
	return " Counted by: " + strings.Join(sources, "; ") + "."
}

func marksNote(i *result.Inflection) string {
	if i == nil {
		return ""
	}
	return " IP1: filters that Gets consult and top indexes fit in the cache; IP2: all indexes too. Solid where the cache must be as large, dashed their size on disk."
}

// levelReads is the table of reads by level, where an engine tells.
func levelReads(c curve) (table, bool) {
	names := []string{}
	for level := range engine.MaxLevels {
		names = append(names, fmt.Sprintf("L%d", level))
	}
	names = append(names, "unknown")
	var used []string
	for _, name := range names {
		if slices.ContainsFunc(c.measured(), func(p Point) bool { return p.Figures.BlockReadsPerGetByLevel[name] > 0 }) {
			used = append(used, name)
		}
	}
	t := pointColumns(c)
	for _, name := range used {
		t.Columns = append(t.Columns, column{Name: name, Unit: "per Get"})
	}
	c.rows(&t, func(p Point) []string {
		var cells []string
		for _, name := range used {
			cells = append(cells, counted(p.Figures.BlockReadsPerGetByLevel, name))
		}
		return cells
	})
	return t, len(used) > 0
}

// doubts are the warnings of sweeps and runs, each once, with where it holds.
func (in Input) doubts() []doubt {
	var out []doubt
	index := map[[2]string]int{}
	where := map[[2]string][]string{}
	add := func(w engine.Warning, at string) {
		key := [2]string{w.Code, w.Text}
		if _, known := index[key]; !known {
			index[key] = len(out)
			out = append(out, doubt{Text: w.Text, Remedy: w.Remedy})
		}
		if at != "" && !slices.Contains(where[key], at) {
			where[key] = append(where[key], at)
		}
	}
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		name := ""
		if len(in.Sweeps) > 1 {
			name = s.Name
		}
		if s.Status == result.Interrupted {
			add(engine.Warning{Code: "interrupted", Text: "the sweep was interrupted: points are missing", Remedy: "run it again with --resume"}, name)
		}
		for _, w := range s.Warnings {
			add(w, name)
		}
		for _, p := range s.Points {
			if p.Status != result.OK {
				add(engine.Warning{Code: "failed", Text: "points failed or were not run: see the tables"}, strings.TrimPrefix(name+", "+pointLabel(p), ", "))
			} else if p.Problem != "" {
				add(engine.Warning{Code: "damaged", Text: "part of a point's folder could not be read: " + p.Problem}, name)
			}
			if p.Run == nil {
				continue
			}
			for _, w := range p.Run.Warnings {
				if slices.Contains(s.Warnings, w) {
					continue
				}
				add(w, strings.TrimPrefix(name+", "+pointLabel(p), ", "))
			}
			for _, check := range p.Run.Checks {
				if !check.OK {
					add(engine.Warning{Code: "check", Text: "self-check failed: " + check.Name}, strings.TrimPrefix(name+", "+pointLabel(p), ", "))
				}
			}
		}
	}
	for key, i := range index {
		if len(where[key]) < len(in.Sweeps) || len(in.Sweeps) == 1 { // else it holds everywhere
			out[i].Where = clip(strings.Join(where[key], "; "), 200)
		}
	}
	return out
}

// pointLabel tells a point by all its axes.
func pointLabel(p Point) string {
	var parts []string
	for axis, value := range p.Axes {
		parts = append(parts, axisValue(axis, value))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return cacheText(p)
	}
	return strings.Join(parts, ", ")
}

func view(t table) *tableView {
	if len(t.Rows) == 0 {
		return nil
	}
	v := &tableView{Columns: t.Columns}
	for _, r := range t.Rows {
		v.Rows = append(v.Rows, rowView{r, t.Columns})
	}
	return v
}
