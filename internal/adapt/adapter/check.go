// Package adapter holds what adapters of embedded engines share whatever the
// engine: named profiles, overrides by the engine's own option names, and the
// checks of options and directory that every engine owes the harness.
//
// Non-goals: opening anything, and Pebble, whose two versions share more
// (internal/adapt/pebbledb).
package adapter

import (
	"fmt"

	"github.com/statelab/statelab/engine"
)

// Check names what is wrong with o for an engine of these capabilities, apart
// from profile and overrides.
func Check(info engine.Info, o engine.Options) (errs []error) {
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(info.Name+": "+format, args...))
	}
	if o.CacheBytes < 0 {
		wrong("a cache of %d bytes: write --cache 64MiB", o.CacheBytes)
	}
	if o.Handles < 0 {
		wrong("%d handles: write --handles 1000", o.Handles)
	}
	switch {
	case o.MemoryBytes < 0:
		wrong("a memory budget of %d bytes is too small: it needs at least 64MiB", o.MemoryBytes)
	case o.MemoryBytes > 0 && o.CacheBytes > 0:
		wrong("a memory budget includes the cache: give only one of --memory (%d bytes) and --cache (%d bytes)", o.MemoryBytes, o.CacheBytes)
	case o.MemoryBytes > 0 && !info.Has(engine.CanBudget):
		wrong("a budget of %d bytes cannot be kept: limit the process instead (systemd-run -p MemoryMax=1G)", o.MemoryBytes)
	}
	if o.Direct && !info.Has(engine.CanDirect) {
		wrong("cannot read past the page cache: use --page-cache cold instead of direct")
	}
	if o.TraceAccesses && !info.Has(engine.CanTraceAccesses) {
		wrong("cannot show the block accesses of a Get: use --access-gets 0")
	}
	if o.Create && o.ReadsOnly() {
		wrong("a database cannot be created for reading only: leave one of the two out")
	}
	return errs
}
