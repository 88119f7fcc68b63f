// Command statelab-run-memiavl replays change sets into memiavl, for statelab.
package main

import (
	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/trees/memiavl"
)

func main() { runner.Trees(memiavl.Sync(), memiavl.Async()) }
