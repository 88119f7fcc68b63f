package main

import (
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/plan/replays"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
)

// treeRunnerVerb starts this binary as the runner of the trees it links.
const treeRunnerVerb = "__trees"

// pluggedTrees are runners that somebody plugged in: statelab-run-NAME, or for
// NAME-VARIANT statelab-run-NAME too.
func pluggedTrees(name string) (maybe []runners.Known, advice string) {
	base, _, _ := strings.Cut(name, "-")
	for _, runner := range slices.Compact([]string{"statelab-run-" + name, "statelab-run-" + base}) {
		maybe = append(maybe, runners.Plug(name, runner, "a runner of this name must hold it"))
	}
	return maybe, "a tree of your own needs a runner named statelab-run-" + name
}

// trees finds the entries of --tree and checks their options.
func (a *app) trees(labels []string, base protocol.TreeSpec, options []setting.Option, stores []string, m *mistakes) (entries []replays.Entry) {
	settings, names := setting.Points(options)
	for _, t := range a.tables.trees.Choose("tree", labels, &m.Mistakes) {
		for i, setting := range settings {
			if len(stores) > 0 { // else the set has said what is wrong, or names its stores later
				m.All("tree "+t.Label, t.Check(protocol.TreeQuestion{Tree: t.Info.Name, Profile: t.Profile, CacheNodes: base.CacheNodes,
					MemoryBytes: base.MemoryBytes, Overrides: setting, Stores: stores}))
			}
			entries = append(entries, replays.Entry{Label: t.Label + names[i], Profile: t.Profile, Options: setting, Info: t.Info})
		}
	}
	return entries
}
