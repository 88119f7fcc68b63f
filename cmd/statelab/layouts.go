package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/layouts"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
)

// stateRunnerVerb starts this binary as the runner of the layouts it links.
const stateRunnerVerb = "__states"

// stateLibraryEnv names a user's own library of a layout; statelab-run-states loads it.
const stateLibraryEnv = "STATELAB_STATE_LIBRARY"

// allLayouts stands for every layout that is here, with the profiles that published
// claims are about.
const allLayouts = "all"

func (a *app) layoutsVerb() *cobra.Command {
	return a.measuringVerb(experiment.Layouts, &cobra.Command{
		Use:   "layouts --accounts LIST --memory SIZE --out L",
		Short: "Compare layouts of Ethereum's state: reads and time of a lookup",
		Long: `Layouts builds the same accounts in each layout, changes them block by block and
looks them up, in processes of their own, and compares roots.

  statelab layouts --accounts 10k,100k,1M --memory 64MiB --out L
  statelab layouts --layout geth-path,flat-pebble --accounts 100k --repeats 3 --out L
  statelab layouts --accounts 10k,100k --at 50M --at-memory 4GiB --out L   (which layout for my size and memory?)
  statelab layouts --accesses list.slal --accounts 1M --memory 64MiB --out L   (blocks' accesses)
  statelab layouts --db MOUNT ... (a folder on a statelab volume: exact device reads)
  statelab layouts --resume --out L                (after Ctrl-C, a kill, a reboot)

Exit 1 if layouts of Ethereum's rule disagree on a root, or one fails.`,
	})
}

func (a *app) layouts(f *flags, m *mistakes) error {
	p := a.progress()
	work, how, so, err := a.measureLayouts(f, m, p, "")
	if work == nil {
		return err
	}
	d := finished{status: work.Result.Status, error: work.Result.Error, why: work.Result.Why, warnings: work.Result.Warnings, out: how.Out}
	return a.compared(f, p, d, so, len(work.Result.Rows) > 0, err)
}

// measureLayouts measures the layouts that f declares; nil where it did not begin.
func (a *app) measureLayouts(f *flags, m *mistakes, p *progress, before string) (work *layouts.Work, how plan.Plan, so plan.Outcome, err error) {
	s := f.states()
	base, sizes := f.lookupSpec(s, m)
	entries := a.findLayouts(s.Layout.All(), base, f.Options.All(), m)
	if s.AheadMemory.Given() && !s.Ahead.Given() {
		m.At("at-memory", "", "say with how many accounts (example: %s)", m.Name("at", "50M"))
	}
	if err := m.err(); err != nil {
		return nil, how, so, err
	}
	l := layouts.Layouts{Command: a.command(), Base: base, Entries: entries, Accounts: sizes, Keep: s.Keep.V(), Class: f.Constraint.V(),
		At: s.Ahead.All(), AtMemory: s.AheadMemory.All()}
	how, err = a.prepare(f, true, func(how plan.Plan, on estimate.Machine) ([]estimate.Step, error) {
		return layoutSteps(l, how, on), nil
	})
	if err != nil {
		return nil, how, so, err
	}
	l.States = cmp.Or(absolute(f.DB.V()), filepath.Join(how.Out, "states"))
	work = layouts.New(l, how, a)
	if how.Only, err = f.only(how, work.Points()); err != nil || f.matrix {
		return nil, how, so, errors.Join(err, a.printMatrix(f, how, work.Points()))
	}
	so, err = plan.Run(a.ctx, how, work, func(at plan.Progress) { p.step(before, at, at.Event) })
	p.say("")
	return work, how, so, err
}

// states are the settings of the states that layouts and price build.
func (f *flags) states() *experiment.States {
	if p, is := f.Subject.(*experiment.Priced); is {
		return &p.States
	}
	return experiment.Of[*experiment.States](f.Experiment)
}

// lookupSpec is what all layouts share, and the sizes of the states.
func (f *flags) lookupSpec(s *experiment.States, m *mistakes) (base protocol.LayoutSpec, sizes []uint64) {
	for _, n := range s.Accounts.All() {
		if n == 0 && !s.Accesses.Given() {
			m.At("accounts", "0", "must be at least 1 (example: 10k,100k,1M); 0 needs %s", m.Name("accesses", "LIST"))
			n = 1
		}
		if slices.Contains(sizes, n) {
			m.At("accounts", unit.ShortCount(float64(n)), "named twice")
		}
		sizes = append(sizes, n)
	}
	if len(sizes) == 0 {
		m.At("accounts", "", "give at least one size (example: %s)", m.Name("accounts", "10k,100k"))
	}
	slices.Sort(sizes)
	m.accessList(s.Accesses.V())
	base = protocol.LayoutSpec{Accesses: absolute(s.Accesses.V()), MemoryBytes: s.Memory.V(), Overrides: f.Options.Fixed(), Reads: s.Lookup.V(),
		First: s.First.V(),
		Chain: protocol.Chain{Seed: f.Seed.V(), ContractShare: s.Contracts.V(), SlotsPer: s.Slots.V(), BlockAccounts: s.Block.V(),
			UpdateBlocks: s.UpdateBlocks.V(), UpdateAccounts: s.Updates.V(), ContractSlots: s.ContractSlots.V()}}
	if base.Chain.UpdateAccounts == 0 {
		base.Chain.UpdateBlocks = 0 // a block without a change is no update
	}
	for _, n := range sizes {
		spec := base
		spec.Chain.Accounts = n
		m.All("", spec.Check())
	}
	return base, sizes
}

// findLayouts finds the entries of --layout and checks their options.
func (a *app) findLayouts(labels []string, base protocol.LayoutSpec, options []setting.Option, m *mistakes) (entries []layouts.Entry) {
	if slices.Equal(labels, []string{allLayouts}) {
		labels = nil
		for _, l := range subject.Layouts() {
			if _, err := a.tables.layouts.Find(l.Name()); err != nil {
				fmt.Fprintf(a.stderr, "left out: %s: %v\n", l.Label, err)
			} else {
				labels = append(labels, l.Label)
			}
		}
	}
	if len(labels) == 0 {
		m.At("layout", "", "name at least one layout, such as %s", m.Name("layout", "geth-path,flat-pebble"))
	}
	settings, names := setting.Points(options)
	for _, l := range a.tables.layouts.Choose("layout", labels, &m.Mistakes) {
		for i, setting := range settings {
			m.All("layout "+l.Label, l.Check(protocol.LayoutQuestion{Layout: l.Info.Name, Profile: l.Profile,
				MemoryBytes: base.MemoryBytes, Overrides: setting}))
			entries = append(entries, layouts.Entry{Label: l.Label + names[i], Profile: l.Profile, Options: setting, Info: l.Info})
		}
	}
	return entries
}

// pluggedLayouts are runners that may hold a layout that somebody plugged in, as a
// library or as statelab-run-NAME.
func pluggedLayouts(name string) ([]runners.Known, string) {
	return []runners.Known{
		runners.Plug(name, "statelab-run-states", "it loads $"+stateLibraryEnv+" and lib/libstatelab_*.so"),
		runners.Plug(name, "statelab-run-"+name, "a runner of this name must hold it"),
	}, "a layout of your own needs a library named in $" + stateLibraryEnv + " or a runner named statelab-run-" + name
}
