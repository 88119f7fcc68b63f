//go:build cgo

// Statelab-run-states looks up in layouts of state that come as shared libraries;
// statelab starts it.
package main

import (
	"fmt"
	"os"

	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/clayout"
	"github.com/statelab/statelab/runner"
)

func main() {
	self, err := os.Executable()
	if err == nil {
		var layouts []layout.Layout
		if layouts, err = clayout.Find(self); err == nil {
			runner.Layouts(layouts...)
		}
	}

	fmt.Fprintln(os.Stderr, "runner:", err)
	os.Exit(1)
}
