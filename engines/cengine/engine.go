//go:build cgo

// Package cengine adapts shared libraries: engines in C, C++ or Rust that export
// the table of functions of native/statelab_engine.h.
//
// The library is named by the option library=PATH, or for all commands by the
// environment variable STATELAB_NATIVE_LIBRARY; every other option is the
// library's own. What the library says is checked, not believed: a missing symbol,
// a table of another version, a length beyond the buffer or a counter that falls is
// an error or a warning that names it.
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

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

const (
	// LibraryOption names the library among the overrides.
	LibraryOption = "library"
	// LibraryEnv names the library where the overrides do not.
	LibraryEnv = "STATELAB_NATIVE_LIBRARY"
)

// Engine is whatever library the options or the environment name.
type Engine struct{}

// Info describes the adapter, with the library of the environment if there is one
// that loads.
func (Engine) Info() engine.Info {
	i := engine.Info{
		Name:     "native",
		Version:  fmt.Sprintf("ABI %d", abi),
		Route:    "dlopen",
		Licence:  "the library's",
		Profiles: []engine.Profile{{Name: "default", About: "as the library sets itself up"}},
	}
	l, err := load(os.Getenv(LibraryEnv))
	if err != nil {
		return i
	}
	i.Version, i.Licence, i.Durability, i.Capabilities = l.name+" "+l.version, l.licence, l.durability, l.capabilities
	return i
}

// Ready says what is wrong with the library of the environment. Without one there
// is nothing to say before options name it.
func (Engine) Ready() error {
	path := os.Getenv(LibraryEnv)
	if path == "" {
		return nil
	}
	_, err := load(path)
	return err
}

// Check names what is wrong with o, asking the library about its part. Without a
// directory and a library the question is about the profile alone.
func (Engine) Check(o engine.Options) []error {
	if libraryOf(o) == "" && o.Dir == "" {
		return checkProfile("native", o)
	}
	l, err := load(libraryOf(o))
	if err != nil {
		return []error{err}
	}
	return append(l.mistakes(o), l.check(o)...)
}

// mistakes are those the library need not be asked about.
func (l *library) mistakes(o engine.Options) []error {
	errs := adapter.Check(engine.Info{Name: l.name, Capabilities: l.capabilities}, o)
	errs = append(errs, checkProfile(l.name, o)...)
	if o.IgnoreLock {
		errs = append(errs, fmt.Errorf("%s: no library can be trusted beside another process: stop that process instead of --ignore-lock", l.name))
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
		return nil, fmt.Errorf("native: %w", err)
	}
	l, err := load(libraryOf(o))
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

func libraryOf(o engine.Options) string {
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
