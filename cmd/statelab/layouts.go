package main

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/layouts"
)

// treeRunnerVerb starts this binary as the runner of the trees it links.
const treeRunnerVerb = "__trees"

// stateRunnerVerb starts this binary as the runner of the layouts it links.
const stateRunnerVerb = "__states"

func (a *app) layoutsVerb() *cobra.Command {
	return a.measuringVerb(experiment.Layouts, &cobra.Command{
		Use:   "layouts --accounts LIST --memory SIZE --out L",
		Short: "Compare layouts of Ethereum's state: reads and time of a lookup",
		Long: `Layouts compares ways to store Ethereum's accounts and slots. It builds the same
accounts in each, changes them block by block and looks them up, in processes of
their own, and compares roots.

  statelab layouts --accounts 10k,100k,1M --memory 64MiB --out L
  statelab layouts --layout geth-path,flat-pebble --repeats 3 --out L
  statelab layouts --accounts 10k,100k --predict-accounts 50M --predict-memory 4GiB --out L
  statelab layouts --accesses list.slal --accounts 1M --out L  (real blocks)
  statelab layouts --db MOUNT ...      (a statelab volume: exact device reads)
  statelab layouts --resume --out L    (after Ctrl-C, a kill, a reboot)

Exit 1 if layouts of Ethereum's rule disagree on a root, or one fails.`,
	})
}

func (a *app) layouts(f *flags, m *mistakes) error {
	p := a.progress()
	work, how, so, err := a.measureLayouts(f, m, p, "")
	if work == nil {
		return err
	}

	d := finished{
		status:   work.Result.Status,
		error:    work.Result.Error,
		why:      work.Result.FailureInfo,
		warnings: work.Result.Warnings,
		out:      how.Out,
	}

	return a.compared(f, p, d, so, len(work.Result.Rows) > 0, err)
}

// measureLayouts measures the layouts that f declares; nil where it did not begin.
func (a *app) measureLayouts(
	f *flags, m *mistakes, p *console.Progress, before string,
) (work *layouts.Work, how plan.Plan, so plan.Outcome, err error) {
	m.accessList(layouts.StatesOf(f.Experiment).Accesses.Value())
	l := layouts.Declared(f.Experiment, a.tables.Layouts, a.command(),
		func(label string, why error) {
			fmt.Fprintf(a.stderr, "left out: %s: %v\n", label, why)
		}, &m.Mistakes)

	if err := m.Err(); err != nil {
		return nil, how, so, err
	}

	estimated := func(how plan.Plan, on estimate.Machine) ([]estimate.Step, error) {
		return l.Steps(how, on), nil
	}
	how, err = a.prepare(f, true, estimated)
	if err != nil {
		return nil, how, so, err
	}

	l.States = cmp.Or(absolute(f.DB.Value()), filepath.Join(how.Out, "states"))
	work = layouts.New(l, how, a)
	if listed, err := a.listed(f, &how, work.Points()); listed || err != nil {
		return nil, how, so, err
	}

	so, err = plan.Run(a.ctx, how, work, steps(p, before))
	p.Printf("")
	return work, how, so, err
}
