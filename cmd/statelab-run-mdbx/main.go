//go:build cgo

// Statelab-run-mdbx measures databases of libmdbx; statelab starts it.
package main

import (
	"github.com/statelab/statelab/engines/mdbx"
	"github.com/statelab/statelab/runner"
)

func main() { runner.Main(mdbx.Engine{}) }
