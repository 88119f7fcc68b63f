package bench

import (
	"context"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

func (r *run) setPageCache(ctx context.Context) error {
	switch r.spec.PageCache {
	case Direct:
		return host.DirectSupported(r.spec.Dir)
	case Cold:
		return r.Evict(ctx) // opening read some of it in
	case Warm:
		err := host.Warm(ctx, r.spec.Dir, func(done, total int64) {
			r.Tell(result.Event{Phase: "prepare", Done: uint64(done), Total: uint64(total), Unit: "bytes", Note: "reading the database into the page cache"})
		})
		if err != nil {
			return fmt.Errorf("read %s into the page cache: %w", r.spec.Dir, err)
		}
		resident, total, err := host.Resident(r.spec.Dir)
		if err != nil {
			return fmt.Errorf("look at the page cache: %w", err)
		}
		if float64(resident) < 0.99*float64(total) {
			r.Warn(engine.Warning{Code: "not_warm", Text: fmt.Sprintf("only %.1f%% of the database fits into the page cache", 100*float64(resident)/float64(total)),
				Remedy: "a machine with more memory, or a smaller database"})
		}
	}
	return nil
}
