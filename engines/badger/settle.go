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
)

const (
	settlePoll = 20 * time.Millisecond
	// quietTime without a change of tables means that nothing goes on: compactors
	// look for work every 50 ms.
	quietTime = 250 * time.Millisecond
	// overdueTime is how long a level may stay due without anything going on before
	// we believe that nothing will: compactors start up to a second late.
	overdueTime = 5 * time.Second
)

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
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	var last globals
	quietSince := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
		if d.log.failure.Load() != nil {
			return nil // Badger would try for ever; Settle tells
		}
		due, pending := d.due()
		running := int(number(expvar.Get(y.BADGER_METRIC_PREFIX + "compaction_current_num_lsm")))
		now := readGlobals()
		now.filterAsked, now.filterNo = 0, 0
		if now != last || running > 0 {
			quietSince = time.Now()
		}
		last = now
		if progress != nil {
			progress(engine.Settling{PendingBytes: pending, Running: running})
		}
		if quiet := time.Since(quietSince); quiet >= quietTime && !due || quiet >= overdueTime {
			d.unsettled.Store(due)
			return nil
		}
	}
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
