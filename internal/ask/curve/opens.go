package curve

import (
	"context"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/run/bench"
)

// OpenFiles tells whether the limit of open files with which the Gets of o would be traced keeps
// all tables open: Enough is 0 if it does, or if Gets have to be made to be traced.
func OpenFiles(ctx context.Context, o TraceRequest) (limit trace.OpenFiles, err error) {
	from, err := follow(ctx, o)
	if err != nil {
		return limit, err
	}

	limit, err = limitOpenTables(from, &o.Spec)
	return limit, errors.Join(err, from.Close())
}

// limitOpenTables lets the tables that Gets look up be open only as far as the limit of open files
// of a run, or of the database's owner, keeps them open.
func limitOpenTables(from follower, spec *bench.Spec) (l trace.OpenFiles, err error) {
	switch r := from.(type) {
	case *blockbased.Resolver:
		l.Limit, l.Tables = r.OpenFiles(), len(r.All)
		l.Enough, err = blockbased.LimitOpenTables(r)
	case *resolve.Resolver:
		l.Tables = len(r.All)
		o := engine.Options{
			Dir:       spec.Dir,
			Profile:   spec.Profile,
			Overrides: spec.Overrides,
			Foreign:   spec.Foreign,
			Handles:   spec.Handles,
		}

		s, errs := pebbledb.Resolve(pebbledb.Profiles(), o)
		if len(errs) > 0 {
			return l, errors.Join(errs...)
		}

		var shards int
		l.Limit, shards = s.OpenFiles(o, r.Kept())
		l.Enough, err = r.LimitOpenTables(l.Limit, shards)
	}

	if err != nil {
		return l, fmt.Errorf("model the open tables of %s: %w", spec.Dir, err)
	}

	return l, nil
}
