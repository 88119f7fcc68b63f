// Package null is a tree that keeps nothing: what a replay into it costs is the
// cost of the harness.
package null

import (
	"context"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// Tree does nothing.
type Tree struct{}

// Info describes the adapter.
func (Tree) Info() tree.Info {
	return tree.Info{
		Name: "null", Version: "1", Route: "built in", Licence: "as statelab",
		RootRule: "none", Durability: "keeps nothing", History: "none",
		Capabilities: []tree.Capability{tree.IsVolatile},
		Profiles: []engine.Profile{{
			Name:  "default",
			About: "does nothing: measures the harness",
		}},
	}
}

// Check names what is wrong with o.
func (Tree) Check(o tree.Options) (errs []error) {
	if o.Profile != "" && o.Profile != "default" {
		errs = append(errs, fmt.Errorf("unknown profile %q: use default", o.Profile))
	}
	for name := range o.Overrides {
		errs = append(errs,
			engine.Fail(engine.CodeOption, "unknown option %q: the tree null has none", name))
	}
	return errs
}

// Open returns a forest that counts versions.
func (Tree) Open(_ context.Context, o tree.Options) (tree.Forest, error) {
	if errs := (Tree{}).Check(o); len(errs) > 0 {
		return nil, fmt.Errorf("null: open: %w", errs[0])
	}
	return &forest{next: max(o.FirstVersion, 1), roots: make([][]byte, len(o.Stores))}, nil
}

type forest struct {
	next, version int64
	roots         [][]byte
}

func (f *forest) Version() int64 { return f.version }

func (*forest) Set(int, []byte, []byte) error { return nil }

func (*forest) Remove(int, []byte) error { return nil }

// Commit returns the same root for every store and version: an empty one.
func (f *forest) Commit(context.Context) (tree.Commit, error) {
	f.version = f.next
	f.next++
	return tree.Commit{Version: f.version, Roots: f.roots}, nil
}

func (*forest) Sync(context.Context) error { return nil }

func (*forest) Reader() (tree.Reader, error) {
	return tree.Lookup(func(_ int, _, dst []byte) ([]byte, bool, error) {
		return dst[:0], false, nil
	}), nil
}

// Shape is not known: there is nothing of a size.
func (*forest) Shape() ([]tree.StoreShape, error) { return nil, nil }

func (*forest) Counters() tree.Counters { return tree.Counters{} }

func (*forest) Effective() map[string]string { return map[string]string{} }

func (*forest) Warnings() []engine.Warning { return nil }

func (*forest) Close() error { return nil }
