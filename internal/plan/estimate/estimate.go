// Package estimate says, before anything starts, what an experiment will take: bytes on
// disk, bytes of memory, seconds.
//
// Goals: a plan that cannot fit is refused at once, with what would fit; bytes within a
// half, times within a factor of two on a machine like the one that the constants are
// of; pure: what is known of the machine is an argument.
// Non-goals: predicting figures (predict, statemodel), looking at the machine (host).
//
// Read in this order: estimate.go, read.go.
package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Kinds of steps: times of one kind are off by one factor.
const (
	LoadKind   = "load"
	ReadKind   = "read"
	CurveKind  = "curve" // of a sweep: not a run, but the sweep's own work at its end
	LayoutKind = "layout"
	ReplayKind = "replay"
)

// Step is what one process of a plan will take.
type Step struct {
	Kind, Name    string
	DiskBytes     int64 // left when the step has ended; 0: it removes what it wrote
	TableBytes    int64 // of a database that it makes: DiskBytes without write-ahead logs
	PeakDiskBytes int64 // at most while it runs
	MemoryBytes   int64
	Seconds       float64
	Basis         string // where the figures come from

	Flag  string // whose value scales the disk: "--keys"; empty: none does
	Count uint64 // its value
	fixed int64  // part of PeakDiskBytes that Count does not scale
}

// Estimate is what a plan will take, its steps one after the other.
type Estimate struct {
	Steps         []Step
	DiskBytes     int64 // left at the end
	PeakDiskBytes int64
	MemoryBytes   int64
	Seconds       float64

	fullest int // the step at which the disk is fullest
}

// Machine is what is known of the machine. Zero values are unknown, and taken from the
// machine that the constants were measured on.
type Machine struct {
	Cores           int
	AvailableMemory int64
	WriteBytes      float64      // sequential, a second
	Disk            *result.Disk // random reads by number in flight
}

// Total adds up steps that run one after the other.
func Total(steps []Step) Estimate {
	e := Estimate{Steps: steps}
	for i, s := range steps {
		if peak := add(e.DiskBytes, s.PeakDiskBytes); peak > e.PeakDiskBytes {
			e.PeakDiskBytes, e.fullest = peak, i
		}
		e.DiskBytes = add(e.DiskBytes, s.DiskBytes)
		e.MemoryBytes = max(e.MemoryBytes, s.MemoryBytes)
		e.Seconds += s.Seconds
	}
	return e
}

// Remaining are the seconds of the steps that have not ended, corrected by how long the
// ended ones took: actual holds their seconds, in the order of the steps.
func (e Estimate) Remaining(actual []float64) float64 {
	expected, took := map[string]float64{}, map[string]float64{}
	for i, seconds := range actual[:min(len(actual), len(e.Steps))] {
		expected[e.Steps[i].Kind] += e.Steps[i].Seconds
		took[e.Steps[i].Kind] += seconds
	}
	left := 0.0
	for _, s := range e.Steps[min(len(actual), len(e.Steps)):] {
		seconds := s.Seconds
		if expected[s.Kind] > 0 {
			seconds *= took[s.Kind] / expected[s.Kind]
		}
		left += seconds
	}
	return left
}

// Fits is nil if a plan fits into what is free, else an error that says what would.
func (e Estimate) Fits(freeDisk, freeMemory int64) error {
	var errs []error
	if e.PeakDiskBytes > freeDisk {
		errs = append(errs, fmt.Errorf("%s needs about %s of disk (%s when it is done), but only %s is free: %s",
			e.Steps[e.fullest].Name, unit.Bytes(e.PeakDiskBytes), unit.Bytes(e.DiskBytes), unit.Bytes(freeDisk), e.whatFits(freeDisk)))
	}
	for _, s := range e.Steps {
		if s.MemoryBytes > freeMemory {
			errs = append(errs, fmt.Errorf("%s needs about %s of memory, but only %s is available: use a smaller --cache or --memory",
				s.Name, unit.Bytes(s.MemoryBytes), unit.Bytes(freeMemory)))
			break
		}
	}
	return errors.Join(errs...)
}

// whatFits scales the flag of the step at which the disk is fullest. What earlier steps
// leave scales along if it is of the same value.
func (e Estimate) whatFits(free int64) string {
	full := e.Steps[e.fullest]
	const nothing = "use a disk with more free space"
	if full.Flag == "" {
		return nothing
	}
	fixed, scaled := full.fixed, full.PeakDiskBytes-full.fixed
	for _, s := range e.Steps[:e.fullest] {
		if s.Flag == full.Flag && s.Count == full.Count {
			part := min(s.fixed, s.DiskBytes)
			fixed, scaled = add(fixed, part), add(scaled, s.DiskBytes-part)
		} else {
			fixed = add(fixed, s.DiskBytes)
		}
	}
	count := twoDigits(float64(full.Count) * float64(free-fixed) / float64(scaled))
	if !(count >= 1) {
		return nothing
	}
	return fmt.Sprintf("%s %s fits", full.Flag, unit.ShortCount(count))
}

// twoDigits rounds down.
func twoDigits(v float64) float64 {
	if !(v >= 1) {
		return 0
	}
	digit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Floor(v/digit) * digit
}

// add of sizes that may be beyond what 64 bits hold.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func bytes(v float64) int64 {
	if v >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(v)
}

func (m Machine) cores() float64 {
	if m.Cores < 1 {
		return 2
	}
	return float64(m.Cores)
}

// writeRate: 200M keys by fillsorted, 22 GiB in 60 s. `dd bs=1M count=2048 conv=fsync` on
// the same machine, busy, gave 221 MB/s.
func (m Machine) writeRate() float64 {
	if m.WriteBytes > 0 {
		return m.WriteBytes
	}
	return 400e6
}

// defaultDisk are the reads a second that docs/engines.md tells of `statelab disk`.
var defaultDisk = result.Disk{Points: []result.DiskPoint{{InFlight: 1, ReadsPerSecond: 10_200}, {InFlight: 4, ReadsPerSecond: 22_900},
	{InFlight: 16, ReadsPerSecond: 46_300}, {InFlight: 64, ReadsPerSecond: 55_400}}}

// readRate are the device's random reads a second.
func (m Machine) readRate(inFlight int) float64 {
	if p, ok := m.Disk.At(float64(inFlight)); ok && m.Disk.Contradicted == "" {
		return p.ReadsPerSecond
	}
	p, _ := defaultDisk.At(float64(max(1, inFlight)))
	return p.ReadsPerSecond
}

func (m Machine) memory() int64 {
	if m.AvailableMemory > 0 {
		return m.AvailableMemory
	}
	return 16 << 30
}

const valuesPerAccount = 2.6 // of the measurements that subject.LayoutCost is of

// Layout is what a layout at one size takes: built, updated, looked up. l names it as typed, with its
// profile and options; keep: its files stay.
func Layout(l protocol.LayoutSpec, keep bool, m Machine) Step {
	of, taken := subject.LayoutOf(l.Layout)
	costs := of.Cost
	accounts := float64(l.Chain.Accounts)
	values := (1 + l.Chain.ContractShare*float64(l.Chain.SlotsPer)) / valuesPerAccount
	data := accounts * costs.PerAccount * values
	s := Step{Kind: LayoutKind, Name: fmt.Sprintf("%s of %s accounts", l.Layout, unit.ShortCount(accounts)), Flag: "--accounts", Count: l.Chain.Accounts,
		PeakDiskBytes: bytes(data*costs.Peak + costs.PeakFixed), fixed: bytes(costs.PeakFixed),
		MemoryBytes: add(l.MemoryBytes, bytes(costs.BuildMemory+accounts*costs.MemoryPerAccount*values)), Basis: "measured with 100k and 1M accounts"}
	if keep {
		s.DiskBytes = bytes(data + costs.Fixed)
	}
	s.Basis = cmp.Or(taken, s.Basis)
	build := max(accounts*values/costs.AccountsPerSecond, data/m.writeRate())
	const kinds = 4
	opening := costs.Open + accounts*costs.OpenPerAccount
	first := float64(min(max(l.Reads/100, 5), 50))
	patience := 30.
	if l.First > 0 {
		first, patience = float64(l.First), 30*float64(l.First)/50
	}
	openings := kinds * min(first*opening, max(patience, 5*opening))
	lookups := kinds * 4 * float64(l.Reads) * costs.GetSeconds // warm and measured, with one and 64 in flight
	s.Seconds = 2 + build + openings + (kinds+1)*opening + lookups
	return s
}

// ReplaySpec is a change set into one tree.
type ReplaySpec struct {
	Tree    string
	Changes int64 // sets and removals
	Bytes   int64 // of their keys and values

	Stores     int
	CacheNodes int64 // of a store; 0: the tree's own
}

// Replay is what one pass of a change set into a tree takes. Its disk stays.
func Replay(r ReplaySpec, m Machine) Step {
	t, taken := subject.TreeOf(r.Tree)
	costs := t.Cost
	changes := float64(r.Changes)
	disk := float64(r.Bytes) + changes*costs.DiskPerChange
	if costs.InMemory {
		disk = 0
	}
	kept := 1.0
	if costs.Bounded {
		const usualNodes = 1_000_000 // of a store, by the trees' profiles
		nodes := r.CacheNodes
		if nodes == 0 {
			nodes = usualNodes
		}
		kept = min(1, float64(max(1, r.Stores))*float64(nodes)/max(1, changes))
	}
	const compactions = 1.2
	s := Step{Kind: ReplayKind, Name: fmt.Sprintf("%s changes into %s", unit.ShortCount(changes), r.Tree),
		DiskBytes: bytes(disk), PeakDiskBytes: bytes(disk * compactions),
		MemoryBytes: bytes(100<<20 + kept*costs.Memory*float64(r.Bytes)), Seconds: 2 + max(changes/costs.LeavesPerSecond, disk/m.writeRate()),
		Basis: "measured with 433,182 changes"}
	s.Basis = cmp.Or(taken, s.Basis)
	return s
}

// mostRows is how many steps a dry run lists.
const mostRows = 20

// Text prints what a dry run says, with the free disk space and memory.
func (e Estimate) Text(w io.Writer, free, memory int64) error {
	runs := len(e.Steps)
	if runs > 0 && e.Steps[runs-1].Kind == CurveKind {
		runs--
	}
	fmt.Fprintf(w, "%s, about %s: %s of disk (%s at the end), %s of memory.\nFree: %s of disk, %s of memory.\n\n", unit.Plural(runs, "run"),
		unit.Roughly(e.Seconds), unit.Bytes(e.PeakDiskBytes), unit.Bytes(e.DiskBytes), unit.Bytes(e.MemoryBytes), unit.Bytes(free), unit.Bytes(memory))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "run\ttime\tdisk\tmemory\testimated from")
	for _, s := range e.Steps[:min(len(e.Steps), mostRows)] {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", s.Name, unit.Roughly(s.Seconds), unit.Bytes(s.PeakDiskBytes), unit.Bytes(s.MemoryBytes), s.Basis)
	}
	if more := len(e.Steps) - mostRows; more > 0 {
		fmt.Fprintf(table, "and %d more\n", more)
	}
	return table.Flush()
}
