package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/report"
	"github.com/statelab/statelab/internal/plan/layoutplan"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/chunktrie"
	"github.com/statelab/statelab/layouts/flat"
	"github.com/statelab/statelab/layouts/pagetrie"
	"github.com/statelab/statelab/result"
)

// stateRunnerVerb starts this binary as the runner of the layouts it links.
const stateRunnerVerb = "__states"

func embeddedLayouts() []layout.Layout {
	return []layout.Layout{flat.Layout{Name: "flat-pebble", Engine: pebble2.Engine{}}, pagetrie.Layout{}, chunktrie.Layout{}}
}

// outsideLayouts are the layouts in runner binaries of their own.
func outsideLayouts() []runners.Known {
	known := func(name, runner, about, licence, fix string) runners.Known {
		return runners.Known{Name: name, About: about, Licence: licence, Runner: "statelab-run-" + runner, Fix: fix}
	}
	return []runners.Known{
		known("flat-mdbx", "flatmdbx", "accounts and slots as keys of libmdbx", "Apache-2.0", runnersFix),
		known("nomt", "states", "NOMT: values in a B-tree, a trie in pages of six binary levels", "MIT OR Apache-2.0", librariesFix),
		known("qmdb", "states", "QMDB: an append-only log with an index in memory", "MIT OR Apache-2.0", librariesFix),
		known("geth-hash", "geth", "go-ethereum's trie, nodes under their hashes, on Pebble", "LGPL-3.0", treesFix),
		known("geth-path", "geth", "go-ethereum's trie, nodes under their paths, on Pebble", "LGPL-3.0", treesFix),
		known("geth-flat", "geth", "go-ethereum's flat state beside its trie, on Pebble", "LGPL-3.0", treesFix),
	}
}

// stateLibraryEnv names a user's own library of a layout; statelab-run-states loads it.
const stateLibraryEnv = "STATELAB_STATE_LIBRARY"

// allLayouts stands for every layout that is here, with the profiles that published
// claims are about.
const allLayouts = "all"

func everyLayout() []string {
	return []string{"flat-pebble", "flat-mdbx", "pagetrie", "chunktrie", "chunktrie:unpinned", "geth-flat", "geth-path", "geth-hash", "nomt", "nomt:prove", "qmdb"}
}

// layoutsFlags are the verb's flags as typed.
type layoutsFlags struct {
	layout, accounts, contracts, slots, block, updates, updateBlocks, reads, memory, out, db, seed string
	set                                                                                            []string
	keep, json, quiet, strict                                                                      bool
}

func (a *app) layoutsVerb() *cobra.Command {
	f := new(layoutsFlags)
	cmd := &cobra.Command{
		Use:   "layouts --accounts LIST --memory SIZE --out L",
		Short: "Hold state layouts against each other: nodes, reads, bytes and time of a lookup, over the size",
		Long: `Layouts builds the same accounts in each layout, changes them block by block and
looks them up, in processes of their own, and compares roots.

  statelab layouts --accounts 10k,100k,1M --memory 64MiB --out L
  statelab layouts --layout geth-path,flat-pebble --accounts 100k --out L
  statelab layouts --db MOUNT ... (a folder on a statelab volume: exact device reads)

Exit 1 if layouts of Ethereum's rule disagree on a root, or one fails.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.layouts(cmd, f, args) },
	}
	flag := cmd.Flags()
	flag.StringVar(&f.layout, "layout", allLayouts, "layouts (list), LAYOUT or LAYOUT:PROFILE; all: every one that is here")
	flag.StringVar(&f.accounts, "accounts", "10k,100k", "sizes (list)")
	flag.StringVar(&f.contracts, "contracts", "10%", "share of the accounts that have storage")
	flag.StringVar(&f.slots, "slots", "16", "storage slots of each of those")
	flag.StringVar(&f.block, "block", "5k", "accounts that a block of the build makes")
	flag.StringVar(&f.updates, "updates", "500", "accounts that a measured block changes")
	flag.StringVar(&f.updateBlocks, "update-blocks", "20", "measured blocks; 0: none")
	flag.StringVar(&f.reads, "reads", "20k", "lookups of each kind")
	flag.StringVar(&f.memory, "memory", "64MiB", "memory budget of a layout, page cache included; 0: the profile's, nothing is held")
	flag.StringVar(&f.out, "out", "", "folder for the results (default: a new one under statelab-runs)")
	flag.StringVar(&f.db, "db", "", "folder for the states' files (default: states in --out)")
	flag.StringVar(&f.seed, "seed", "1", "seed of the accounts and the lookups")
	flag.StringArrayVar(&f.set, "set", nil, "override an option of the layouts: --set Name=Value (repeatable)")
	flag.BoolVar(&f.keep, "keep", false, "leave the states' files")
	flag.BoolVar(&f.json, "json", false, "print layouts.json")
	flag.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	flag.BoolVar(&f.strict, "strict", false, "exit 3 if there is a warning")
	cmd.FParseErrWhitelist.UnknownFlags = true
	return cmd
}

func (a *app) layouts(cmd *cobra.Command, f *layoutsFlags, args []string) error {
	m := new(mistakes)
	m.unknownFlags(cmd, a.args)
	m.noArguments(args)
	base, sizes := f.spec(m)
	entries := a.findLayouts(f.layout, base, m)
	if err := m.err(); err != nil {
		return err
	}
	out := (&flags{out: f.out}).outFolder("layouts")
	if err := refuseOther(out); err != nil {
		return err
	}
	plan := layoutplan.Plan{Command: a.command(), Base: base, Entries: entries, Accounts: sizes, States: absolute(f.db), Keep: f.keep}
	if plan.States == "" {
		plan.States = filepath.Join(out, "states")
	}
	p := a.progress(f.quiet)
	done, err := layoutplan.Layouts(a.ctx, plan, out, a.runLayout, func(n, of int, e layoutplan.Entry, accounts uint64, event result.Event) {
		p.tell(fmt.Sprintf("%d of %d (%s, %s accounts): ", n, of, e.Label, unit.ShortCount(float64(accounts))), event)
	})
	p.say("")
	if done == nil {
		return err
	}
	return errors.Join(err, a.concludeLayouts(f, out, done, p))
}

func (a *app) concludeLayouts(f *layoutsFlags, out string, done *result.Layouts, p *progress) error {
	if err := a.explainLayouts(out, filepath.Join(out, result.ReportFile), f.json); err != nil {
		return err
	}
	for _, w := range done.Warnings {
		p.say("warning: %s", w.Text)
		if w.Remedy != "" {
			p.say("         remedy: %s", w.Remedy)
		}
	}
	p.say("layouts folder: %s", out)
	switch {
	case done.Status == result.Interrupted:
		return errInterrupted
	case done.Status == result.Failed:
		return errors.New(done.Error)
	case f.strict && len(done.Warnings) > 0:
		return &strictError{len(done.Warnings)}
	}
	return nil
}

// reportLayouts explains a folder with layouts.json.
func (a *app) reportLayouts(folders []string, path string) error {
	if len(folders) > 1 {
		return usage("%s holds a comparison of layouts: report takes one of those at a time", folders[0])
	}
	return a.explainLayouts(folders[0], orDefault(path, filepath.Join(folders[0], result.ReportFile)), false)
}

// explainLayouts prints a folder's answer and writes its report.
func (a *app) explainLayouts(folder, path string, asJSON bool) error {
	l, err := result.ReadLayouts(folder)
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printJSON(l)
	} else {
		err = report.LayoutsText(a.stdout, l)
	}
	if err != nil {
		return err
	}
	if err := writeFile(path, func(f *os.File) error { return report.WriteLayouts(f, l) }); err != nil {
		return err
	}
	if !asJSON {
		fmt.Fprintf(a.stdout, "\nreport: %s\n", path)
	}
	return nil
}

// spec turns the flags into what all layouts share.
func (f *layoutsFlags) spec(m *mistakes) (base lookup.Spec, sizes []uint64) {
	for _, text := range list(f.accounts) {
		n := m.atLeastOne("accounts", text, "10k,100k,1M")
		if slices.Contains(sizes, n) {
			m.add("--accounts %s: named twice", text)
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	share, isPercent, err := unit.ParsePercent(f.contracts)
	if err != nil || !isPercent {
		m.add("--contracts %q: a share such as --contracts 10%%", f.contracts)
	}
	memory, err := unit.ParseBytes(f.memory)
	if err != nil {
		m.add("--memory: %v", err)
	}
	base = lookup.Spec{MemoryBytes: memory, Overrides: m.overrides(f.set), Reads: m.atLeastOne("reads", f.reads, "100k"),
		Chain: lookup.Chain{Seed: m.seed(f.seed), ContractShare: share, SlotsPer: m.count("slots", f.slots), BlockAccounts: m.atLeastOne("block", f.block, "5k"),
			UpdateBlocks: m.count("update-blocks", f.updateBlocks), UpdateAccounts: m.count("updates", f.updates)}}
	for _, n := range sizes {
		chain := base.Chain
		chain.Accounts = max(n, 1)
		m.addAll("", chain.Check())
	}
	return base, sizes
}

// findLayouts finds the entries of --layout and checks their options.
func (a *app) findLayouts(text string, base lookup.Spec, m *mistakes) (entries []layoutplan.Entry) {
	labels := list(text)
	if text == allLayouts {
		labels = slices.DeleteFunc(everyLayout(), func(label string) bool {
			name, _, _ := strings.Cut(label, ":")
			_, err := a.tables.layouts.find(name)
			if err != nil {
				fmt.Fprintf(a.stderr, "left out: %s: %v\n", label, err)
			}
			return err != nil
		})
	}
	for _, l := range a.tables.layouts.choose("layout", labels, m) {
		m.addAll("layout "+l.label, l.Check(protocol.LayoutQuestion{Layout: l.Info.Name, Profile: l.profile,
			MemoryBytes: base.MemoryBytes, Overrides: base.Overrides}))
		entries = append(entries, layoutplan.Entry{Label: l.label, Profile: l.profile, Info: l.Info})
	}
	if len(labels) == 0 {
		m.add("--layout: name at least one layout, such as --layout geth-path,flat-pebble")
	}
	return entries
}

// pluggedLayouts are runners that may hold a layout that somebody plugged in, as a
// library or as statelab-run-NAME.
func pluggedLayouts(name string) ([]runners.Known, string) {
	return []runners.Known{
		{Name: name, Runner: "statelab-run-states", Fix: "it loads $" + stateLibraryEnv + " and lib/libstatelab_*.so"},
		{Name: name, Runner: "statelab-run-" + name, Fix: "a runner of this name must hold it"},
	}, "a layout of your own needs a library named in $" + stateLibraryEnv + " or a runner named statelab-run-" + name
}

// runLayout carries out one spec in the runner of its layout.
func (a *app) runLayout(ctx context.Context, e layoutplan.Entry, spec *lookup.Spec, tell result.Tell) (*result.Run, error) {
	l, err := a.tables.layouts.find(e.Info.Name)
	if err != nil {
		return nil, fmt.Errorf("layout %s: %w", e.Label, err)
	}
	return l.Do(ctx, runners.Job{Spec: spec, Blank: func() *result.Run { return lookup.Blank(spec, e.Info) }}, tell)
}
