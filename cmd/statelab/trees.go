package main

import (
	"os"
	"strings"

	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/remote"
	"github.com/statelab/statelab/internal/plan/replays"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/tree"
	"github.com/statelab/statelab/trees/null"
)

// treeRunnerVerb starts this binary as the runner of the trees it links.
const treeRunnerVerb = "__trees"

func embeddedTrees() []tree.Tree { return []tree.Tree{null.Tree{}} }

const treesFix = "make trees, in statelab's source"

// outsideTrees are the trees in runner binaries of their own.
func outsideTrees() []remote.KnownTree {
	known := func(name, runner, about, licence string) remote.KnownTree {
		return remote.KnownTree{Tree: name, About: about, Licence: licence, Runner: "statelab-run-" + runner, Fix: treesFix}
	}
	return []remote.KnownTree{
		known("iavl0", "iavl0", "Cosmos IAVL v0.21 on goleveldb", "Apache-2.0"),
		known("iavl1", "iavl1", "Cosmos IAVL v1 on goleveldb", "Apache-2.0"),
		known("iavl1-map", "iavl1", "Cosmos IAVL v1 on an in-memory map", "Apache-2.0"),
		known("iavl2", "iavl2", "Cosmos IAVL v2 on SQLite", "Apache-2.0"),
		known("avlite", "avlite", "the IAVL v2 of 2023: log, checkpoints, goleveldb", "Apache-2.0"),
		known("memiavl", "memiavl", "memiavl of Cronos, log written in the commit", "Apache-2.0"),
		known("memiavl-async", "memiavl", "memiavl of Cronos, log written behind the commit", "Apache-2.0"),
		known("cosmosstore", "cosmosstore", "Cosmos SDK store v2: rootmulti over IAVL v1", "Apache-2.0"),
	}
}

// findTree finds a tree by name: here, in the runner the table names, or in one
// that somebody plugged in: statelab-run-NAME, or for NAME-VARIANT
// statelab-run-NAME too.
func (a *app) findTree(name string) (*remote.Tree, error) {
	for _, t := range embeddedTrees() {
		if t.Info().Name == name {
			self, err := os.Executable()
			if err != nil {
				self = os.Args[0]
			}
			return &remote.Tree{Path: self, Args: []string{treeRunnerVerb}, Info: t.Info()}, nil
		}
	}
	var names []string
	for _, known := range outsideTrees() {
		if known.Tree == name {
			return known.Find()
		}
		names = append(names, known.Tree)
	}
	plugged := remote.KnownTree{Tree: name, Runner: "statelab-run-" + name,
		Fix: "the trees of this version are null, " + strings.Join(names, ", ") + "; another needs a runner of that name"}
	t, err := plugged.Find()
	if base, _, isVariant := strings.Cut(name, "-"); err != nil && isVariant {
		plugged.Runner = "statelab-run-" + base
		t, err = plugged.Find()
	}
	return t, err
}

// trees finds the entries of --tree and checks their options.
func (a *app) trees(list experiment.List, base replay.Spec, options []plan.Option, stores []string, m *mistakes) (entries []replays.Entry) {
	m.twice("tree", list.Values())
	settings, names := plan.Settings(options)
	for _, label := range list.Values() {
		name, profile, _ := strings.Cut(label, ":")
		t, err := a.findTree(name)
		if err == nil {
			profile, err = profileOf(name, profile, t.Info.Profiles)
		}
		if err != nil {
			m.add("--tree %s: %v", label, err)
			continue
		}
		for i, setting := range settings {
			if len(stores) > 0 { // else the set has said what is wrong, or names its stores later
				m.addAll("tree "+label, t.Check(remote.TreeQuestion{Profile: profile, CacheNodes: base.CacheNodes, MemoryBytes: base.MemoryBytes,
					Overrides: setting, Stores: stores}))
			}
			entries = append(entries, replays.Entry{Label: label + names[i], Profile: profile, Options: setting, Info: t.Info})
		}
	}
	return entries
}
