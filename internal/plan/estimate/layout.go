package estimate

import (
	"cmp"
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
)

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
