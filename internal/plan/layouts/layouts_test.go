package layouts_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/layouts"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

func chain() protocol.Chain {
	return protocol.Chain{
		Seed:           3,
		Accounts:       3000,
		ContractShare:  .1,
		SlotsPer:       5,
		BlockAccounts:  700,
		UpdateBlocks:   4,
		UpdateAccounts: 50,
	}
}

// answers stand in for runner processes.
type answers func(name string, s *protocol.LayoutSpec, run *result.Run)

func (a answers) Do(_ context.Context, job runners.Job, _ result.EventFunc) (*result.Run, error) {
	run := job.Blank()
	run.Status = result.OK
	a(job.Spec.Head().Subject, job.Spec.(*protocol.LayoutSpec), run)
	if err := os.MkdirAll(job.Spec.Head().Out, 0o755); err != nil {
		return nil, err
	}
	return run, result.WriteRun(job.Spec.Head().Out, run)
}

func entry(name string, root layout.RootRule) layouts.Entry {
	return layouts.Entry{Label: name, Info: layout.Info{Name: name, Root: root}}
}

// measure carries l out in the folder out.
func measure(l layouts.Layouts, repeats int, out string, by answers) (*result.Layouts, error) {
	how := plan.Plan{Out: out, Repeats: repeats, Seed: 1}
	work := layouts.New(l, how, by)
	_, err := plan.Run(context.Background(), how, work, func(plan.Progress) {})
	return work.Result, err
}

// Runs are compared without caring who measured them.
func TestFindsTheFirstDifference(t *testing.T) {
	comparison := layouts.Layouts{
		Accounts: []uint64{100, 1000},
		States:   t.TempDir(),
		Base:     protocol.LayoutSpec{Chain: chain(), MemoryBytes: 1 << 20, Reads: 10},
		Entries:  []layouts.Entry{entry("a", layout.EthereumRoot), entry("b", layout.EthereumRoot)},
	}

	out := t.TempDir()
	l, err := measure(comparison, 1, out, func(
		name string, s *protocol.LayoutSpec, run *result.Run,
	) {
		f := run.Figures.State
		f.Roots = []result.StateAt{
			{Block: 1, Root: "same"},
			{Block: 2, Root: "same"},
			{Block: 3, Root: "same"},
		}

		if name == "b" && s.Chain.Accounts == 1000 {
			f.Roots[1].Root, f.Roots[2].Root = "other", "other"
		}

		f.DiskBytes = 2 << 20
		f.Lookups = []result.Lookups{{
			Kind:      result.AccountLookup,
			Condition: result.HeldLookups,
			InFlight:  1,
		}}
	})
	if err != nil {
		t.Fatal(err)
	}

	if len(l.Rows) != 4 || len(l.Roots) != 2 || l.Roots[0].Verdict != result.Identical ||
		l.Roots[0].Compared != 3 {
		t.Errorf("%+v", l.Roots)
	}

	if v := l.Roots[1]; v.Verdict != result.Different || v.Block != 2 ||
		v.ByRoot["other"][0] != "b" || l.Status != result.Failed {
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
	comparison := layouts.Layouts{
		Accounts: []uint64{100},
		States:   t.TempDir(),
		Base:     protocol.LayoutSpec{Chain: chain()},
		Entries:  []layouts.Entry{entry("a", ""), entry("b", "")},
	}

	fail := true
	measured := 0
	by := func(name string, _ *protocol.LayoutSpec, run *result.Run) {
		measured++
		if name == "a" && fail {
			run.Status, run.Error = result.Failed, "killed"
		}
	}

	out := t.TempDir()
	l, err := measure(comparison, 1, out, by)
	if err != nil || len(l.Rows) != 2 || l.Rows[0].Status != result.Failed ||
		l.Rows[1].Status != result.OK || l.Error != "a failed at 100 accounts" {
		t.Errorf("%+v, %v", l, err)
	}

	fail, measured = false, 0
	if l, err = measure(comparison, 1, out, by); err != nil || l.Status != result.OK ||
		measured != 2 {
		t.Errorf("%s (%s), %v: %d runs, want the two of the layout that failed", l.Status, l.Error,
			err, measured)
	}
}

// Of three repeats the one with the median time of a lookup is shown, with the range
// of all.
func TestRepeatsGiveOneRowWithSpread(t *testing.T) {
	comparison := layouts.Layouts{
		Accounts: []uint64{100},
		States:   t.TempDir(),
		Base:     protocol.LayoutSpec{Chain: chain()},
		Entries:  []layouts.Entry{entry("a", "")},
	}

	nanos := []float64{5, 1, 3}
	out := t.TempDir()
	l, err := measure(comparison, 3, out, func(_ string, s *protocol.LayoutSpec, run *result.Run) {
		if s.Stage == protocol.Lookup {
			run.Figures.State.Lookups = []result.Lookups{{
				Kind:         result.AccountLookup,
				Condition:    result.HeldLookups,
				InFlight:     1,
				ServiceNanos: &result.Latency{Mean: nanos[0]},
			}}

			nanos = nanos[1:]
		}
	})

	if err != nil || len(l.Rows) != 1 {
		t.Fatalf("%+v, %v", l.Rows, err)
	}

	row := l.Rows[0]
	shown, err := result.ReadRun(filepath.Join(out, row.Read))
	if err != nil || row.LookupNanos.Mean != 3 ||
		shown.Figures.State.Lookups[0].ServiceNanos.Mean != 3 {
		t.Errorf("%+v is shown, %v", row.LookupNanos, err)
	}

	if row.Spread["lookup_ns"] != (result.Range{Low: 1, High: 5}) || len(row.Runs) != 3 {
		t.Errorf("spread %v of %v", row.Spread, row.Runs)
	}
}
