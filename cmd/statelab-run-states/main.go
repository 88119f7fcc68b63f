//go:build cgo

// Statelab-run-states looks up in layouts of state that come as shared libraries;
// statelab starts it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/runner"
	"github.com/statelab/statelab/state"
	"github.com/statelab/statelab/trees/native"
)

func main() {
	self, err := os.Executable()
	if err == nil {
		var layouts []state.Layout
		if layouts, err = native.Find(filepath.Dir(self)); err == nil {
			runner.States(layouts...)
		}
	}
	fmt.Fprintln(os.Stderr, "runner:", err)
	os.Exit(1)
}
