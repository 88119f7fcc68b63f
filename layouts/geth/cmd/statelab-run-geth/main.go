// Command statelab-run-geth is the runner of go-ethereum's state layouts.
package main

import (
	"github.com/statelab/statelab/layouts/geth"
	"github.com/statelab/statelab/runner"
)

func main() { runner.Layouts(geth.Layouts()...) }
