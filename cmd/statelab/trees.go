package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/plan/contest"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
	"github.com/statelab/statelab/trees/null"
)

// treeRunnerVerb starts this binary as the runner of the trees it links.
const treeRunnerVerb = "__trees"

func embeddedTrees() []tree.Tree { return []tree.Tree{null.Tree{}} }

// outsideTrees are the trees in runner binaries of their own.
func outsideTrees() []runners.Known {
	known := func(name, runner, about, licence string) runners.Known {
		return runners.Known{Name: name, About: about, Licence: licence, Runner: "statelab-run-" + runner, Fix: treesFix}
	}
	return []runners.Known{
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

// pluggedTrees are runners that somebody plugged in: statelab-run-NAME, or for
// NAME-VARIANT statelab-run-NAME too.
func pluggedTrees(name string) (maybe []runners.Known, advice string) {
	base, _, _ := strings.Cut(name, "-")
	for _, runner := range slices.Compact([]string{"statelab-run-" + name, "statelab-run-" + base}) {
		maybe = append(maybe, runners.Known{Name: name, Runner: runner, Fix: "a runner of this name must hold it"})
	}
	return maybe, "a tree of your own needs a runner named statelab-run-" + name
}

// trees finds the entries of --tree and checks their options.
func (a *app) trees(text string, base replay.Spec, stores []string, m *mistakes) (entries []contest.Entry) {
	for _, t := range a.tables.trees.choose("tree", list(text), m) {
		if len(stores) > 0 { // else the set has said what is wrong, or names its stores later
			m.addAll("tree "+t.label, t.Check(protocol.TreeQuestion{Tree: t.Info.Name, Profile: t.profile, CacheNodes: base.CacheNodes, MemoryBytes: base.MemoryBytes,
				Overrides: base.Overrides, Stores: stores}))
		}
		entries = append(entries, contest.Entry{Label: t.label, Profile: t.profile, Info: t.Info})
	}
	return entries
}

// runTree replays one spec in the runner of its tree.
func (a *app) runTree(ctx context.Context, e contest.Entry, spec *replay.Spec, tell result.Tell) (*result.Run, error) {
	t, err := a.tables.trees.find(e.Info.Name)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", e.Label, err)
	}
	return t.Do(ctx, runners.Job{Spec: spec, Blank: func() *result.Run { return replay.Blank(spec, e.Info) }}, tell)
}
