package layoutplan_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/plan/layoutplan"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

func chain() lookup.Chain {
	return lookup.Chain{Seed: 3, Accounts: 3000, ContractShare: .1, SlotsPer: 5, BlockAccounts: 700, UpdateBlocks: 4, UpdateAccounts: 50}
}

// Runs are held against each other without caring who measured them.
func TestFindsTheFirstDifference(t *testing.T) {
	plan := layoutplan.Plan{Accounts: []uint64{100, 1000}, States: t.TempDir(), Base: lookup.Spec{Chain: chain(), MemoryBytes: 1 << 20, Reads: 10},
		Entries: []layoutplan.Entry{{Label: "a", Info: layout.Info{Root: layout.EthereumRoot}}, {Label: "b", Info: layout.Info{Root: layout.EthereumRoot}}}}
	measure := func(_ context.Context, e layoutplan.Entry, s *lookup.Spec, _ result.Tell) (*result.Run, error) {
		run := lookup.Blank(s, e.Info)
		run.Status = result.OK
		f := run.Figures.State
		f.Roots = []result.StateAt{{Block: 1, Root: "same"}, {Block: 2, Root: "same"}, {Block: 3, Root: "same"}}
		if e.Label == "b" && s.Chain.Accounts == 1000 {
			f.Roots[1].Root, f.Roots[2].Root = "other", "other"
		}
		f.DiskBytes = 2 << 20
		f.Lookups = []result.Lookups{{Kind: result.AccountLookup, Condition: result.HeldLookups, InFlight: 1}}
		return run, nil
	}
	out := t.TempDir()
	l, err := layoutplan.Layouts(context.Background(), plan, out, measure, func(int, int, layoutplan.Entry, uint64, result.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Rows) != 4 || len(l.Roots) != 2 || l.Roots[0].Verdict != result.Identical || l.Roots[0].Compared != 3 {
		t.Errorf("%+v", l.Roots)
	}
	if v := l.Roots[1]; v.Verdict != result.Different || v.Block != 2 || v.ByRoot["other"][0] != "b" || l.Status != result.Failed {
		t.Errorf("%+v, %s %s", v, l.Status, l.Error)
	}
	if len(l.Outlook) != 0 {
		t.Errorf("%+v of layouts without a model", l.Outlook)
	}
	if _, err := os.Stat(filepath.Join(out, result.LayoutsFile)); err != nil {
		t.Error(err)
	}
}

func TestGoesOnAfterAFailure(t *testing.T) {
	plan := layoutplan.Plan{Accounts: []uint64{100}, States: t.TempDir(), Base: lookup.Spec{Chain: chain()}, Entries: []layoutplan.Entry{{Label: "a"}, {Label: "b"}}}
	measure := func(_ context.Context, e layoutplan.Entry, s *lookup.Spec, _ result.Tell) (*result.Run, error) {
		run := lookup.Blank(s, e.Info)
		if e.Label == "b" {
			run.Status = result.OK
			return run, nil
		}
		run.Error = errors.New("killed").Error()
		return run, nil
	}
	l, err := layoutplan.Layouts(context.Background(), plan, t.TempDir(), measure, func(int, int, layoutplan.Entry, uint64, result.Event) {})
	if err != nil || len(l.Rows) != 2 || l.Rows[0].Status != result.Failed || l.Rows[1].Status != result.OK || l.Error != "a failed at 100 accounts" {
		t.Errorf("%+v, %v", l, err)
	}
}
