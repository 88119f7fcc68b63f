package layouts

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// built is a build with the row that it belongs to.
type built struct {
	row result.LayoutRow
	run *result.Run
	// after: of roots up to this block another run tells.
	after uint64
}

// row is what both runs found.
func (w *Work) row(e Entry, accounts uint64, r repeat) result.LayoutRow {
	info, build, read := e.Info, r.Build, r.Read
	row := result.LayoutRow{Layout: e.Label, Version: info.Version, RootRule: string(info.Root), Status: build.Status, Error: build.Error, Why: build.Why,
		Build: filepath.Join(r.folder, protocol.Build), Read: filepath.Join(r.folder, protocol.Lookup), Accounts: accounts,
		Durability: info.Durability, History: info.History}
	row.Show(build, read)
	if read == nil || read.Figures.State == nil {
		return row
	}
	row.Status, row.Error, row.Why = read.Status, read.Error, read.Why
	if root := read.Figures.State.Root; root != row.Root && row.Status == result.OK {
		row.Status, row.Error = result.Failed, "the state was left at root "+row.Root+" and is opened at root "+root
	}
	if accounts == 0 { // formulas are of uniform lookups
		return row
	}
	f := expected(row.Layout, modelled(row, w.Result.Workload, float64(row.Accounts)))
	row.PredictedNodes, row.PredictedReads, row.PredictedBasis = f.Nodes, f.Reads, f.Basis
	held := expectedHeld(row, w.Result.Workload, w.Result.Host.Cores)
	row.PredictedHeldReads, row.PredictedDeviceReads, row.PredictedHeldBasis = held.reads, held.device, held.basis
	return row
}

// rootVerdicts holds the roots of every rule against each other, size by size.
func rootVerdicts(builds []built) (verdicts []result.LayoutRoots) {
	type group struct {
		rule     string
		accounts uint64
	}
	var order []group
	members := map[group][]string{}
	roots := map[group]map[uint64]map[string][]string{} // block -> root -> layouts
	for _, b := range builds {
		row, state := b.row, b.run.Figures.State
		g := group{row.RootRule, row.Accounts}
		if g.rule == string(layout.NoRoot) || g.rule == string(layout.OwnRoot) || state == nil {
			continue // a rule of a layout's own has nobody to agree with
		}
		if roots[g] == nil {
			order, roots[g] = append(order, g), map[uint64]map[string][]string{}
		}
		if !slices.Contains(members[g], row.Layout) {
			members[g] = append(members[g], row.Layout)
		}
		for _, at := range state.Roots {
			if at.Block <= b.after {
				continue
			}
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
