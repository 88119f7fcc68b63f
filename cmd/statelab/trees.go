package main

import (
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/plan/runners"
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
