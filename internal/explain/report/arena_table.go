package report

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/result"
)

// columns that say which point of an arena a row is.
func (a arena) keys() []column {
	var keys []column
	if a.rivals() {
		keys = append(keys, column{Name: "engine", Text: true})
	}
	if a.along != "" {
		keys = append(keys, column{Name: a.along})
	}
	return keys
}

// add adds a row per point, the failed ones without figures.
func (a arena) add(t *table, figures func(Point) []string) {
	for _, p := range a.pts {
		var cells []string
		if a.rivals() {
			cells = append(cells, a.sweep.entrant(p))
		}
		if a.along != "" {
			cells = append(cells, p.Axes[a.along])
		}
		if p.Status != result.OK {
			t.Rows = append(t.Rows, row{Cells: cells, Failed: true, Note: reason(p)})
			continue
		}
		t.Rows = append(t.Rows, row{Cells: append(cells, figures(p)...)})
	}
}

// speedTable is what every point costs, in the columns a terminal has room for.
// Device reads where every point has them, else bytes: one unit down a column.
func (a arena) speedTable() table {
	ok := a.measured()
	t := table{Columns: append(a.keys(), column{Name: "Kops", Unit: "/s"}, column{Name: "repeats", Unit: "from to"})}
	latency, kind := func(f result.Figures) *result.Latency { return f.ServiceNanos }, ""
	if a.along == "rate" {
		latency, kind = func(f result.Figures) *result.Latency { return f.ResponseNanos }, "resp."
	}
	reads := !slices.ContainsFunc(ok, func(p Point) bool { return p.Figures.DeviceReadsPerGet == nil })
	device := column{Name: "device", Unit: "B/Get"}
	if reads {
		device.Unit = "/Get"
	}
	if kind != "" {
		t.Columns = append(t.Columns, column{Name: kind, Unit: "p50 us"}, column{Name: kind, Unit: "p99 us"})
	} else {
		t.Columns = append(t.Columns, column{Name: "mean", Unit: "us"}, column{Name: "p99", Unit: "us"})
	}
	memory := scale{"MiB", 1 << 20}
	t.Columns = append(t.Columns, column{Name: "CPU", Unit: "%"}, column{Name: "block", Unit: "/Get"}, device, column{Name: "switch", Unit: "/Get"}, column{Name: "switch", Unit: "% time"}, column{Name: "memory", Unit: memory.name})
	us, kilo := scale{"us", 1e3}, scale{"K", 1e3}
	a.add(&t, func(p Point) []string {
		f := p.Figures
		first, p99 := none, none
		if l := latency(f); l != nil {
			first, p99 = us.in(l.Mean), us.in(float64(l.P99))
			if kind != "" {
				first = us.in(float64(l.P50))
			}
		}
		dev := optional(f.DeviceReadBytesPerGet, number)
		if reads {
			dev = optional(f.DeviceReadsPerGet, perGet)
		}
		spread := none
		if r, known := p.Spread["gets_per_second"]; known && len(p.Runs) > 1 {
			spread = kilo.in(r.Low) + " " + kilo.in(r.High)
		}
		share := none
		if f.SwitchShare != nil {
			share = number(100 * *f.SwitchShare)
		}
		return []string{positive(f.GetsPerSecond, kilo.in), spread, first, p99, positive(f.CPUPercent, number), optional(f.BlockReadsPerGet, perGet), dev, perGet(f.SwitchesPerGet), share, positive(float64(f.PeakRSSBytes), memory.in)}
	})
	t.drop()
	return t
}

// efficiencyTable is what a Get takes of the machine.
func (a arena) efficiencyTable() table {
	memory, us := scale{"MiB", 1 << 20}, scale{"us", 1e3}
	t := table{Columns: append(a.keys(), column{Name: "block reads", Unit: "/Get"}, column{Name: "device reads", Unit: "/Get"}, column{Name: "device bytes", Unit: "/Get"}, column{Name: "read calls", Unit: "/Get"},
		column{Name: "major faults", Unit: "/Get"}, column{Name: "CPU", Unit: "us/Get"}, column{Name: "peak RSS", Unit: memory.name}, column{Name: "budget", Unit: memory.name}, column{Name: "disk's limit", Unit: "% reached"})}
	a.add(&t, func(p Point) []string {
		f := p.Figures
		budget, reached := none, none
		if p.Run != nil && p.Run.Memory != nil {
			budget = positive(float64(p.Run.Memory.BudgetBytes), memory.in)
		}
		if l, ok := a.sweep.limitOf(p); ok {
			reached = sharePercent(l.share)
		}
		return []string{optional(f.BlockReadsPerGet, perGet), optional(f.DeviceReadsPerGet, perGet), optional(f.DeviceReadBytesPerGet, number), perGet(f.ReadCallsPerGet), perGet(f.MajorFaultsPerGet),
			positive(f.CPUNanosPerGet, us.in), positive(float64(f.PeakRSSBytes), memory.in), budget, reached}
	})
	t.drop()
	return t
}

// entrantTable says what each engine is: version, what survives, and how its
// budget was spent.
func (a arena) entrantTable() table {
	t := table{Columns: []column{{Name: "engine", Text: true}, {Name: "version", Text: true}, {Name: "survives", Text: true}, {Name: "memory", Text: true}, {Name: "block reads are", Text: true}}}
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
			t.add(e.Name, e.Version, e.Durability, memorySpent(p.Run.Memory), source)
			break
		}
	}
	t.drop()
	return t
}

// memorySpent is how one budget came to be used.
func memorySpent(m *result.Memory) string {
	if m == nil {
		return ""
	}
	var parts []string
	for _, share := range m.Shares {
		text := share.Use + " " + shortBytes(share.Bytes)
		if share.Basis != "limit" && share.Basis != "" {
			text += " " + share.Basis
		}
		parts = append(parts, text)
	}
	if m.PageCacheBytes != nil {
		text := "page cache up to " + shortBytes(*m.PageCacheBytes)
		if m.HeldBy != "" {
			text += ", held by " + m.HeldBy
		}
		if *m.PageCacheBytes == 0 && m.HeldBy != "" {
			text = m.HeldBy
		}
		parts = append(parts, text)
	}
	if m.BudgetBytes > 0 {
		return shortBytes(m.BudgetBytes) + ": " + strings.Join(parts, "; ")
	}
	return strings.Join(parts, "; ")
}

// text writes an arena for a terminal.
func (a arena) text(out *bufio.Writer) {
	printAligned(out, a.speedTable())
	for _, line := range a.failures() {
		fmt.Fprintln(out, wrap(line, textWidth, "  "))
	}
	if t := a.handlesTable(); len(t.Rows) > 0 {
		fmt.Fprintln(out)
		printAligned(out, t)
		fmt.Fprintln(out, wrap(a.missSentence(), textWidth, "  "))
	}
}

// entrantsText tells what each engine leaves after a kill, and of its memory.
func (a arena) entrantsText(out *bufio.Writer) {
	if line := a.pagesNote(); line != "" {
		fmt.Fprintln(out)
		fmt.Fprintln(out, wrap(line, textWidth, "  "))
	}
	if t := a.entrantTable(); slices.ContainsFunc(t.Columns, func(c column) bool { return c.Name == "survives" || c.Name == "memory" }) {
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
			fmt.Fprintln(out, wrap(r.Cells[0]+" "+r.Cells[1]+": "+strings.Join(told, ". "), textWidth, "  "))
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

// printAligned prints a table in the width of a terminal: first the ranges, then
// what the efficiency table of the page has too, give way where it is too wide.
func printAligned(out *bufio.Writer, t table) {
	for _, unwanted := range []string{"", "repeats", "switch", "memory"} {
		if unwanted != "" {
			t = t.without(unwanted)
		}
		if t.width(1) <= textWidth {
			break
		}
	}
	gap := 2
	if t.width(gap) > textWidth {
		gap = 1
	}
	widths := t.widths()
	print := func(cells []string) {
		var b strings.Builder
		for i, cell := range cells {
			space := strings.Repeat(" ", max(0, widths[i]-len([]rune(cell))))
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			if t.Columns[i].Text {
				b.WriteString(cell + space)
			} else {
				b.WriteString(space + cell)
			}
		}
		fmt.Fprintln(out, strings.TrimRight(clip(b.String(), textWidth), " "))
	}
	var heads, units []string
	for _, c := range t.Columns {
		heads, units = append(heads, c.Name), append(units, c.Unit)
	}
	print(heads)
	print(units)
	for _, r := range t.Rows {
		cells := r.Cells
		if r.Failed {
			cells = append(slices.Clone(cells), "failed")
			for len(cells) < len(t.Columns) {
				cells = append(cells, "")
			}
		}
		print(cells[:min(len(cells), len(t.Columns))])
	}
}

func (t table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = max(len([]rune(c.Name)), len([]rune(c.Unit)))
	}
	for _, r := range t.Rows {
		for i, cell := range r.Cells {
			if i < len(widths) {
				widths[i] = max(widths[i], len([]rune(cell)))
			}
		}
		if n := len(r.Cells); r.Failed && n < len(widths) {
			widths[n] = max(widths[n], len("failed"))
		}
	}
	return widths
}

// width of the table with a gap between its columns.
func (t table) width(gap int) int {
	sum := -gap
	for _, w := range t.widths() {
		sum += w + gap
	}
	return sum
}

// without drops the columns of a name.
func (t table) without(name string) table {
	var keep []string
	for _, c := range t.Columns {
		if c.Name != name {
			keep = append(keep, c.Name)
		}
	}
	return t.only(keep...)
}
