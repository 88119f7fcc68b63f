package main

import (
	"path/filepath"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan/sweep"
)

// target is a database and the engine and profile to read it with.
type target = sweep.Target

// find finds a database that is only looked at, and the engine that reads it.
func (a *app) find(w sweep.Wanted, m *mistakes) target {
	return w.Find(finder{a, m}, &m.Mistakes)
}

// readable reports a path that is not there, as it was typed; flag is "" for an argument.
func (m *mistakes) readable(flag, path string) bool {
	return m.Present(flag, path, engine.CodeNotFound)
}

// database is readable for the path of a database.
func (m *mistakes) database(path string) bool { return m.Present("db", path, engine.CodeNoDatabase) }

// outside refuses a folder inside a database.
func (m *mistakes) outside(flag, dir string) {
	if err := output.OutsideDatabases(dir); err != nil {
		m.At(flag, "", "%v", err)
	}
}

// newFile checks the path of a file to make; force, where the verb has that flag,
// lets it replace one.
func (m *mistakes) newFile(flag, path string, force *bool) string {
	err := output.File(path, replaces(force))
	switch {
	case engine.CodeOf(err) == engine.CodeExists && force != nil:
		m.add("%s%v, or add --force to replace it", flag, err)
	case err != nil:
		m.add("%s%v", flag, err)
	}
	return absolute(path)
}

// newFolder checks --out of a verb that makes a whole folder.
func (m *mistakes) newFolder(out, example string) string {
	if out == "" {
		m.add("--out is missing: name a new folder (example: --out %s)", example)
	} else if err := output.NewFolder(out); err != nil {
		m.add("--out: %v", err)
	}
	return absolute(out)
}

func replaces(force *bool) output.Replaces {
	if force != nil && *force {
		return output.Anything
	}
	return nil
}

// list splits a value that may be an axis.
func list(text string) []string { return setting.Split(text) }

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
