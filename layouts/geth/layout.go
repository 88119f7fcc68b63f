// Package geth holds go-ethereum's state layouts: its trie in the hash scheme and
// in the path scheme, and the flat state that the path scheme keeps beside it.
//
// It is the client's own code (triedb, trie, ethdb/pebble) from the lookup down to
// Pebble; what this package adds is the contract. It is a module of its own because
// go-ethereum is under the LGPL-3.
//
// Goals: every lookup opens a new trie, so that it resolves what a first lookup in a
// block resolves; a commit that returned is on the disk.
// Non-goals: history and reorganisations: a node keeps 128 blocks in memory before it
// writes, here every block is written when it is committed.
//
// Read in this order: layout.go, options.go, chain.go, block.go, reader.go, head.go,
// quiet.go.
package geth

import (
	"context"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
)

const version = "v1.17.10"

// scheme is one of the three ways to keep and read the state.
type scheme struct {
	name, about string
	byPath      bool // the path scheme, else the hash scheme
	flat        bool // lookups read the flat state instead of the trie
}

// Layouts are geth-hash, geth-path and geth-flat. The last two make the same
// database: they differ in what a lookup reads.
func Layouts() []layout.Layout {
	return []layout.Layout{
		scheme{name: "geth-hash", about: "trie nodes under their hashes; nothing is ever deleted"},
		scheme{name: "geth-path", about: "trie nodes under their paths; lookups walk the trie", byPath: true},
		scheme{name: "geth-flat", about: "trie nodes under their paths; lookups read the flat state beside them", byPath: true, flat: true},
	}
}

// Info describes the layout.
func (l scheme) Info() layout.Info {
	history := "the newest block"
	if !l.byPath {
		history = "every block"
	}
	return layout.Info{
		Name: l.name, Version: version, Licence: "LGPL-3.0", Root: layout.EthereumRoot,
		Durability: "a commit is synced to Pebble's log: a power cut keeps it",
		History:    history,
		Profiles:   []engine.Profile{{Name: profile, About: l.about}},
	}
}

// Check names what is wrong with o.
func (l scheme) Check(o layout.Options) (errs []error) {
	if o.Profile != "" && o.Profile != profile {
		errs = append(errs, fmt.Errorf("unknown profile %q: use %s", o.Profile, profile))
	}
	if o.MemoryBytes != 0 && o.MemoryBytes < minMemoryBytes {
		errs = append(errs, fmt.Errorf("%d bytes of memory: %s needs %d, the least that go-ethereum gives Pebble", o.MemoryBytes, l.name, int64(minMemoryBytes)))
	}
	if o.Direct {
		errs = append(errs, errors.New("go-ethereum's Pebble reads through the page cache: O_DIRECT is not offered"))
	}
	for name := range o.Overrides {
		errs = append(errs, engine.Fail(engine.CodeOption, "unknown option %q: %s has none", name, l.name))
	}
	return errs
}

// Open opens or creates the state in o.Dir.
func (l scheme) Open(_ context.Context, o layout.Options) (layout.State, error) {
	if err := errors.Join(l.Check(o)...); err != nil {
		return nil, err
	}
	c, err := open(l, o)
	if err != nil {
		return nil, fmt.Errorf("%s: open %s: %w", l.name, o.Dir, err)
	}
	return c, nil
}
