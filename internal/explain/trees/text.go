package trees

import (
	"bufio"
	"fmt"
	"io"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// Text prints the answer, the table of figures and what they stand on.
func (in Input) Text(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, answer := range in.answers() {
		fmt.Fprintln(out, view.Wrap(answer, 80, "  "))
	}
	for _, part := range []view.Table{in.speedTable(), in.stateTable()} {
		fmt.Fprintln(out)
		view.PrintTable(out, part)
	}
	fmt.Fprintln(out, "\ndurability and history: what a faster tree may have left out")
	for _, t := range in.trees {
		fmt.Fprintln(out, "  "+view.Wrap(fmt.Sprintf("%s: %s; history: %s", t.Tree, t.Durability, t.History), 78, "    "))
	}
	fmt.Fprintln(out, "\ncounters that have to repeat:")
	for _, c := range in.Counters {
		fmt.Fprintln(out, "  "+view.Wrap(countersSentence(c), 78, "    "))
	}
	if line := in.harness(); line != "" {
		fmt.Fprintln(out, "\n"+view.Wrap(line, 80, "  "))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the replay: %w", err)
	}
	return nil
}

// rows adds a row per tree, the failed ones with their reason.
func (in Input) rows(t *view.Table, cells func(replayed) []string) {
	for _, of := range in.trees {
		if of.Status != result.OK {
			t.Rows = append(t.Rows, view.Row{Cells: []string{of.Tree}, Failed: true, Note: of.Error})
			continue
		}
		t.Rows = append(t.Rows, view.Row{Cells: append([]string{of.Tree}, cells(of)...)})
	}
}

// speedTable holds what a tree does in a second.
func (in Input) speedTable() view.Table {
	t := view.Table{Columns: []view.Column{{Name: "tree", Text: true}, {Name: "leaves", Unit: "per s"}, {Name: "repeats", Unit: "from to"}, {Name: "settled", Unit: "per s"}, {Name: "nodes", Unit: "per s"},
		{Name: "commit", Unit: "p50 ms"}, {Name: "commit", Unit: "p99 ms"}, {Name: "db gets", Unit: "per s"}, {Name: "Get", Unit: "p50 us"}}}
	ms, us := view.Scale{Name: "ms", Size: 1e6}, view.Scale{Name: "us", Size: 1e3}
	in.rows(&t, func(of replayed) []string {
		f := of.Figures
		p50, p99, get := view.None, view.None, view.None
		if f.CommitNanos != nil {
			p50, p99 = ms.In(float64(f.CommitNanos.P50)), ms.In(float64(f.CommitNanos.P99))
		}
		if f.ServiceNanos != nil {
			get = us.In(float64(f.ServiceNanos.P50))
		}
		spread := view.None
		if r, ok := of.Spread["leaves_per_second"]; ok {
			spread = unit.ShortCount(r.Low) + " " + unit.ShortCount(r.High)
		}
		settled := view.None
		if f.SettledPerSecond < .99*f.LeavesPerSecond {
			settled = view.Number(f.SettledPerSecond)
		}
		return []string{view.Number(f.LeavesPerSecond), spread, settled, view.Optional(f.NodesPerSecond, view.Number), p50, p99, view.Optional(f.DBGetsPerSecond, view.Number), get}
	})
	t.Drop()
	return t
}

// stateTable holds what a tree has become and what it takes.
func (in Input) stateTable() view.Table {
	var disks, memories []int64
	for _, of := range in.trees {
		memories = append(memories, of.Figures.PeakRSSBytes)
		if d := of.Figures.DiskBytes; d != nil {
			disks = append(disks, *d)
		}
	}
	disk, memory := view.ByteScale(disks), view.ByteScale(memories)
	t := view.Table{Columns: []view.Column{{Name: "tree", Text: true}, {Name: "memory", Unit: memory.Name}, {Name: "disk", Unit: disk.Name}, {Name: "written", Unit: "x changes"},
		{Name: "tree size", Unit: "leaves"}, {Name: "height"}, {Name: "cache hits"}, {Name: "misses"}}}
	in.rows(&t, func(of replayed) []string {
		f := of.Figures
		height := view.None
		if f.TreeHeight != nil {
			height = fmt.Sprint(*f.TreeHeight)
		}
		return []string{view.Positive(float64(f.PeakRSSBytes), memory.In), view.Counting(f.DiskBytes, disk.In), view.Optional(f.DeviceWriteAmplification, view.Number),
			view.Counting(f.TreeSize, view.Number), height, view.Counting(f.CacheHits, view.Number), view.Counting(f.CacheMisses, view.Number)}
	})
	t.Drop()
	return t
}

// harness says how much of the fastest tree's time was the harness'.
func (in Input) harness() string {
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
