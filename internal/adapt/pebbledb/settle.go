package pebbledb

import (
	"context"
	"time"

	"github.com/statelab/statelab/engine"
)

// Activity is what a database does in the background.
type Activity struct {
	Running      int     // flushes, compactions and statistics jobs in progress
	PendingBytes int64   // estimated compaction debt
	Score        float64 // of the level that needs a compaction most: due at 1
	Finished     int64   // grows with every job
	TableReads   int64   // grows with every read of a table
}

const (
	quietPoll = 10 * time.Millisecond
	// quietTime without a job or a read means that nothing goes on: jobs follow
	// each other within microseconds.
	quietTime = 50 * time.Millisecond
	// overdueTime is how long a level may stay due without any job starting
	// before we believe that none will (compactions are disabled, or Pebble
	// sees no legal one).
	overdueTime = 2 * time.Second
)

// awaitQuiet returns when no background work is left. settled is false where a
// level stays due although nothing starts, or work failed.
func awaitQuiet(ctx context.Context, observe func() Activity, failed <-chan struct{}, progress func(engine.Settling)) (settled bool, err error) {
	poll := time.NewTicker(quietPoll)
	defer poll.Stop()
	last := observe()
	quietSince := time.Now()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-failed:
			return false, nil
		case <-poll.C:
		}
		now := observe()
		if progress != nil {
			progress(engine.Settling{PendingBytes: now.PendingBytes, Running: now.Running})
		}
		if now.Running > 0 || now.Finished != last.Finished || now.TableReads != last.TableReads {
			quietSince = time.Now()
		}
		last = now
		quiet := time.Since(quietSince)
		if quiet >= quietTime && now.Score < 1 {
			return true, nil
		}
		if quiet >= overdueTime {
			return false, nil
		}
	}
}
