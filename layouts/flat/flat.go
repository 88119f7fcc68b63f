// Package flat keeps accounts and slots as plain keys of a key-value engine: no
// trie, no root. It is the floor: no layout that commits to its state can look an
// account up with less than its engine takes for one key.
//
// Goals: one Get a lookup, whatever the engine.
// Non-goals: a root, proofs, old blocks; tuning of engines, which have profiles.
package flat

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
)

// Layout is a flat table on an engine.
type Layout struct {
	Name   string // such as flat-pebble
	Engine engine.Engine
	// Profile of the engine; "" is its first.
	Profile string
	// Built are options of the engine for a table that has been built and is opened again.
	Built map[string]string
}

// Info describes the layout.
func (l Layout) Info() layout.Info {
	e := l.Engine.Info()
	return layout.Info{
		Name: l.Name, Version: e.Name + " " + e.Version, Licence: e.Licence, Root: layout.NoRoot,
		Durability: "a commit syncs the engine: a killed process keeps it", History: "the newest block",
		Profiles: []engine.Profile{{Name: profile, About: "accounts and slots as keys of " + e.Name}},
	}
}

const profile = "default"

// Check names what is wrong with o.
func (l Layout) Check(o layout.Options) (errs []error) {
	if o.Profile != "" && o.Profile != profile {
		errs = append(errs, fmt.Errorf("unknown profile %q: use %s", o.Profile, profile))
	}
	return append(errs, l.Engine.Check(l.options(o))...)
}

func (l Layout) options(o layout.Options) engine.Options {
	if !o.Create && len(l.Built) > 0 {
		built := maps.Clone(l.Built)
		maps.Copy(built, o.Overrides)
		o.Overrides = built
	}
	return engine.Options{Dir: o.Dir, Profile: l.Profile, Create: o.Create, ReadOnly: o.ReadOnly, MemoryBytes: o.MemoryBytes,
		Direct: o.Direct, Overrides: o.Overrides, Log: o.Log}
}

// Open opens or creates the table in o.Dir.
func (l Layout) Open(ctx context.Context, o layout.Options) (layout.State, error) {
	if err := errors.Join(l.Check(o)...); err != nil {
		return nil, err
	}
	db, err := l.Engine.Open(ctx, l.options(o))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	t := &table{name: l.Name, dir: o.Dir, db: db}
	if err := t.prepare(o); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: open %s: %w", l.Name, o.Dir, err), db.Close())
	}
	return t, nil
}
