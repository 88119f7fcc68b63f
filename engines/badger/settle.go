//go:build linux

package badger

import (
	"context"
	"expvar"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// rest: compactors look for work every 50 ms, and start up to a second late.
var rest = adapter.Quiet{Poll: 20 * time.Millisecond, Rest: 250 * time.Millisecond, Overdue: 5 * time.Second}

// flushMarker is a key no state has. Dropping it is the one way to have Badger
// flush short of closing it.
const flushMarker = "\x00statelab: a key that is dropped at once, so that the memtables are flushed\x00"

// Settle flushes and waits for the compactions that follow. The flush also empties
// level 0, as Badger does where it may before it closes. Nobody may write meanwhile.
func (d *db) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if d.badger.Opts().ReadOnly {
		return nil // nothing goes on
	}
	err := d.flush()
	if err == nil {
		err = d.awaitQuiet(ctx, progress)
	}
	if err == nil {
		err = d.BackgroundError()
	}
	if err == nil && !d.settings.Readahead {
		err = withoutReadahead(d.dir) // of tables that compactions made
	}
	if err != nil {
		return fmt.Errorf("badger: settle %s: %w", d.dir, err)
	}
	return nil
}

func (d *db) flush() error {
	if err := d.badger.Update(func(t *badger.Txn) error { return t.Set([]byte(flushMarker), nil) }); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if err := d.badger.DropPrefix([]byte(flushMarker)); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	d.commits.Add(1)
	return nil
}

func (d *db) awaitQuiet(ctx context.Context, progress func(engine.Settling)) error {
	var last globals
	return rest.Await(ctx, &d.unsettled, func(time.Duration) (b adapter.Background, err error) {
		b.Failed = d.log.failed.Load() != nil // Settle tells
		b.Due, b.PendingBytes = d.due()
		b.Running = int(number(expvar.Get(y.BADGER_METRIC_PREFIX + "compaction_current_num_lsm")))
		now := readGlobals()
		now.filterAsked, now.filterNo = 0, 0
		b.Active = now != last || b.Running > 0
		last = now
		return b, nil
	}, progress)
}

// due reports whether a compactor would find work, and the bytes beyond the targets.
func (d *db) due() (due bool, pendingBytes int64) {
	for _, l := range d.badger.Levels() {
		if l.Adjusted >= 1 {
			due = true
			pendingBytes += max(0, l.Size-l.TargetSize)
		}
	}
	return due, pendingBytes
}
