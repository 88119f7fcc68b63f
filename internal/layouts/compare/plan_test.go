package compare_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/layouts"
	"github.com/statelab/statelab/internal/layouts/compare"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/state"
)

func chain() layouts.Chain {
	return layouts.Chain{Seed: 3, Accounts: 3000, ContractShare: .1, SlotsPer: 5, BlockAccounts: 700, UpdateBlocks: 4, UpdateAccounts: 50}
}

// Runs are held against each other without caring who measured them.
func TestFindsTheFirstDifference(t *testing.T) {
	plan := compare.Plan{Accounts: []uint64{100, 1000}, States: t.TempDir(), Base: layouts.Spec{Chain: chain(), MemoryBytes: 1 << 20, Reads: 10},
		Entries: []compare.Entry{{Label: "a", Info: state.Info{Root: state.EthereumRoot}}, {Label: "b", Info: state.Info{Root: state.EthereumRoot}}}}
	measure := func(_ context.Context, e compare.Entry, s *layouts.Spec, _ result.Tell) (*result.Run, error) {
		run := layouts.Blank(s, e.Info)
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
	l, err := compare.Layouts(context.Background(), plan, out, measure, func(int, int, compare.Entry, uint64, result.Event) {})
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
	plan := compare.Plan{Accounts: []uint64{100}, States: t.TempDir(), Base: layouts.Spec{Chain: chain()}, Entries: []compare.Entry{{Label: "a"}, {Label: "b"}}}
	measure := func(_ context.Context, e compare.Entry, s *layouts.Spec, _ result.Tell) (*result.Run, error) {
		run := layouts.Blank(s, e.Info)
		if e.Label == "b" {
			run.Status = result.OK
			return run, nil
		}
		run.Error = errors.New("killed").Error()
		return run, nil
	}
	l, err := compare.Layouts(context.Background(), plan, t.TempDir(), measure, func(int, int, compare.Entry, uint64, result.Event) {})
	if err != nil || len(l.Rows) != 2 || l.Rows[0].Status != result.Failed || l.Rows[1].Status != result.OK || l.Error != "a failed at 100 accounts" {
		t.Errorf("%+v, %v", l, err)
	}
}
