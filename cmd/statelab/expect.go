package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/result"
)

// expectRoots is set with the roots that a replay of it found: any tree of the
// same rule must find them again.
func expectRoots(set changeset.Source, runDir string, m *mistakes) changeset.Source {
	run, err := result.ReadRun(runDir)
	if errors.Is(err, fs.ErrNotExist) {
		m.add("--roots %s holds no run: name the run folder of a finished replay (example: R/points/iavl1)", runDir)
		return set
	}
	if err != nil {
		m.cannotRead("--roots: %v", err)
		return set
	}
	order := set.Info().Order.String()
	switch {
	case run.Verb != "replay" || run.Changes == nil || run.Engine.RootRule == "" || run.Status != result.OK:
		m.add("--roots %s is not a finished replay into a tree with roots: name the run folder of one (example: R/points/iavl1)", runDir)
		return set
	case run.Changes.Order != order:
		m.add("--roots %s: it replayed a set of order %s, but this set has order %s, so the roots differ", runDir, run.Changes.Order, order)
		return set
	}
	lines, err := result.ReadRoots(runDir)
	if err != nil {
		m.add("--roots: %v", err)
		return set
	}
	roots := map[int64]changeset.NamedRoots{}
	for _, line := range lines {
		at, err := named(line)
		if err != nil {
			m.add("--roots %s: %v", runDir, err)
			return set
		}
		roots[line.Version] = at
	}
	return changeset.WithRoots(set, run.Engine.RootRule, roots)
}

func named(line result.RootsAt) (roots changeset.NamedRoots, err error) {
	roots.Stores = map[string][]byte{}
	if roots.Combined, err = hex.DecodeString(line.Combined); err != nil {
		return roots, fmt.Errorf("combined root of version %d: %w", line.Version, err)
	}
	for name, text := range line.Roots.Stores {
		if roots.Stores[name], err = hex.DecodeString(text); err != nil {
			return roots, fmt.Errorf("root of version %d, store %s: %w", line.Version, name, err)
		}
	}
	return roots, nil
}
