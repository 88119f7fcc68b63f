package layouts

import (
	"slices"

	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/result"
)

// outlookAccounts are the sizes of the question that no test machine builds, and those that
// were asked for.
func outlookAccounts(w result.StateWorkload) []uint64 {
	all := append([]uint64{1e9, 1e10}, w.At...)
	slices.Sort(all)
	return slices.Compact(all)
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
		all = append(all, budget{int64(float64(w.MemoryBytes) / float64(row.Accounts) * float64(accounts)), true})
	}
	fixed := append([]int64{2 << 30, 16 << 30, 64 << 30}, w.AtMemory...)
	slices.Sort(fixed)
	for _, bytes := range slices.Compact(fixed) {
		all = append(all, budget{bytes: bytes})
	}
	return all
}

// outlook predicts a layout's figures at sizes that were not built. What an account
// takes of the disk is that of the largest size that was. Lookups are of present
// accounts, and have been for long.
func outlook(layout string, rows []result.LayoutRow, w result.StateWorkload) (out []result.LayoutOutlook) {
	largest := result.LayoutRow{}
	for _, row := range rows {
		if row.Layout == layout && row.Status == result.OK && row.Accounts >= largest.Accounts {
			largest = row
		}
	}
	if largest.Accounts == 0 {
		return nil
	}
	for _, accounts := range outlookAccounts(w) {
		s := modelled(largest, w, float64(accounts))
		add := func(figure string, value *float64, of budget, basis string) {
			if value != nil {
				out = append(out, result.LayoutOutlook{Layout: layout, Figure: figure, Accounts: accounts,
					MemoryBytes: of.bytes, PerAccount: of.perAccount, Value: *value, Basis: basis})
			}
		}
		nodes, reads, basis := expected(modelName(layout), s)
		add("nodes_per_lookup", nodes, budget{}, "formula")
		add("reads_per_lookup", reads, budget{}, "formula: "+basis)
		for _, b := range budgets(largest, w, accounts) {
			h := steadyHeld(layout, s, float64(b.bytes))
			add("held_reads_per_lookup", h.reads, b, h.basis)
			add("device_reads_per_lookup", h.device, b, h.basis)
		}
	}
	return out
}

// steadyHeld predicts lookups with a budget that the layout divides as it does, the
// rest the page cache's.
func steadyHeld(layout string, s statemodel.State, budgetBytes float64) heldReads {
	m, ok := divide(modelName(layout), s, budgetBytes)
	if !ok {
		return heldReads{}
	}
	memories, shown, basis := m.model(modelName(layout), s)
	if memories == nil {
		return heldReads{}
	}
	return shown.of(statemodel.Steady(memories, statemodel.Account), "model: "+basis)
}

// divide is how a layout spends a budget; not ok where it cannot run with it.
func divide(layout string, s statemodel.State, bytes float64) (m memory, ok bool) {
	switch layout {
	case "chunktrie":
		pinned := statemodel.Pinned(s, bytes)
		return memory{pinnedBytes: pinned, pageCacheBytes: bytes - pinned}, true
	case "pagetrie", "flat-pebble":
		return memory{cacheBytes: bytes}, true
	case "geth-path", "geth-hash", "geth-flat":
		return memory{cleanBytes: bytes / 2, cacheBytes: bytes / 2}, true
	case "nomt":
		m.cacheBytes = statemodel.NOMTLeafCache(s, bytes)
		return m, m.cacheBytes > 0
	case "qmdb":
		m.cacheBytes, ok = statemodel.QMDBCache(s, bytes)
		return m, ok
	}
	return memory{pageCacheBytes: bytes}, true
}
