package engines

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// maxDetailed is how many curves get charts of their own: a page stays below
// 1 MB. Further ones are in the compared charts and in the tables.
const maxDetailed = 4

// Picture draws the main chart as a PNG: the stacked reads of one curve, or the
// block reads of several in one picture.
func (in Input) Picture(w io.Writer) error {
	curves := in.curves()
	var pic *view.Picture
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
	return pic.Png(w)
}

// Page is what a browser shows.
func (in Input) Page() (*view.Page, error) {
	curves := in.curves()
	p := &view.Page{Title: "Statelab: what a lookup costs", Warnings: in.doubts()}
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		name := s.Name
		if name == "" {
			name = "settings"
		}
		p.Cards = append(p.Cards, view.Card{Name: name, Facts: s.settings()})
		if len(s.Points) == 0 {
			p.Answers = append(p.Answers, view.Said{Of: s.Name, Text: curve{sweep: s, x: "cache"}.sentence()})
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
				p.Answers = append(p.Answers, view.Said{Of: of, Text: text})
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
		p.Answers = append(p.Answers, view.Said{Of: of, Text: c.sentence()})
		if line := c.beyond(); line != "" {
			p.Advice = append(p.Advice, view.Said{Of: strings.TrimSuffix(of, ":"), Text: line})
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
func addCharts(p *view.Page, in Input, curves []curve) error {
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		if !s.compares() {
			continue
		}
		title := "Compared"
		if len(in.Sweeps) > 1 {
			title += ": " + s.Name
		}
		if err := p.AddFigures(title, s.comparedEngines()); err != nil {
			return err
		}
	}
	if len(curves) == 1 {
		return errors.Join(addCurves(p, curves), addSpeed(p, in))
	}
	byCache := slices.DeleteFunc(slices.Clone(curves), func(c curve) bool { return c.sweep.compares() })
	return errors.Join(p.AddFigures("Compared", comparedFigures(byCache, len(in.Sweeps) > 1)), addSpeed(p, in), addCurves(p, curves))
}

func addCurves(p *view.Page, curves []curve) error {
	for i, c := range curves {
		title := c.name(false)
		if title == "" {
			title = "Measured"
		}
		if i == maxDetailed {
			p.Sections = append(p.Sections, view.Section{Title: "Further curves", Blocks: []view.Block{{
				Note: unit.Count(len(curves)-i) + " more curves have no charts of their own here: their points are in the tables above. A report of fewer sweeps shows them."}}})
			break
		}
		if err := p.AddFigures(title, curveFigures(c)); err != nil {
			return err
		}
	}
	return nil
}

func addSpeed(p *view.Page, in Input) error {
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		title := "Speed"
		if len(in.Sweeps) > 1 {
			title += ": " + s.Name
		}
		figures := axisFigures(s)
		if s.Disk != nil {
			figures = append(figures, view.Figure{Title: "The disk's own limit", Note: "Random 4-KiB reads with O_DIRECT, without an engine: " + s.Disk.Dir + ".", Method: "engines.md", Table: ceilingTable(s)})
		}
		if err := p.AddFigures(title, figures); err != nil {
			return err
		}
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
func comparedFigures(curves []curve, shares bool) []view.Figure {
	var out []view.Figure
	for _, f := range []struct {
		title, y, unit, method string
		value                  func(result.Figures) *float64
		print                  func(float64) string
	}{
		{"Block reads per Get", "block reads per Get", "block reads/Get", "reads.md", blockReads, view.PerGet},
		{"Index hit rate", "hit rate of index blocks, %", "%", "reads.md", hitRate("index"), view.Number},
		{"Overall hit rate", "hit rate of all blocks, %", "%", "reads.md", hitRate("all"), view.Number},
		{"Device reads per Get", "device reads per Get", "device reads/Get", "device-reads.md", func(f result.Figures) *float64 { return f.DeviceReadsPerGet }, view.PerGet},
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
		if len(curves) > view.MaxLines {
			note += fmt.Sprintf(" %d curves are drawn; the table has all %d.", view.MaxLines, len(curves))
		}
		out = append(out, view.Figure{Title: f.title, Note: note, Method: f.method, Pic: pic, Table: overlayTable(curves, f.unit, f.value, f.print)})
	}
	return out
}

// curveFigures are the charts of one curve.
func curveFigures(c curve) []view.Figure {
	var out []view.Figure
	add := func(f view.Figure) {
		if f.Pic != nil {
			out = append(out, f)
		}
	}
	if reads := (view.Figure{Title: "Block reads per Get, by type", Method: "reads.md", Table: readsTable(c)}); c.x == "cache" && len(c.withReads()) > 1 {
		reads.Pic = readsChart(c)
		reads.Note = "Each band is a block type; the line joins what was measured." + marksNote(c.sweep.Inflection)
		add(reads)
	} else {
		reads.Pic = typeBars(c)
		reads.Note = "Each part of a bar is a block type."
		add(reads)
	}
	if c.x == "cache" {
		add(view.Figure{Title: "Hit rate, by type", Note: "Share of block accesses that the cache served.", Method: "reads.md", Pic: hitRateChart(c), Table: hitRateTable(c)})
		add(view.Figure{Title: "Overall hit rate", Note: "All block types together. It hides what the types show: most accesses are of blocks that are always cached.", Method: "reads.md",
			Pic: overlay([]curve{c}, false, "overall hit rate by cache size", "hit rate of all blocks, %", hitRate("all"), false), Table: hitRateTable(c).Only("cache", "phase", "all")})
		add(view.Figure{Title: "Block reads against device reads", Note: "The number at a point is the agreement: device reads / block reads." + countedBy(c), Method: "device-reads.md", Pic: deviceChart(c), Table: deviceTable(c)})
	}
	if t, ok := levelReads(c); ok {
		out = append(out, view.Figure{Title: "Block reads per Get, by level", Method: "reads.md", Table: t})
	}
	service := func(f result.Figures) *result.Latency { return f.ServiceNanos }
	response := func(f result.Figures) *result.Latency { return f.ResponseNanos }
	add(view.Figure{Title: "Service time", Note: "From the call to its return. The axis stretches towards 100%: each step to the right is a tenth of the Gets left.", Method: "reads.md",
		Pic: latencyChart(c, "service", func(p Point) *hdrhistogram.Histogram { return p.Service }), Table: latencyTable(c, service)})
	add(view.Figure{Title: "Response time", Note: "From when the schedule wanted the call to its return: waiting included.", Method: "reads.md",
		Pic: latencyChart(c, "response", func(p Point) *hdrhistogram.Histogram { return p.Response }), Table: latencyTable(c, response)})
	pic, all := seriesChart(c)
	add(view.Figure{Title: "Second by second", Note: "Warm-up before 0, measured after it. Flat lines mean that the figures are of a steady state.", Method: "reads.md", Pic: pic, Table: seriesTable(c, all)})
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
func levelReads(c curve) (view.Table, bool) {
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
		t.Columns = append(t.Columns, view.Column{Name: name, Unit: "per Get"})
	}
	c.rows(&t, func(p Point) []string {
		var cells []string
		for _, name := range used {
			cells = append(cells, view.Counted(p.Figures.BlockReadsPerGetByLevel, name))
		}
		return cells
	})
	return t, len(used) > 0
}

// doubts are the warnings of sweeps and runs, each once, with where it holds.
func (in Input) doubts() []view.Warning {
	var out []view.Warning
	index := map[[2]string]int{}
	where := map[[2]string][]string{}
	add := func(w engine.Warning, at string) {
		key := [2]string{w.Code, w.Text}
		if _, known := index[key]; !known {
			index[key] = len(out)
			out = append(out, view.Warning{Text: w.Text, Remedy: w.Remedy})
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
			out[i].Where = view.Clip(strings.Join(where[key], "; "), 200)
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
