package engines

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// columns that say which point of an arena a row is.
func (a arena) keys() []view.Column {
	var keys []view.Column
	if a.rivals() {
		keys = append(keys, view.Column{Name: "engine", Text: true})
	}
	if a.along != "" {
		keys = append(keys, view.Column{Name: a.along})
	}
	return keys
}

// add adds a row per point, the failed ones without figures.
func (a arena) add(t *view.Table, figures func(Point) []string) {
	for _, p := range a.pts {
		var cells []string
		if a.rivals() {
			cells = append(cells, a.sweep.entrant(p))
		}
		if a.along != "" {
			cells = append(cells, p.Axes[a.along])
		}
		if p.Status != result.OK {
			t.Rows = append(t.Rows, view.Row{Cells: cells, Failed: true, Note: reason(p)})
			continue
		}
		t.Rows = append(t.Rows, view.Row{Cells: append(cells, figures(p)...)})
	}
}

// speedTable is what every point costs, in the columns a terminal has room for.
// Device reads where every point has them, else bytes: one unit down a column.
func (a arena) speedTable() view.Table {
	ok := a.measured()
	t := view.Table{Columns: append(a.keys(), view.Column{Name: "Kops", Unit: "/s"}, view.Column{Name: "repeats", Unit: "from to"})}
	latency, kind := func(f result.Figures) *result.Latency { return f.ServiceNanos }, ""
	if a.along == "rate" {
		latency, kind = func(f result.Figures) *result.Latency { return f.ResponseNanos }, "resp."
	}
	reads := !slices.ContainsFunc(ok, func(p Point) bool { return p.Figures.DeviceReadsPerGet == nil })
	device := view.Column{Name: "device", Unit: "B/Get"}
	if reads {
		device.Unit = "/Get"
	}
	if kind != "" {
		t.Columns = append(t.Columns, view.Column{Name: kind, Unit: "p50 us"}, view.Column{Name: kind, Unit: "p99 us"})
	} else {
		t.Columns = append(t.Columns, view.Column{Name: "mean", Unit: "us"}, view.Column{Name: "p99", Unit: "us"})
	}
	memory := view.Scale{Name: "MiB", Size: 1 << 20}
	t.Columns = append(t.Columns, view.Column{Name: "CPU", Unit: "%"}, view.Column{Name: "block", Unit: "/Get"}, device, view.Column{Name: "switch", Unit: "/Get"}, view.Column{Name: "switch", Unit: "% time"}, view.Column{Name: "memory", Unit: memory.Name})
	us, kilo := view.Scale{Name: "us", Size: 1e3}, view.Scale{Name: "K", Size: 1e3}
	a.add(&t, func(p Point) []string {
		f := p.Figures
		first, p99 := view.None, view.None
		if l := latency(f); l != nil {
			first, p99 = us.In(l.Mean), us.In(float64(l.P99))
			if kind != "" {
				first = us.In(float64(l.P50))
			}
		}
		dev := view.Optional(f.DeviceReadBytesPerGet, view.Number)
		if reads {
			dev = view.Optional(f.DeviceReadsPerGet, view.PerGet)
		}
		spread := view.None
		if r, known := p.Spread["gets_per_second"]; known && len(p.Runs) > 1 {
			spread = kilo.In(r.Low) + " " + kilo.In(r.High)
		}
		share := view.None
		if f.SwitchShare != nil {
			share = view.Number(100 * *f.SwitchShare)
		}
		return []string{view.Positive(f.GetsPerSecond, kilo.In), spread, first, p99, view.Positive(f.CPUPercent, view.Number), view.Optional(f.BlockReadsPerGet, view.PerGet), dev, view.PerGet(f.SwitchesPerGet), share, view.Positive(float64(f.PeakRSSBytes), memory.In)}
	})
	t.Drop()
	return t
}

// efficiencyTable is what a Get takes of the machine.
func (a arena) efficiencyTable() view.Table {
	memory, us := view.Scale{Name: "MiB", Size: 1 << 20}, view.Scale{Name: "us", Size: 1e3}
	t := view.Table{Columns: append(a.keys(), view.Column{Name: "block reads", Unit: "/Get"}, view.Column{Name: "device reads", Unit: "/Get"}, view.Column{Name: "device bytes", Unit: "/Get"}, view.Column{Name: "read calls", Unit: "/Get"},
		view.Column{Name: "major faults", Unit: "/Get"}, view.Column{Name: "CPU", Unit: "us/Get"}, view.Column{Name: "peak RSS", Unit: memory.Name}, view.Column{Name: "budget", Unit: memory.Name}, view.Column{Name: "disk's limit", Unit: "% reached"})}
	a.add(&t, func(p Point) []string {
		f := p.Figures
		budget, reached := view.None, view.None
		if p.Run != nil && p.Run.Memory != nil {
			budget = view.Positive(float64(p.Run.Memory.BudgetBytes), memory.In)
		}
		if l, ok := a.sweep.limitOf(p); ok {
			reached = sharePercent(l.share)
		}
		return []string{view.Optional(f.BlockReadsPerGet, view.PerGet), view.Optional(f.DeviceReadsPerGet, view.PerGet), view.Optional(f.DeviceReadBytesPerGet, view.Number), view.PerGet(f.ReadCallsPerGet), view.PerGet(f.MajorFaultsPerGet),
			view.Positive(f.CPUNanosPerGet, us.In), view.Positive(float64(f.PeakRSSBytes), memory.In), budget, reached}
	})
	t.Drop()
	return t
}

// entrantTable says what each engine is: version, what survives, and how its
// budget was spent.
func (a arena) entrantTable() view.Table {
	t := view.Table{Columns: []view.Column{{Name: "engine", Text: true}, {Name: "version", Text: true}, {Name: "survives", Text: true}, {Name: "memory", Text: true}, {Name: "block reads are", Text: true}}}
	for _, name := range a.entrants() {
		for _, p := range a.of(name) {
			if p.Run == nil || p.Status != result.OK {
				continue
			}
			source := p.Figures.BlockReadSource
			if source == "" && p.Figures.BlockReadsPerGet != nil {
				source = "counted at the file layer, or by the engine"
			}
			e := p.Run.Engine
			t.Add(e.Name, e.Version, e.Durability, memorySpent(p.Run.Memory), source)
			break
		}
	}
	t.Drop()
	return t
}

// memorySpent is how one budget came to be used.
func memorySpent(m *result.Memory) string {
	if m == nil {
		return ""
	}
	var parts []string
	for _, share := range m.Shares {
		text := share.Use + " " + view.ShortBytes(share.Bytes)
		if share.Basis != "limit" && share.Basis != "" {
			text += " " + share.Basis
		}
		parts = append(parts, text)
	}
	if m.PageCacheBytes != nil {
		text := "page cache up to " + view.ShortBytes(*m.PageCacheBytes)
		if m.HeldBy != "" {
			text += ", held by " + m.HeldBy
		}
		if *m.PageCacheBytes == 0 && m.HeldBy != "" {
			text = m.HeldBy
		}
		parts = append(parts, text)
	}
	if m.BudgetBytes > 0 {
		return view.ShortBytes(m.BudgetBytes) + ": " + strings.Join(parts, "; ")
	}
	return strings.Join(parts, "; ")
}

// text writes an arena for a terminal.
func (a arena) text(out *bufio.Writer) {
	view.PrintAligned(out, a.speedTable())
	for _, line := range a.failures() {
		fmt.Fprintln(out, view.Wrap(line, view.TextWidth, "  "))
	}
	if t := a.handlesTable(); len(t.Rows) > 0 {
		fmt.Fprintln(out)
		view.PrintAligned(out, t)
		fmt.Fprintln(out, view.Wrap(a.missSentence(), view.TextWidth, "  "))
	}
}

// entrantsText tells what each engine leaves after a kill, and of its memory.
func (a arena) entrantsText(out *bufio.Writer) {
	if line := a.pagesNote(); line != "" {
		fmt.Fprintln(out)
		fmt.Fprintln(out, view.Wrap(line, view.TextWidth, "  "))
	}
	if t := a.entrantTable(); slices.ContainsFunc(t.Columns, func(c view.Column) bool { return c.Name == "survives" || c.Name == "memory" }) {
		fmt.Fprintln(out)
		for _, r := range t.Rows {
			var told []string
			for i, cell := range r.Cells {
				if name := t.Columns[i].Name; cell != "" && (name == "survives" || name == "memory") {
					told = append(told, cell)
				}
			}
			if len(told) == 0 {
				continue
			}
			fmt.Fprintln(out, view.Wrap(r.Cells[0]+" "+r.Cells[1]+": "+strings.Join(told, ". "), view.TextWidth, "  "))
		}
	}
}

// pagesNote tells whose block reads are something else.
func (a arena) pagesNote() string {
	var names []string
	source := ""
	for _, p := range a.measured() {
		if s := p.Figures.BlockReadSource; s != "" {
			source = s
			if name := a.sweep.entrant(p); !slices.Contains(names, name) && name != "" {
				names = append(names, name)
			}
		}
	}
	switch {
	case source == "":
		return ""
	case len(names) == 0:
		return "Block reads are " + source + "."
	}
	return "Block reads of " + strings.Join(names, ", ") + " are " + source + "."
}
