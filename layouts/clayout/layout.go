//go:build cgo

// Package clayout adapts shared libraries: layouts of state in C, C++ or Rust that
// export the table of functions of native/statelab_state.h.
//
// What a library says is checked, not believed: a missing symbol, a table of another
// version, a slot longer than 32 bytes, a block that did not follow the last or a
// counter that falls is an error that names the library.
//
// Non-goals: protection from a library that writes where it must not (the runner's
// process is the wall), and reading past the page cache where the library does not do
// so by itself.
//
// Read in this order: layout.go, library.go, state.go.
package clayout

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/layout"
)

// Layout is the layout of a library.
type Layout struct {
	Library string // the file
}

var _ layout.Layout = Layout{}

// Info is what the library says of itself. One that does not load goes by its file's
// name, so that whoever asks for it learns from Check what is wrong.
func (l Layout) Info() layout.Info {
	loaded, err := load(l.Library)
	if err != nil {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(l.Library), filePrefix),
			fileSuffix)
		return layout.Info{
			Name:     name,
			Version:  fmt.Sprintf("ABI %d", abi),
			Profiles: []engine.Profile{{Name: "default"}},
		}
	}

	return loaded.info
}

// Check names what is wrong with o, asking the library about its part.
func (l Layout) Check(o layout.Options) []error {
	loaded, err := load(l.Library)
	if err != nil {
		return []error{err}
	}
	_, errs := loaded.settle(o)
	return errs
}

// Open opens or creates the state in o.Dir with the library.
func (l Layout) Open(_ context.Context, o layout.Options) (layout.State, error) {
	loaded, err := load(l.Library)
	if err != nil {
		return nil, err
	}

	o, errs := loaded.settle(o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	if o.Create {
		if err := adapter.MakeEmpty(o.Dir); err != nil {
			return nil, err
		}
	}

	opened, err := loaded.open(o)
	if err != nil {
		return nil, err
	}

	if err := opened.examine(o.Create); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", loaded.path, err), opened.Close())
	}

	return opened, nil
}

const (
	// LibraryEnv names a library of the user's own.
	LibraryEnv = "STATELAB_STATE_LIBRARY"

	filePrefix, fileSuffix = "libstatelab_", ".so"

	runnerPrefix = "statelab-run-"
	shared       = runnerPrefix + "states" // the runner of all libraries without one of their own
)

// Find finds libraries for a runner: the one of the environment, then those named libstatelab_X.so
// in lib beside the runner, and beside it. A library that has a runner of its own, statelab-run-X,
// is found for that alone, which finds no other: its licence may bind the process that it is in.
// None is loaded yet, so that a broken one hides no other. Of two that say the same name, the first
// is used.
func Find(runner string) (found []layout.Layout, err error) {
	folder, self := filepath.Split(runner)
	own := func(library string) string { return runnerPrefix + library }
	if path := os.Getenv(LibraryEnv); path != "" {
		found = append(found, Layout{Library: path})
	}

	for _, in := range []string{filepath.Join(folder, "lib"), filepath.Clean(folder)} {
		entries, err := os.ReadDir(in)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("find libraries: %w", err)
		}

		for _, entry := range entries {
			name, isLibrary := strings.CutSuffix(entry.Name(), fileSuffix)
			name, isOurs := strings.CutPrefix(name, filePrefix)
			if !isLibrary || !isOurs {
				continue
			}

			of := shared
			if _, err := os.Stat(filepath.Join(folder, own(name))); err == nil {
				of = own(name)
			}

			if of == self {
				found = append(found, Layout{Library: filepath.Join(in, entry.Name())})
			}
		}
	}

	return found, nil
}
