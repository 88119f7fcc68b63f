package engines

import (
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// textWidth is the width of a terminal nobody has resized.
const textWidth = 80

// Text writes the answer and its table for a terminal of 80 columns.
func (in Input) Text(w io.Writer) error {
	out := view.NewText(w, textWidth)
	for i, s := range in.Sweeps {
		if i > 0 {
			out.Line("")
		}
		if i == mostSampled {
			out.Wrap(unit.Count(len(in.Sweeps)-i)+" more folders are not shown here; the page has a table of them, which --csv FILE writes for a program.", "")
			break
		}
		s.text(out, len(in.Sweeps) > 1)
	}
	return out.Flush()
}

func (s *Sweep) text(out *view.Text, named bool) {
	curves := s.curves(s.xAxis())
	if s.compares() {
		curves = s.comparisons()
	} else if len(curves) == 0 {
		curves = []curve{{sweep: s, x: "cache"}}
	}
	for _, c := range curves {
		for _, text := range c.answers() {
			out.Wrap(before(c.heading(named), ": ")+text, "")
		}
	}
	if s.Status == result.Interrupted {
		out.Wrap("Interrupted: what follows was measured until then.", "")
	}
	out.Warnings(s.damages())
	out.Line("")
	out.Wrap(s.oneLine(), "")
	for _, c := range curves {
		if s.compares() || c.looksUp() {
			c.tables(out)
		}
	}
	paragraph := func(indent string, lines ...string) {
		if len(lines) > 0 {
			out.Line("")
		}
		for _, line := range lines {
			out.Wrap(line, indent)
		}
	}
	out.Part(s.ledger())
	for _, l := range s.laws() {
		paragraph("  ", l.sentences()...)
	}
	if s.compares() {
		s.enginesText(out, curves[0], paragraph)
	}
	if !slices.Contains(s.varied, "engine") || !s.compares() {
		paragraph("    ", inflectionLines(s.Inflection, s.Database.Bytes, reservedOf(s.Points))...)
	}
	if !s.compares() {
		paragraph("  ", adviceOf(curves)...)
	}
}

// tables are the curve's points, in as many tables as they need.
func (c curve) tables(out *view.Text) {
	out.Line("")
	if c.label != "" {
		out.Line(view.Clip(c.label, textWidth))
	}
	if !c.sweep.compares() {
		out.Table(c.readsTable())
		if text := c.tooLarge(); text != "" {
			out.Wrap(text, "")
		}
		return
	}
	out.Table(c.speedTable())
	if t := c.handlesTable(); len(t.Rows) > 0 {
		out.Line("")
		out.Table(t)
		out.Wrap(c.missSentence(), "  ")
	}
}

// adviceOf is a list of what to measure next.
func adviceOf(curves []curve) (lines []string) {
	if len(curves) == 1 {
		lines = curves[0].advice()
	} else {
		for _, c := range curves {
			if line := c.beyond(); line != "" { // the rest is in the sentences above
				lines = append(lines, c.label+": "+line)
			}
		}
	}
	return view.Each(lines, func(line string) string { return "- " + line })
}

// enginesText tells of each engine's memory and, where something was written, what a kill leaves
// of that; and what others published.
func (s *Sweep) enginesText(out *view.Text, c curve, paragraph func(indent string, lines ...string)) {
	if line := c.pagesNote(); line != "" {
		paragraph("  ", line)
	}
	var lines []string
	for _, p := range c.ofEachEntrant() {
		told := memorySpent(p.Run.Memory)
		if p.Figures.Puts > 0 {
			told = p.Run.Engine.Durability + ". " + told
		}
		if told = strings.Trim(told, ". "); told != "" {
			lines = append(lines, p.Run.Engine.Name+" "+p.Run.Engine.Version+": "+told)
		}
	}
	paragraph("  ", lines...)
	for _, b := range s.published() {
		paragraph("", b.Title+". "+b.Note)
		out.Table(b.Table)
	}
}

// answers are the sentences of a curve, about engines or about cache sizes.
func (c curve) answers() []string {
	if c.sweep.compares() {
		return c.sentences()
	}
	return []string{c.sentence()}
}

// looksUp reports whether any point made Gets, or should have.
func (c curve) looksUp() bool {
	return slices.ContainsFunc(c.pts, func(p Point) bool { return p.Figures.Gets > 0 || p.Status != result.OK })
}

// oneLine are the settings in one sentence.
func (s *Sweep) oneLine() string {
	var parts []string
	if s.Name != "" {
		parts = append(parts, s.Name)
	}
	for _, kv := range s.settings() {
		switch kv[0] {
		case "engine", "profile", "workload", "database", "options that differ":
			parts = append(parts, kv[1])
		case "keys":
			parts = append(parts, kv[1]+" keys")
		case "threads":
			parts = append(parts, counted1("threads", strings.Split(kv[1], ", ")))
		case "seed", "page cache":
			parts = append(parts, kv[0]+" "+kv[1])
		}
	}
	return strings.Join(parts, ", ")
}

// readsTable is what the points of a curve read, in the columns a terminal has room for.
//
// "top index" counts top-level indexes and the whole indexes of tables too small
// for two levels: both are what a Get reads to find its way inside a table.
func (c curve) readsTable() view.Table {
	times := view.TimeScale(latency("", service, p50Of).Values(c.measured()))
	speed := gets
	speed.Format = func(v float64) string {
		if v >= 1e6 {
			return view.ShortCount(v)
		}
		return view.Number(v)
	}
	columns := []column{blockReads, readsOf("filter reads", engine.Filter), readsOf("top index reads", engine.TopIndex, engine.SingleIndex),
		readsOf("index reads", engine.Index), readsOf("data reads", engine.Data)}
	values := readsOf("value reads", engine.Value)
	if slices.ContainsFunc(values.Values(c.measured()), func(v float64) bool { return v > 0 }) {
		columns = append(columns, values)
	}
	columns = append(columns, deviceReads, latency("p50", service, p50Of).In(times), latency("p99", service, p99Of).In(times), speed)
	return view.TableOf(c.pts, failure, append(c.keys(), columns...)...)
}
