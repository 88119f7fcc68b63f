package main

import (
	"cmp"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/replays"
)

func (a *app) replayVerb() *cobra.Command {
	return a.measuringVerb(experiment.Replay, &cobra.Command{
		Use:   "replay --tree LIST --changes SET --out R",
		Short: "Compare state trees (IAVL, memiavl) on a chain's change set",
		Long: `Replay applies a change set (statelab changeset) version by version to each tree, in
a process of its own, and compares the trees' speed, size and roots. "statelab engines"
lists the trees and what is missing.

  statelab replay --tree iavl1,memiavl --changes set.slcs --out R --repeats 2
  statelab replay --tree iavl1 --changes set.slcs --out R --gets 100k
  statelab replay --resume --out R                 (after Ctrl-C, a kill, a reboot)

Exit 1 if trees of one root rule disagree, or one fails.`,
	})
}

func (a *app) replay(f *flags, m *mistakes) error {
	r, info := replays.Declared(f.Experiment, a.tables.Trees, a.command(), &m.Mistakes)
	if !experiment.SubjectAs[*experiment.ReplayConfig](f.Experiment).Tree.IsSet() {
		m.At("tree", "", "name the trees to compare: %s", m.Name("tree", "iavl1,memiavl"))
	}

	if err := m.Err(); err != nil {
		return err
	}

	how, err := a.prepare(f, false, func(
		how plan.Plan, on estimate.Machine,
	) ([]estimate.Step, error) {
		return r.Steps(info, how, on), nil
	})
	if err != nil {
		return err
	}

	r.Trees = cmp.Or(absolute(f.DB.Value()), filepath.Join(how.Out, "trees"))
	work := replays.New(r, how, a)
	if listed, err := a.listed(f, &how, work.Points()); listed || err != nil {
		return err
	}

	p := a.progress()
	show := steps(p, "")
	so, err := plan.Run(a.ctx, how, work, func(at plan.Progress) {
		if a.live != nil {
			a.live.Replay.Observe(at.Label, at.Event)
		}
		at.Event = replays.WithNote(at.Event)
		show(at)
	})

	p.Printf("")
	d := finished{
		status:   work.Result.Status,
		error:    work.Result.Error,
		why:      work.Result.FailureInfo,
		out:      how.Out,
		warnings: append(changeset.Inherited(info), work.Result.Warnings...),
	}

	return a.compared(f, p, d, so, len(work.Result.Trees) > 0, err)
}
