package bench

import (
	"context"
	"errors"
	"maps"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/result"
)

// rewrite is the verb rewrite: a new database takes over the tables of another one.
func (r *run) rewrite(ctx context.Context) (err error) {
	s := r.spec
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
		o := openOptions(s)
		o.Create = true
		if o.Overrides, err = source.RewriteOptions(); err != nil {
			return err
		}
		maps.Copy(o.Overrides, s.Overrides)
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
		return r.noteDatabase()
	})
	return err
}
