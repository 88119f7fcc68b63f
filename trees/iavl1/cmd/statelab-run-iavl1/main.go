// Command statelab-run-iavl1 is the runner of iavl v1.
package main

import (
	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/trees/iavl1"
)

func main() { runner.Trees(iavl1.Tree{}, iavl1.MapTree{}) }
