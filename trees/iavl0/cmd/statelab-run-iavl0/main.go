// Command statelab-run-iavl0 is the runner of iavl v0.
package main

import (
	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/trees/iavl0"
)

func main() { runner.Trees(iavl0.Tree{}) }
