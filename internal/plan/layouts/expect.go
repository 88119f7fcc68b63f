package layouts

import (
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// modelled is the state of a row, or of one with other accounts that takes as much of
// the disk for each.
func modelled(row result.LayoutRow, w result.StateWorkload, accounts float64) statemodel.State {
	s := statemodel.State{
		Accounts:      accounts,
		ContractShare: w.ContractShare,
		SlotsPer:      float64(w.SlotsPer),
		BlockAccounts: float64(w.BlockAccounts),
		DiskBytes:     row.DiskPerAccount.OrZero() * accounts,
		CodeBytes:     float64(w.CodeBytes),
	}

	withOptions(&s, row)
	return s
}

// withOptions adds what a model needs to know of the options that a row ran with.
func withOptions(s *statemodel.State, row result.LayoutRow) {
	if l, _ := subject.LayoutOf(row.Layout); l.Options != nil {
		l.Options(s, row.Options)
	}
}

// expected is what formulas say of a lookup of a present account without a cache.
func expected(label string, s statemodel.State) (f subject.Formula) {
	if l, _ := subject.LayoutOf(label); l.Formula != nil {
		f = l.Formula(s)
	}
	return f
}

// heldReads are what a lookup of a present account is predicted to read below the
// layout's own caches, and below the page cache too; nil where there is no model, or
// no cache of its own.
type heldReads struct {
	reads, device *float64
	basis         string
}

// readsBelow are the reads below each of a model's memories, by their place.
func readsBelow(model *subject.Model, below []float64, basis string) heldReads {
	h := heldReads{device: &below[model.Device], basis: basis}
	if model.Own != subject.Nowhere {
		h.reads = &below[model.Own]
	}
	return h
}

// expectedHeld predicts the measured lookups of a row: after the phases before them,
// with the memory that the layout and the page cache had on so many cores.
func expectedHeld(row result.LayoutRow, w result.StateWorkload, cores int) heldReads {
	l, _ := subject.LayoutOf(row.Layout)
	if l.Model == nil || row.Memory == nil || row.Memory.PageCacheBytes == nil {
		return heldReads{}
	}

	memories := l.Model.Memories(modelled(row, w, float64(row.Accounts)), memoryOf(row, cores))
	if memories == nil {
		return heldReads{}
	}

	return readsBelow(l.Model, statemodel.After(memories, phases(w, statemodel.Account)),
		l.Model.Basis)
}

// phases are the lookups that the memories of a row have seen: of the last state that
// was opened cold, then those that warm it, then the measured ones, up to those of last.
func phases(w result.StateWorkload, last statemodel.Kind) (all []statemodel.LookupPhase) {
	kinds := []statemodel.Kind{statemodel.Account, statemodel.AbsentAccount}
	if w.ContractSlots > 0 || w.SlotsPer > 0 && w.ContractShare > 0 {
		kinds = append(kinds, statemodel.Slot, statemodel.AbsentSlot)
	}

	add := func(kind statemodel.Kind, lookups uint64) {
		all = append(all, statemodel.LookupPhase{Kind: kind, Lookups: float64(lookups)})
	}
	add(kinds[len(kinds)-1], min(lookup.ColdLookups, w.Reads))
	for _, kind := range kinds {
		add(kind, w.Reads)
	}

	for _, kind := range kinds {
		if add(kind, w.Reads); kind == last {
			break
		}
	}

	return all
}

// memoryOf is what a row's layout had to keep what it reads.
func memoryOf(row result.LayoutRow, cores int) (m subject.Memory) {
	m.PageCache = float64(*row.Memory.PageCacheBytes)
	for _, share := range row.Memory.Shares {
		switch bytes := float64(share.Bytes); share.Holds {
		case engine.Blocks:
			m.Cache = bytes
		case engine.CleanState:
			m.Clean = bytes
		case engine.PinnedBranches:
			m.Pinned = bytes
		}
	}

	m.Shards = cachesim.ShardCount(int64(m.Cache), cores)
	return m
}

// budget is a memory of the outlook.
type budget struct {
	bytes      int64
	perAccount bool // the run's own, as much for each account
}

// budgets are the run's memory, grown with the state, and those of machines that would
// hold one.
func budgets(row result.LayoutRow, w result.StateWorkload, accounts uint64) (all []budget) {
	if w.MemoryBytes > 0 {
		all = append(all, budget{int64(float64(w.MemoryBytes) / float64(row.Accounts) * float64(
			accounts,
		)), true})
	}

	for _, bytes := range slices.Compact(slices.Sorted(slices.Values(append(w.AtMemory, 2<<30,
		16<<30, 64<<30)))) {
		all = append(all, budget{bytes: bytes})
	}

	return all
}

// outlook predicts a layout's figures at sizes that were not built. What an account
// takes of the disk is that of the largest size that was. Lookups are of present
// accounts, and have been for long.
func outlook(
	layout string, rows []result.LayoutRow, w result.StateWorkload,
) (out []result.LayoutOutlook) {
	largest := result.LayoutRow{}
	for _, row := range rows {
		if row.Layout == layout && row.Status == result.OK && row.Accounts >= largest.Accounts {
			largest = row
		}
	}

	if largest.Accounts == 0 {
		return nil
	}

	// The sizes of the question that no test machine builds, and those that were asked for.
	for _, accounts := range slices.Compact(slices.Sorted(slices.Values(append(w.At, 1e9, 1e10)))) {
		s := modelled(largest, w, float64(accounts))
		add := func(figure string, value *float64, of budget, basis string) {
			if value != nil {
				out = append(out, result.LayoutOutlook{
					Layout:      layout,
					Figure:      figure,
					Accounts:    accounts,
					MemoryBytes: of.bytes,
					PerAccount:  of.perAccount,
					Value:       *value,
					Basis:       basis,
				})
			}
		}

		f := expected(layout, s)
		add(figure.NodesPerLookup.Key, f.Nodes, budget{}, "formula")
		add(figure.ReadsPerLookup.Key, f.Reads, budget{}, "formula: "+f.Basis)
		for _, b := range budgets(largest, w, accounts) {
			h := steadyHeld(layout, s, float64(b.bytes))
			add(figure.ReadsPerLookup.Held().Key, h.reads, b, h.basis)
			add(figure.DeviceReadsPerLookup.Key, h.device, b, h.basis)
		}
	}

	return out
}

// steadyHeld predicts lookups with a budget that the layout divides as it does, the
// rest the page cache's.
func steadyHeld(label string, s statemodel.State, budgetBytes float64) heldReads {
	l, _ := subject.LayoutOf(label)
	if l.Model == nil {
		return heldReads{}
	}

	m, ok := l.Model.Divide(s, budgetBytes)
	if !ok {
		return heldReads{}
	}

	memories := l.Model.Memories(s, m)
	if memories == nil {
		return heldReads{}
	}

	return readsBelow(l.Model, statemodel.Steady(memories, statemodel.Account),
		"model: "+l.Model.Basis)
}
