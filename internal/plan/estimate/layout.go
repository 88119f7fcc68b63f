package estimate

import (
	"cmp"
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/subject"
)

// LayoutSpec is a layout at one size: built, updated, looked up.
type LayoutSpec struct {
	Layout        string // as typed, with its profile and options
	Accounts      uint64
	ContractShare float64
	SlotsPer      uint64
	Reads         uint64 // of each kind
	First         uint64 // 0: a hundredth of Reads
	MemoryBytes   int64
	Keep          bool // its files stay
}

const valuesPerAccount = 2.6 // of the measurements that subject.LayoutCost is of

// Layout is what a layout at one size takes.
func Layout(l LayoutSpec, m Machine) Step {
	of, taken := subject.LayoutOf(l.Layout)
	costs := of.Cost
	accounts := float64(l.Accounts)
	values := (1 + l.ContractShare*float64(l.SlotsPer)) / valuesPerAccount
	data := accounts * costs.PerAccount * values
	s := Step{Kind: LayoutKind, Name: fmt.Sprintf("%s of %s accounts", l.Layout, unit.ShortCount(accounts)), Flag: "--accounts", Count: l.Accounts,
		PeakDiskBytes: bytes(data*costs.Peak + costs.PeakFixed), fixed: bytes(costs.PeakFixed),
		MemoryBytes: add(l.MemoryBytes, bytes(costs.BuildMemory+accounts*costs.MemoryPerAccount*values)), Basis: "measured with 100k and 1M accounts"}
	if l.Keep {
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
