package engines

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Text writes the answer and its table for a terminal of 80 columns.
func (in Input) Text(w io.Writer) error {
	out := bufio.NewWriter(w)
	for i := range in.Sweeps {
		s := &in.Sweeps[i]
		if i > 0 {
			fmt.Fprintln(out)
		}
		s.text(out, len(in.Sweeps) > 1)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// text writes one sweep: bufio keeps the first error for Flush.
func (s *Sweep) text(out *bufio.Writer, named bool) {
	if s.compares() {
		s.compareText(out, named)
		return
	}
	curves := s.curves(s.xAxis())
	if len(curves) == 0 {
		curves = []curve{{sweep: s, x: "cache"}}
	}
	for _, c := range curves {
		heading := c.label
		if named {
			heading = c.name(false)
		}
		if heading != "" {
			heading += ": "
		}
		fmt.Fprintln(out, view.Wrap(heading+c.sentence(), view.TextWidth, ""))
	}
	if s.Status == result.Interrupted {
		fmt.Fprintln(out, view.Wrap("Interrupted: what follows was measured until then.", view.TextWidth, ""))
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out, view.Wrap(s.oneLine(), view.TextWidth, ""))
	for _, c := range curves {
		if c.looksUp() {
			fmt.Fprintln(out)
			c.textTable(out)
		}
	}
	if lines := inflectionLines(s.Inflection); lines != nil {
		fmt.Fprintln(out)
		for _, line := range lines {
			fmt.Fprintln(out, view.Wrap(line, view.TextWidth, "    "))
		}
	}
	var advice []string
	for _, c := range curves {
		if len(curves) == 1 {
			advice = c.advice()
		} else if line := c.beyond(); line != "" { // the rest is in the sentences above
			advice = append(advice, c.label+": "+line)
		}
	}
	if len(advice) > 0 {
		fmt.Fprintln(out)
	}
	for _, line := range advice {
		fmt.Fprintln(out, view.Wrap("- "+line, view.TextWidth, "  "))
	}
}

// compareText writes a sweep about engines, threads or handles.
func (s *Sweep) compareText(out *bufio.Writer, named bool) {
	arenas := s.arenas()
	for _, a := range arenas {
		heading := a.heading(named)
		if heading != "" {
			heading += ": "
		}
		for _, text := range a.sentences() {
			fmt.Fprintln(out, view.Wrap(heading+text, view.TextWidth, ""))
		}
	}
	if s.Status == result.Interrupted {
		fmt.Fprintln(out, view.Wrap("Interrupted: what follows was measured until then.", view.TextWidth, ""))
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out, view.Wrap(s.oneLine(), view.TextWidth, ""))
	for _, a := range arenas {
		fmt.Fprintln(out)
		if a.label != "" {
			fmt.Fprintln(out, view.Clip(a.label, view.TextWidth))
		}
		a.text(out)
	}
	if len(arenas) > 0 {
		arenas[0].entrantsText(out)
	}
	for _, f := range s.besidePublished() {
		fmt.Fprintln(out)
		fmt.Fprintln(out, view.Wrap(f.Title+". "+f.Note, view.TextWidth, ""))
		view.PrintAligned(out, f.Table)
	}
	if lines := inflectionLines(s.Inflection); lines != nil && !slices.Contains(s.varying(), "engine") {
		fmt.Fprintln(out)
		for _, line := range lines {
			fmt.Fprintln(out, view.Wrap(line, view.TextWidth, "    "))
		}
	}
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
		case "engine", "profile", "workload":
			parts = append(parts, kv[1])
		case "keys", "threads":
			parts = append(parts, kv[1]+" "+kv[0])
		case "seed", "page cache":
			parts = append(parts, kv[0]+" "+kv[1])
		case "database":
			parts = append(parts, kv[1])
		}
	}
	return strings.Join(parts, ", ")
}

// textTable writes the points of one curve.
//
// "top ix" counts top-level indexes and the whole indexes of tables too small
// for two levels: both are what a Get reads to find its way inside a table.
func (c curve) textTable(out *bufio.Writer) {
	size := c.cacheScale()
	var p50s []float64
	for _, p := range c.measured() {
		if l := p.Figures.ServiceNanos; l != nil {
			p50s = append(p50s, float64(l.P50))
		}
	}
	clock := view.TimeScale(p50s)
	first, firstUnit := "cache", size.Name
	if c.x != "cache" {
		first, firstUnit = view.Clip(c.x, 8), ""
	}
	if c.label != "" {
		fmt.Fprintln(out, view.Clip(c.label, view.TextWidth))
	}
	const format = "%8s %6s %2s %6s %6s %6s %6s %6s %6s %5s %5s %7s\n"
	fmt.Fprintf(out, "%8s %6s %2s %6s %6s %6s %6s %6s %6s\n", "", "", "", "block", "filter", "top ix", "index", "data", "device")
	fmt.Fprintf(out, "%8s %6s %2s %6s %6s %6s %6s %6s %6s %5s %5s\n", first, "% of", "", "reads", "reads", "reads", "reads", "reads", "reads", "p50", "p99")
	fmt.Fprintf(out, format, firstUnit, "DB", "ph", "/Get", "/Get", "/Get", "/Get", "/Get", "/Get", clock.Name, clock.Name, "Gets/s")
	for _, p := range c.pts {
		at := view.Positive(float64(p.CacheBytes), size.In)
		if c.x != "cache" {
			at = view.Clip(p.Axes[c.x], 8)
		}
		phase := view.None
		if p.Phase > 0 {
			phase = fmt.Sprint(p.Phase)
		}
		head := fmt.Sprintf("%8s %6s %2s", at, view.Positive(p.CachePercent, view.Number), phase)
		if p.Status != result.OK {
			fmt.Fprintln(out, wrapAfter(head, "failed: "+reason(p)))
			continue
		}
		f := p.Figures
		p50, p99 := view.None, view.None
		if f.ServiceNanos != nil {
			p50, p99 = clock.In(float64(f.ServiceNanos.P50)), clock.In(float64(f.ServiceNanos.P99))
		}
		fmt.Fprintf(out, "%s %6s %6s %6s %6s %6s %6s %5s %5s %7s\n", head, view.Optional(f.BlockReadsPerGet, view.PerGet),
			readsOf(f, engine.Filter), readsOf(f, engine.TopIndex, engine.SingleIndex), readsOf(f, engine.Index), readsOf(f, engine.Data),
			view.Optional(f.DeviceReadsPerGet, view.PerGet), p50, p99, view.Positive(f.GetsPerSecond, rate))
	}
}

// readsOf sums the block reads per Get of some types.
func readsOf(f result.Figures, kinds ...engine.BlockType) string {
	if len(f.BlockReadsPerGetByType) == 0 {
		return view.None
	}
	sum := 0.0
	for _, kind := range kinds {
		sum += f.BlockReadsPerGetByType[kind.String()]
	}
	return view.PerGet(sum)
}

// rate prints a speed in 7 columns.
func rate(v float64) string {
	if v >= 1e6 {
		return unit.ShortCount(v)
	}
	return view.Number(v)
}

// wrapAfter continues head with text, wrapped below where it began.
func wrapAfter(head, text string) string {
	at := len([]rune(head)) + 1
	return head + " " + strings.ReplaceAll(view.Wrap(text, view.TextWidth-at, ""), "\n", "\n"+strings.Repeat(" ", at))
}
