package layoutplan

import (
	"cmp"
	"slices"

	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// row is what both stages found; read is nil where the build failed.
func (s step) row(name string, build, read *result.Run, l *result.Layouts) result.LayoutRow {
	info := s.entry.Info
	row := result.LayoutRow{Layout: s.entry.Label, Version: info.Version, RootRule: string(info.Root), Status: build.Status, Error: build.Error,
		Build: folder(name, lookup.Build), Read: folder(name, lookup.Lookup), Accounts: s.accounts, Durability: info.Durability, History: info.History,
		Options: build.Engine.Options}
	if b := build.Figures.State; b != nil {
		row.Slots, row.Root, row.Updates = b.Slots, b.Root, b.Updates
		row.DiskBytes, row.DiskPerAccount = b.DiskBytes, b.DiskBytesPerAccount
		if b.Updates != nil {
			row.UpdateNanos = &b.Updates.UpdateNanos
		}
	}
	if read == nil || read.Figures.State == nil {
		return row
	}
	r := read.Figures.State
	row.Status, row.Error = read.Status, read.Error
	row.OpenNanos, row.Lookups, row.Memory, row.PeakRSSBytes = r.OpenNanos, r.Lookups, read.Memory, read.Figures.PeakRSSBytes
	if r.Root != row.Root && row.Status == result.OK {
		row.Status, row.Error = result.Failed, "the state was left at root "+row.Root+" and is opened at root "+r.Root
	}
	for _, of := range r.Lookups {
		if of.Kind == result.AccountLookup && of.Condition == result.HeldLookups && of.InFlight == 1 {
			take(&row, of)
		}
	}
	row.PredictedNodes, row.PredictedReads, row.PredictedBasis = expected(row.Layout, modelled(row, l.Workload, float64(row.Accounts)))
	held := expectedHeld(row, l.Workload, l.Host.Cores)
	row.PredictedHeldReads, row.PredictedDeviceReads, row.PredictedHeldBasis = held.reads, held.device, held.basis
	return row
}

// take makes l the row's own figures. Reads that the layout does not count are the
// kernel's count of its read calls; where files are mapped there are none.
func take(row *result.LayoutRow, l result.Lookups) {
	row.Nodes, row.Pages, row.DeviceReads, row.DeviceBytes, row.LookupNanos = l.Nodes, l.Pages, l.DeviceReads, &l.DeviceBytes, l.ServiceNanos
	switch {
	case l.BlockReads != nil:
		row.BlockReads, row.BlockReadSource = l.BlockReads, "layout"
	case l.ReadCalls >= l.MajorFaults: // else it reads mapped files
		row.BlockReads, row.BlockReadSource = &l.ReadCalls, "read calls"
	}
}

// rootVerdicts holds the roots of every rule against each other, size by size.
func rootVerdicts(rows []result.LayoutRow, built []*result.Run) (verdicts []result.LayoutRoots) {
	type group struct {
		rule     string
		accounts uint64
	}
	var order []group
	members := map[group][]string{}
	roots := map[group]map[uint64]map[string][]string{} // block -> root -> layouts
	for i, row := range rows {
		g := group{row.RootRule, row.Accounts}
		if g.rule == string(layout.NoRoot) || g.rule == string(layout.OwnRoot) || built[i].Figures.State == nil {
			continue // a rule of a layout's own has nobody to agree with
		}
		if roots[g] == nil {
			order, roots[g] = append(order, g), map[uint64]map[string][]string{}
		}
		members[g] = append(members[g], row.Layout)
		for _, at := range built[i].Figures.State.Roots {
			if roots[g][at.Block] == nil {
				roots[g][at.Block] = map[string][]string{}
			}
			roots[g][at.Block][at.Root] = append(roots[g][at.Block][at.Root], row.Layout)
		}
	}
	slices.SortStableFunc(order, func(a, b group) int { return cmp.Compare(a.accounts, b.accounts) })
	for _, g := range order {
		verdicts = append(verdicts, agreement(g.rule, g.accounts, members[g], roots[g]))
	}
	return verdicts
}

func agreement(rule string, accounts uint64, members []string, roots map[uint64]map[string][]string) result.LayoutRoots {
	v := result.LayoutRoots{RootRule: rule, Accounts: accounts, Layouts: members, Verdict: result.CannotTell}
	for block, by := range roots {
		tellers := 0
		for _, of := range by {
			tellers += len(of)
		}
		if tellers < 2 {
			continue
		}
		v.Compared++
		if v.Verdict == result.CannotTell {
			v.Verdict = result.Identical
		}
		if len(by) > 1 && (v.Verdict != result.Different || block < v.Block) {
			v.Verdict, v.Block, v.ByRoot = result.Different, block, by
		}
	}
	return v
}
