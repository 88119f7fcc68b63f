package main

import (
	"path/filepath"
	"time"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan/sweep"
)

// target is a database and the engine and profile to read it with.
type target = sweep.Target

// find finds a database that is only looked at, and the engine that reads it.
func (a *app) find(w sweep.Wanted, m *mistakes) target {
	return w.Find(finder{a, m}, &m.Mistakes)
}

// outFolder is where results go: --out, or a new folder.
func outFolder(out, verb string) string {
	if out != "" {
		return absolute(out)
	}
	return absolute(filepath.Join("statelab-runs", verb+"-"+time.Now().UTC().Format("20060102-150405.000")))
}

// refuseOther keeps results from being mixed with a folder's other contents.
func refuseOther(dir string) error {
	if err := output.Folder(dir); err != nil {
		return usage("--out: %v", err)
	}
	return nil
}

func absolute(path string) string { return output.Absolute(path) }

// command is what to type to do this again.
func (a *app) command() []string { return append([]string{"statelab"}, a.args...) }

func plural(n int, word string) string { return unit.Plural(n, word) }
