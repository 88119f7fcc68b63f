//go:build cgo

// Statelab-run-native measures engines that come as shared libraries: those in lib beside it by
// their names, and any other as native. statelab starts it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/cengine"
	"github.com/statelab/statelab/runner"
)

func main() {
	self, err := os.Executable()
	if err == nil {
		var found []engine.Engine
		if found, err = cengine.Find(filepath.Dir(self)); err == nil {
			runner.Main(append(found, cengine.Engine{})...)
		}
	}

	fmt.Fprintln(os.Stderr, "runner:", err)
	os.Exit(1)
}
