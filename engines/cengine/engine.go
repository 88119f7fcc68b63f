//go:build cgo

// Package cengine adapts shared libraries: engines in C, C++ or Rust that export
// the table of functions of native/statelab_engine.h.
//
// The engine "native" is any library: the option library=PATH names it, or for all commands the
// environment variable STATELAB_NATIVE_LIBRARY; every other option is the library's own. A library
// beside the runner, libNAME_engine.so, is an engine of that name. What a library says is checked,
// not believed: a missing symbol, a table of another version, a length beyond the buffer or a
// counter that falls is an error or a warning that names it.
//
// Non-goals: protection from a library that writes where it must not (the runner's
// process is the wall), and engines of which only one can be in a process.
//
// Read in this order: engine.go, library.go, db.go, reader.go.
package cengine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

const (
	// LibraryOption names the library among the overrides.
	LibraryOption = "library"
	// LibraryEnv names the library where the overrides do not.
	LibraryEnv = "STATELAB_NATIVE_LIBRARY"
)

// Engine is a library.
type Engine struct {
	Library string // the file; "": whatever library the options or the environment name
}

const filePrefix, fileSuffix = "lib", "_engine.so"

// Find finds the engines whose libraries are in folder/lib. None is loaded yet, so that a broken
// one hides no other.
func Find(folder string) (found []engine.Engine, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "lib", filePrefix+"*"+fileSuffix))
	for _, path := range paths {
		found = append(found, Engine{Library: path})
	}
	return found, err
}

// name is the one that a user asks for.
func (e Engine) name() string {
	if e.Library == "" {
		return "native"
	}
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(e.Library), filePrefix), fileSuffix)
	return strings.ReplaceAll(name, "_", "-")
}

// Info describes the adapter, with the library if there is one that loads.
func (e Engine) Info() engine.Info {
	i := engine.Info{
		Name:     e.name(),
		Version:  fmt.Sprintf("ABI %d", abi),
		Route:    "dlopen",
		Licence:  "the library's",
		Profiles: []engine.Profile{{Name: "default", About: "as the library sets itself up"}},
	}

	l, err := load(e.libraryOf(engine.Options{}))
	if err != nil {
		return i
	}

	i.Version, i.Licence, i.Durability, i.Capabilities, i.StoredOptions = l.version, l.licence,
		l.durability, l.capabilities, l.stored
	if e.Library == "" {
		i.Version = l.name + " " + l.version
	}

	return i
}

// Ready says what is wrong with the library. Without one in the environment there is nothing to say
// before options name it.
func (e Engine) Ready() error {
	path := e.libraryOf(engine.Options{})
	if path == "" {
		return nil
	}
	_, err := load(path)
	return err
}

// Check names what is wrong with o, asking the library about its part. Without a
// directory and a library the question is about the profile alone.
func (e Engine) Check(o engine.Options) []error {
	if e.libraryOf(o) == "" && o.Dir == "" {
		return checkProfile(e.name(), o)
	}

	l, err := load(e.libraryOf(o))
	if err != nil {
		return []error{err}
	}

	if e.Library != "" && o.Overrides[LibraryOption] != "" {
		return []error{fmt.Errorf("option %s: %s has its own library: name another with --engine "+
			"native", LibraryOption, e.name())}
	}

	return append(l.mistakes(o), l.check(o)...)
}

// mistakes are those the library need not be asked about.
func (l *library) mistakes(o engine.Options) []error {
	errs := adapter.Check(engine.Info{Name: l.name, Capabilities: l.capabilities}, o)
	errs = append(errs, checkProfile(l.name, o)...)
	if o.IgnoreLock {
		errs = append(errs,
			fmt.Errorf("%s: no library can be trusted beside another process: stop that process "+
				"instead of --ignore-lock", l.name))
	}
	return errs
}

func checkProfile(name string, o engine.Options) []error {
	if o.Profile != "" && o.Profile != "default" {
		return []error{fmt.Errorf("%s: unknown profile %q: use default", name, o.Profile)}
	}
	return nil
}

// Open opens or creates the database in o.Dir with the library.
func (e Engine) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	if err := errors.Join(e.Check(o)...); err != nil {
		return nil, fmt.Errorf("%s: %w", e.name(), err)
	}

	l, err := load(e.libraryOf(o))
	if err != nil {
		return nil, err
	}

	o.ReadOnly = o.ReadOnly || o.Foreign
	if o.Create {
		if err := adapter.MakeEmpty(o.Dir); err != nil {
			return nil, err
		}
	}

	opened, err := l.open(o)
	if err != nil {
		return nil, err
	}

	if err := opened.examine(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", l.path, err), opened.Close())
	}

	return opened, nil
}

func (e Engine) libraryOf(o engine.Options) string {
	if e.Library != "" {
		return e.Library
	}
	if path := o.Overrides[LibraryOption]; path != "" {
		return path
	}
	return os.Getenv(LibraryEnv)
}

// settingsOf are the overrides that are the library's.
func settingsOf(o engine.Options) map[string]string {
	own := maps.Clone(o.Overrides)
	delete(own, LibraryOption)
	return own
}
