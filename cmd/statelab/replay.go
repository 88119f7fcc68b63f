package main

import (
	"cmp"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/replays"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
)

func (a *app) replayVerb() *cobra.Command {
	return a.measuringVerb(experiment.Replay, &cobra.Command{
		Use:   "replay --tree LIST --changes SET --out R",
		Short: "Compare state trees (IAVL, memiavl) on a chain's change set",
		Long: `Replay applies a change set (statelab changeset) version by version to each tree,
a process each, and compares their speed, size and roots. "statelab engines" lists
the trees and what is missing.

  statelab replay --tree iavl1,memiavl --changes set.slcs --out R --repeats 2
  statelab replay --tree iavl1 --changes set.slcs --out R --gets 100k
  statelab replay --resume --out R                 (after Ctrl-C, a kill, a reboot)

Exit 1 if trees of one root rule disagree, or one fails.`,
	})
}

func (a *app) replay(f *flags, m *mistakes) error {
	s := experiment.Of[*experiment.Replayed](f.Experiment)
	base := protocol.TreeSpec{
		Overrides: f.Options.Fixed(), CacheNodes: int64(s.CacheNodes.V()), MemoryBytes: s.Memory.V(), Changes: absolute(s.Changes.V()), Stores: s.Stores.All(),
		Versions: int64(s.Versions.V()), RootsEvery: int64(s.RootsEvery.V()), CommitLimitNanos: int64(s.CommitLimit.V()), Gets: s.Gets.V(), Seed: f.Seed.V(),
	}
	info := m.changes(s.Changes.V())
	stores := info.Stores
	if len(base.Stores) > 0 {
		stores = base.Stores
	}
	entries := replays.Entries(s.Tree.All(), f.Options.All(), base, stores, a.tables.trees, &m.Mistakes)
	if !s.Tree.Given() {
		m.At("tree", "", "name the trees to compare: %s", m.Name("tree", "iavl1,memiavl"))
	}
	if base.Gets > 0 && len(entries) == 1 && entries[0].Info.RootRule == result.NoRoots {
		m.At("gets", "", "the tree %s keeps nothing to look up", entries[0].Label)
	}
	if err := m.err(); err != nil {
		return err
	}
	r := replays.Replays{Command: a.command(), Base: base, Entries: entries, Discard: s.Discard.V(), Class: f.Constraint.V()}
	how, err := a.prepare(f, false, func(how plan.Plan, on estimate.Machine) ([]estimate.Step, error) {
		return r.Steps(info, how, on), nil
	})
	if err != nil {
		return err
	}
	r.Trees = cmp.Or(absolute(f.DB.V()), filepath.Join(how.Out, "trees"))
	work := replays.New(r, how, a)
	if how.Only, err = f.only(how, work.Points()); err != nil || f.matrix {
		return errors.Join(err, a.printMatrix(f, how, work.Points()))
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
	p.Say("")
	d := finished{status: work.Result.Status, error: work.Result.Error, why: work.Result.Why, out: how.Out,
		warnings: append(changeset.Inherited(info), work.Result.Warnings...)}
	return a.compared(f, p, d, so, len(work.Result.Trees) > 0, err)
}

// changes opens the set as the runners will, and says what it knows of itself.
func (m *mistakes) changes(path string) (info changeset.Info) {
	if path == "" {
		m.At("changes", "", "name the change set: %s (statelab changeset makes one)", m.Name("changes", "set.slcs"))
		return info
	}
	full := absolute(path)
	source, err := changeset.OpenFile(full, "")
	if err != nil {
		m.At("changes", "", "%v", err)
		return info
	}
	info = source.Info()
	if err := source.Close(); err != nil {
		m.At("changes", "", "%v", err)
	}
	return info
}
