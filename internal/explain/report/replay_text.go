package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// ReplayText prints the answer, the table of figures and what they stand on.
func ReplayText(w io.Writer, in ReplayInput) error {
	out := bufio.NewWriter(w)
	for _, answer := range in.answers() {
		fmt.Fprintln(out, wrap(answer, 80, "  "))
	}
	for _, part := range []table{in.speedTable(), in.stateTable()} {
		fmt.Fprintln(out)
		printTable(out, part)
	}
	fmt.Fprintln(out, "\ndurability and history: what a faster tree may have left out")
	for _, t := range in.trees {
		fmt.Fprintln(out, "  "+wrap(fmt.Sprintf("%s: %s; history: %s", t.Tree, t.Durability, t.History), 78, "    "))
	}
	fmt.Fprintln(out, "\ncounters that have to repeat:")
	for _, c := range in.Counters {
		fmt.Fprintln(out, "  "+wrap(countersSentence(c), 78, "    "))
	}
	if line := in.harness(); line != "" {
		fmt.Fprintln(out, "\n"+wrap(line, 80, "  "))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the replay: %w", err)
	}
	return nil
}

// printTable aligns numbers to the right; a failed row tells why.
func printTable(w io.Writer, t table) {
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var heads, units []string
	for _, c := range t.Columns {
		heads, units = append(heads, c.Name), append(units, c.Unit)
	}
	width := max(len(heads[0]), len(units[0]))
	for _, r := range t.Rows {
		width = max(width, len(r.Cells[0]))
	}
	left := func(text string) string { return text + strings.Repeat(" ", width-len(text)) }
	fmt.Fprintf(aligned, "%s\t%s\t\n", left(heads[0]), strings.Join(heads[1:], "\t"))
	fmt.Fprintf(aligned, "%s\t%s\t\n", left(units[0]), strings.Join(units[1:], "\t"))
	var failed []row
	for _, r := range t.Rows {
		if r.Failed {
			failed = append(failed, r)
			continue
		}
		fmt.Fprintf(aligned, "%s\t%s\t\n", left(r.Cells[0]), strings.Join(r.Cells[1:], "\t"))
	}
	aligned.Flush() // into a bufio.Writer, which keeps its error
	for _, r := range failed {
		fmt.Fprintln(w, wrap(r.Cells[0]+" failed: "+r.Note, 80, "  "))
	}
}

// rows adds a row per tree, the failed ones with their reason.
func (in ReplayInput) rows(t *table, cells func(replayed) []string) {
	for _, of := range in.trees {
		if of.Status != result.OK {
			t.Rows = append(t.Rows, row{Cells: []string{of.Tree}, Failed: true, Note: of.Error})
			continue
		}
		t.Rows = append(t.Rows, row{Cells: append([]string{of.Tree}, cells(of)...)})
	}
}

// speedTable holds what a tree does in a second.
func (in ReplayInput) speedTable() table {
	t := table{Columns: []column{{Name: "tree", Text: true}, {Name: "leaves", Unit: "per s"}, {Name: "repeats", Unit: "from to"}, {Name: "settled", Unit: "per s"}, {Name: "nodes", Unit: "per s"},
		{Name: "commit", Unit: "p50 ms"}, {Name: "commit", Unit: "p99 ms"}, {Name: "db gets", Unit: "per s"}, {Name: "Get", Unit: "p50 us"}}}
	ms, us := scale{"ms", 1e6}, scale{"us", 1e3}
	in.rows(&t, func(of replayed) []string {
		f := of.Figures
		p50, p99, get := none, none, none
		if f.CommitNanos != nil {
			p50, p99 = ms.in(float64(f.CommitNanos.P50)), ms.in(float64(f.CommitNanos.P99))
		}
		if f.ServiceNanos != nil {
			get = us.in(float64(f.ServiceNanos.P50))
		}
		spread := none
		if r, ok := of.Spread["leaves_per_second"]; ok {
			spread = unit.ShortCount(r.Low) + " " + unit.ShortCount(r.High)
		}
		settled := none
		if f.SettledPerSecond < .99*f.LeavesPerSecond {
			settled = number(f.SettledPerSecond)
		}
		return []string{number(f.LeavesPerSecond), spread, settled, optional(f.NodesPerSecond, number), p50, p99, optional(f.DBGetsPerSecond, number), get}
	})
	t.drop()
	return t
}

// stateTable holds what a tree has become and what it takes.
func (in ReplayInput) stateTable() table {
	var disks, memories []int64
	for _, of := range in.trees {
		memories = append(memories, of.Figures.PeakRSSBytes)
		if d := of.Figures.DiskBytes; d != nil {
			disks = append(disks, *d)
		}
	}
	disk, memory := byteScale(disks), byteScale(memories)
	t := table{Columns: []column{{Name: "tree", Text: true}, {Name: "memory", Unit: memory.name}, {Name: "disk", Unit: disk.name}, {Name: "written", Unit: "x changes"},
		{Name: "tree size", Unit: "leaves"}, {Name: "height"}, {Name: "cache hits"}, {Name: "misses"}}}
	in.rows(&t, func(of replayed) []string {
		f := of.Figures
		height := none
		if f.TreeHeight != nil {
			height = fmt.Sprint(*f.TreeHeight)
		}
		return []string{positive(float64(f.PeakRSSBytes), memory.in), counting(f.DiskBytes, disk.in), optional(f.DeviceWriteAmplification, number),
			counting(f.TreeSize, number), height, counting(f.CacheHits, number), counting(f.CacheMisses, number)}
	})
	t.drop()
	return t
}

// counting prints a count that may be absent.
func counting(n *int64, print func(float64) string) string {
	if n == nil {
		return none
	}
	return print(float64(*n))
}

// harness says how much of the fastest tree's time was the harness'.
func (in ReplayInput) harness() string {
	worst, of := 0.0, replayed{}
	for _, t := range in.trees {
		if p := t.Figures.HarnessPercent; t.Status == result.OK && t.RootRule != result.NoRoots && p != nil && *p > worst {
			worst, of = *p, t
		}
	}
	if of.Tree == "" {
		return ""
	}
	return fmt.Sprintf("Harness: %s per leaf, %s%% of the time of %s, the most of any tree here.", unit.Nanos(*of.Figures.HarnessNanos), unit.Significant(worst, 2), of.Tree)
}
