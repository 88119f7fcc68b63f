package pebbledb

import (
	"context"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// Activity is what a database does in the background.
type Activity struct {
	Running      int     // flushes, compactions and statistics jobs in progress
	PendingBytes int64   // estimated compaction debt
	Score        float64 // of the level that needs a compaction most: due at 1
	Finished     int64   // grows with every job
	TableReads   int64   // grows with every read of a table
}

// rest: jobs follow each other within microseconds. Levels stay due where compactions are
// disabled, or where Pebble sees no legal one.
var rest = adapter.Quiet{Poll: 10 * time.Millisecond, Rest: 50 * time.Millisecond, Overdue: 2 * time.Second}

func (d *live) awaitQuiet(ctx context.Context, progress func(engine.Settling)) error {
	last := d.activity()
	return rest.Await(ctx, &d.unsettled, func(time.Duration) (b adapter.Background, err error) {
		now := d.activity()
		b.Failed, b.Running, b.PendingBytes, b.Due = d.events.Err() != nil, now.Running, now.PendingBytes, now.Score >= 1
		b.Active = now.Running > 0 || now.Finished != last.Finished || now.TableReads != last.TableReads
		last = now
		return b, nil
	}, progress)
}
