//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/statelab/statelab/engine"
)

const (
	settlePause = 20 * time.Millisecond
	// settleLooks is how often in a row no work must be seen: a compaction may make
	// the next one necessary.
	settleLooks = 3
	// notStarted is how long a compaction that is due, and that nobody starts, is waited for. With
	// universal compaction as many sorted runs as level0_file_num_compaction_trigger say that one
	// is due, also where size_ratio lets none of them be merged: it waits for good.
	notStarted = 3 * time.Second
)

func (d *db) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if d.settings.readOnly {
		return nil
	}

	flush := C.rocks_flushoptions_create()
	defer C.rocks_flushoptions_destroy(flush)
	var message *C.char
	C.rocks_flush_cf(d.rocks, flush, d.own().handle, &message)
	if err := errFromC(message); err != nil {
		return fmt.Errorf("rocksdb: flush: %w", err)
	}

	var idle time.Time // since when nothing runs; zero: something does
	for quiet := 0; quiet < settleLooks; {
		if err := d.BackgroundError(); err != nil {
			return err
		}

		state := engine.Settling{
			PendingBytes: d.number("rocksdb.estimate-pending-compaction-bytes"),
			Running: int(d.number("rocksdb.num-running-compactions") +
				d.number("rocksdb.num-running-flushes")),
		}

		if progress != nil {
			progress(state)
		}

		quiet++
		switch {
		case d.working():
			quiet, idle = 0, time.Time{}
		case !d.compactionDue():
			idle = time.Time{}
		case idle.IsZero():
			quiet, idle = 0, time.Now()
		case time.Since(idle) < notStarted:
			quiet = 0
		}

		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settlePause):
		}
	}

	if err := d.rebalance(); err != nil {
		d.warn(engine.Warning{Code: "over_budget", Text: err.Error(), Remedy: "a larger --memory"})
	}

	return nil
}

// working reports whether something is being flushed or compacted, or about to be flushed.
func (d *db) working() bool {
	names := []string{"mem-table-flush-pending", "num-running-flushes", "num-running-compactions"}
	return slices.ContainsFunc(names, func(name string) bool {
		return d.number("rocksdb."+name) > 0
	})
}

// compactionDue reports whether RocksDB says that something is to be compacted. While compactions
// are disabled that waits for good, and counts as nothing.
func (d *db) compactionDue() bool {
	disabled := d.effective["disable_auto_compactions"]
	return disabled != "1" && disabled != "true" && d.number("rocksdb.compaction-pending") > 0
}
