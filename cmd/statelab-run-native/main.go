//go:build cgo

// Statelab-run-native measures engines that come as shared libraries. statelab
// starts it for --engine native.
package main

import (
	"github.com/statelab/statelab/engines/cengine"
	"github.com/statelab/statelab/runner"
)

func main() { runner.Main(cengine.Engine{}) }
