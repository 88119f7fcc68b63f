package bench

import (
	"context"
	"errors"
	"maps"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/result"
)

// rewrite is the verb rewrite: a new database takes over the tables of another one, and its keys are known if those of the other are.
func (r *run) rewrite(ctx context.Context) (err error) {
	s, options := r.spec, map[string]string{}
	m, err := keyspace.ReadManifest(s.From)
	switch {
	case err == nil:
		maps.Copy(options, m.Overrides)
		m.Overrides = maps.Clone(options)
		maps.Copy(m.Overrides, s.Overrides)
	case !errors.Is(err, keyspace.ErrNoManifest):
		return err
	}
	var from engine.DB
	defer func() {
		if from != nil {
			err = errors.Join(err, from.Close())
		}
	}()
	if _, err := r.Phase("prepare", func(*atomicCount) (err error) {
		if from, err = dbformat.Open(ctx, r.engine, engine.Options{Dir: s.From, Profile: s.Profile, Overrides: s.FromOverrides, Foreign: true, ReadOnly: true,
			IgnoreLock: s.IgnoreLock}); err != nil {
			return err
		}
		source, can := from.(engine.Rewriter)
		if !can {
			return engine.Fail(engine.CodeUnsupported, "databases of %s cannot be rewritten", s.Engine)
		}
		like, err := source.RewriteOptions()
		if err != nil {
			return err
		}
		maps.Copy(options, like)
		maps.Copy(options, s.Overrides)
		o := openOptions(s)
		o.Create, o.Overrides = true, options
		return r.open(ctx, o)
	}); err != nil {
		return err
	}
	_, err = r.Phase("load", func(*atomicCount) error {
		if err := r.db.(engine.Rewriter).Rewrite(ctx, from, func(tables, of int) {
			r.Tell(result.Event{Phase: "rewriting", Done: uint64(tables), Total: uint64(of), Unit: "tables"})
		}); err != nil {
			return err
		}
		if m != nil {
			if err := keyspace.WriteManifest(s.Dir, m); err != nil {
				return err
			}
		}
		return r.noteDatabase()
	})
	return err
}
