package goleveldb

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/syndtr/goleveldb/leveldb"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// rest: compactions follow each other within microseconds.
var rest = adapter.Quiet{Poll: 10 * time.Millisecond, Rest: 50 * time.Millisecond, Overdue: 2 * time.Second}

// Settle flushes and waits for the compactions that follow by themselves. It
// compacts no range: that would leave a shape no node has.
func (d *db) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if d.readOnly {
		return nil // nothing goes on
	}
	err := d.flush()
	if err == nil {
		err = d.awaitQuiet(ctx, progress)
	}
	if err == nil {
		err = d.BackgroundError()
	}
	if err == nil {
		err = d.follower.Refresh(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("goleveldb: settle %s: %w", d.dir, err)
	}
	d.settledAt.Store(d.storage.compactions.Load())
	return nil
}

// flush writes the buffer to a table: what goleveldb does before a transaction,
// and nowhere else on request without compacting as well.
func (d *db) flush() error {
	transaction, err := d.leveldb.OpenTransaction()
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	transaction.Discard()
	return nil
}

// activity grows with everything that goes on.
type activity struct {
	read, written uint64
	finished      uint32
}

func (d *db) awaitQuiet(ctx context.Context, progress func(engine.Settling)) error {
	var last activity
	return rest.Await(ctx, &d.unsettled, func(quiet time.Duration) (b adapter.Background, err error) {
		b.Failed = d.BackgroundError() != nil // Settle tells
		var s leveldb.DBStats
		if err := d.leveldb.Stats(&s); err != nil {
			return b, err
		}
		b.Due, b.PendingBytes = d.due(&s)
		now := activity{read: s.IORead, written: s.IOWrite, finished: s.MemComp + s.Level0Comp + s.NonLevel0Comp + s.SeekComp}
		b.Active = now != last
		if last = now; b.Active || quiet < rest.Rest {
			b.Running = 1 // goleveldb has one compaction at a time and does not tell of it
		}
		return b, nil
	}, progress)
}

// due reports whether a level asks for a compaction, by goleveldb's rule, and the
// bytes beyond what levels may hold.
func (d *db) due(s *leveldb.DBStats) (due bool, pendingBytes int64) {
	for level, bytes := range s.LevelSizes {
		if level == 0 {
			if s.LevelTablesCounts[0] >= d.settings.CompactionL0Trigger {
				due, pendingBytes = true, pendingBytes+bytes
			}
			continue
		}
		most := int64(float64(d.settings.CompactionTotalSize) * math.Pow(levelGrowth, float64(level)))
		if bytes >= most {
			due, pendingBytes = true, pendingBytes+bytes-most
		}
	}
	return due, pendingBytes
}

// levelGrowth is how much larger a level may be than the one above.
const levelGrowth = 10
