package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

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
	fixed, options := m.options(f.Options)
	base, sizes := f.lookupSpec(fixed, m)
	entries := a.findLayouts(f.Layout, base, options, m)
	repeats := int(m.atLeastOne("repeats", f.Repeats, "3"))
	ahead, aheadMemory := f.layoutQuestion(m)
	if err := m.err(); err != nil {
		return nil, how, so, err
	}
	l := layouts.Layouts{Command: a.command(), Base: base, Entries: entries, Accounts: sizes, Keep: f.Keep, Class: string(f.Constraint),
		At: ahead, AtMemory: aheadMemory}
	how, err = a.prepare(f, base.Chain.Seed, repeats, true, func(how plan.Plan, on estimate.Machine) ([]estimate.Step, error) {
		return layoutSteps(l, how, on), nil
	})
	if err != nil {
		return nil, how, so, err
	}
	l.States = cmp.Or(absolute(f.DB), filepath.Join(how.Out, "states"))
	work = layouts.New(l, how, a)
	if how.Only, err = f.only(how, work.Points()); err != nil || f.matrix {
		return nil, how, so, errors.Join(err, a.printMatrix(f, how, work.Points()))
	}
	so, err = plan.Run(a.ctx, how, work, func(at plan.Progress) { p.step(before, at, at.Event) })
	p.say("")
	return work, how, so, err
}

// spec turns the flags into what all layouts share.
func (f *flags) lookupSpec(fixed map[string]string, m *mistakes) (base protocol.LayoutSpec, sizes []uint64) {
	for _, text := range f.Accounts.Values() {
		n := m.count("accounts", text)
		if n == 0 && f.Accesses == "" {
			m.add("--accounts %s: must be at least 1 (example: 10k,100k,1M); 0 needs --accesses LIST", text)
			n = 1
		}
		if slices.Contains(sizes, n) {
			m.add("--accounts %s: named twice", text)
		}
		sizes = append(sizes, n)
	}
	if len(sizes) == 0 {
		m.add("--accounts: give at least one size (example: --accounts 10k,100k)")
	}
	slices.Sort(sizes)
	share, isPercent, err := unit.ParsePercent(f.Contracts)
	if err != nil || !isPercent {
		m.add("--contracts %q: must be a share (example: --contracts 10%%)", f.Contracts)
	}
	memory, err := unit.ParseBytes(string(f.Memory))
	if err != nil {
		m.add("--memory: %v", err)
	}
	m.accessList(f.Accesses)
	base = protocol.LayoutSpec{Accesses: absolute(f.Accesses), MemoryBytes: memory, Overrides: fixed, Reads: m.atLeastOne("reads", f.Lookup, "100k"),
		First: m.count("first", f.First),
		Chain: protocol.Chain{Seed: m.seed(f.Seed), ContractShare: share, SlotsPer: m.count("slots", f.Slots), BlockAccounts: m.atLeastOne("block", f.Block, "5k"),
			UpdateBlocks: m.count("update-blocks", f.UpdateBlocks), UpdateAccounts: m.count("updates", f.Updates),
			ContractSlots: m.count("contract-slots", f.ContractSlots.First())}}
	if base.Chain.UpdateAccounts == 0 {
		base.Chain.UpdateBlocks = 0 // a block without a change is no update
	}
	for _, n := range sizes {
		spec := base
		spec.Chain.Accounts = n
		m.addAll("", spec.Check())
	}
	return base, sizes
}

// layoutQuestion is what --at and --at-memory ask: which layout for so many accounts with
// so much memory.
func (f *flags) layoutQuestion(m *mistakes) (accounts []uint64, memory []int64) {
	for _, text := range f.Ahead.Values() {
		accounts = append(accounts, m.atLeastOne("at", text, "50M"))
	}
	for _, text := range f.AheadMemory.Values() {
		bytes, err := unit.ParseSize("memory", text, "4GiB, 500MB")
		if err != nil {
			m.add("--at-memory: %v", err)
		}
		memory = append(memory, bytes)
	}
	if len(memory) > 0 && len(accounts) == 0 {
		m.add("--at-memory: say with how many accounts (example: --at 50M --at-memory 4GiB)")
	}
	return accounts, memory
}

// findLayouts finds the entries of --layout and checks their options.
func (a *app) findLayouts(list experiment.List, base protocol.LayoutSpec, options []plan.Option, m *mistakes) (entries []layouts.Entry) {
	labels := list.Values()
	if list == allLayouts {
		labels = nil
		for _, l := range subject.Layouts() {
			if _, err := a.tables.layouts.find(l.Name()); err != nil {
				fmt.Fprintf(a.stderr, "left out: %s: %v\n", l.Label, err)
			} else {
				labels = append(labels, l.Label)
			}
		}
	}
	if len(labels) == 0 {
		m.add("--layout: name at least one layout, such as --layout geth-path,flat-pebble")
	}
	settings, names := plan.Settings(options)
	for _, l := range a.tables.layouts.choose("layout", labels, m) {
		for i, setting := range settings {
			m.addAll("layout "+l.label, l.Check(protocol.LayoutQuestion{Layout: l.Info.Name, Profile: l.profile,
				MemoryBytes: base.MemoryBytes, Overrides: setting}))
			entries = append(entries, layouts.Entry{Label: l.label + names[i], Profile: l.profile, Options: setting, Info: l.Info})
		}
	}
	return entries
}

// pluggedLayouts are runners that may hold a layout that somebody plugged in, as a
// library or as statelab-run-NAME.
func pluggedLayouts(name string) ([]runners.Known, string) {
	return []runners.Known{
		plugged(name, "statelab-run-states", "it loads $"+stateLibraryEnv+" and lib/libstatelab_*.so"),
		plugged(name, "statelab-run-"+name, "a runner of this name must hold it"),
	}, "a layout of your own needs a library named in $" + stateLibraryEnv + " or a runner named statelab-run-" + name
}
