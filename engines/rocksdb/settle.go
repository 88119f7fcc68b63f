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

		if quiet++; d.working() {
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

// working reports whether there is something to flush or to compact, or that is being compacted.
// What is due while compactions are disabled waits for good.
func (d *db) working() bool {
	names := []string{"mem-table-flush-pending", "num-running-flushes", "compaction-pending",
		"num-running-compactions"}
	if disabled := d.effective["disable_auto_compactions"]; disabled == "1" || disabled == "true" {
		names = []string{"mem-table-flush-pending", "num-running-flushes",
			"num-running-compactions"}
	}

	return slices.ContainsFunc(names, func(name string) bool {
		return d.number("rocksdb."+name) > 0
	})
}
