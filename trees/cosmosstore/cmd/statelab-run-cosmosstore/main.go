// Command statelab-run-cosmosstore is the runner of the Cosmos SDK's store.
package main

import (
	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/trees/cosmosstore"
)

func main() { runner.Trees(cosmosstore.Tree{}) }
