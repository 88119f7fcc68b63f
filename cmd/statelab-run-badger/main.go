//go:build linux

// Statelab-run-badger measures databases of Badger, whose library is large and seldom needed.
// statelab starts it.
package main

import (
	"github.com/statelab/statelab/engines/badger"
	"github.com/statelab/statelab/runner"
)

func main() { runner.Main(badger.Engine{}) }
