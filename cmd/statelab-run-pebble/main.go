//go:build cgo

// Statelab-run-pebble measures databases of both versions of Pebble as nodes run them: built
// with cgo, so that the block cache and memtables lie in C's memory. statelab starts it.
package main

import (
	"github.com/statelab/statelab/engines/pebble1"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/runner"
)

func main() { runner.Main(pebble1.Engine{}, pebble2.Engine{}) }
