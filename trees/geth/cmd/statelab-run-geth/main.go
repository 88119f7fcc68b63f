// Command statelab-run-geth is the runner of go-ethereum's state layouts.
package main

import (
	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/trees/geth"
)

func main() { runner.States(geth.Layouts()...) }
