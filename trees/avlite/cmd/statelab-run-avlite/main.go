//go:build cgo

// Command statelab-run-avlite replays change sets into avlite, for statelab.
package main

import (
	"os"
	"strings"

	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/tree"
	"github.com/statelab/statelab/trees/avlite"
)

func main() {
	events := os.Stdout
	os.Stdout = os.Stderr // where avlite prints that it writes a checkpoint
	question := strings.Join(os.Args[1:], " ")
	os.Exit(runner.ServeTrees(question, os.Stdin, events, os.Stderr, []tree.Tree{avlite.Tree{}}))
}
