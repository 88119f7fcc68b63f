//go:build cgo

// Statelab-run-lmdb measures databases of LMDB; statelab starts it.
package main

import (
	"github.com/statelab/statelab/engines/lmdb"
	"github.com/statelab/statelab/runner"
)

func main() { runner.Main(lmdb.Engine{}) }
