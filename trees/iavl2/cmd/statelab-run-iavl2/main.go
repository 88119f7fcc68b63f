//go:build cgo

// Command statelab-run-iavl2 replays change sets into iavl v2, for statelab.
package main

import (
	"github.com/rs/zerolog"

	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/trees/iavl2"
)

func main() {
	zerolog.SetGlobalLevel(zerolog.WarnLevel) // the library tells of every checkpoint
	runner.Trees(iavl2.Tree{})
}
