// Package adapter holds what adapters of embedded engines share whatever the
// engine: named profiles, overrides by the engine's own option names, and the
// checks of options and directory that every engine owes the harness.
//
// Non-goals: opening databases, and Pebble, whose two versions share more
// (internal/adapt/pebbledb).
package adapter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/livedir"
)

// CheckEmpty refuses to create a database in a directory that holds something
// which is not the harness's.
func CheckEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create %s: %w", dir, err)
	}

	for _, entry := range entries {
		if !engine.MayBeIn(entry.Name()) {
			return fmt.Errorf("create %s: the directory is not empty: it holds %s", dir,
				entry.Name())
		}
	}

	return nil
}

// CheckHolds refuses a directory without a file of that name.
func CheckHolds(dir, name string) error {
	_, err := os.Stat(dir + string(os.PathSeparator) + name)
	if errors.Is(err, fs.ErrNotExist) {
		return &engine.NotADatabaseError{Dir: dir, Why: "there is no file " + name}
	}
	return err
}

// CheckDir makes the directory of a new database, or refuses one without a file of that name.
func CheckDir(o engine.Options, name string) error {
	if o.Create {
		return MakeEmpty(o.Dir)
	}
	return CheckHolds(o.Dir, name)
}

// MakeEmpty makes the directory of a new database, or refuses one that is in use.
func MakeEmpty(dir string) error {
	if err := CheckEmpty(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

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
		wrong("%d handles: write --max-open-files 1000", o.Handles)
	}

	switch {
	case o.MemoryBytes < 0:
		wrong("a memory budget of %d bytes is too small: it needs at least 64MiB", o.MemoryBytes)
	case o.MemoryBytes > 0 && o.CacheBytes > 0:
		wrong("a memory budget includes the cache: give only one of --memory (%d bytes) and "+
			"--cache (%d bytes)", o.MemoryBytes, o.CacheBytes)
	case o.MemoryBytes > 0 && !info.Has(engine.CanBudget):
		wrong("a budget of %d bytes cannot be kept: limit the process instead (systemd-run "+
			"--scope -p MemoryMax=1G statelab ...)", o.MemoryBytes)
	}

	if o.Direct && !info.Has(engine.CanDirect) {
		wrong("cannot read past the page cache: use --page-cache cold instead of direct")
	}

	if o.TraceAccesses && !info.Has(engine.CanTraceAccesses) {
		wrong("cannot show the block accesses of a Get: use --access-gets 0")
	}

	if o.Create && o.ReadsOnly() {
		wrong("a database cannot be created for reading alone: leave --read-only out")
	}

	return errs
}

const (
	// retryOpenTries bounds how often a database is opened beside its writer.
	retryOpenTries = 20
	retryOpenPause = 50 * time.Millisecond
)

// RetryOpen calls open, and again as long as another process changes the database in
// dir meanwhile: a table may be listed and then deleted, a log may end in the
// middle of a record. Where ignoreLock is false, or the files are as they were
// before open failed, its error stands.
func RetryOpen[DB any](
	ctx context.Context, dir string, ignoreLock bool, open func() (DB, error),
) (DB, error) {
	if !ignoreLock {
		return open()
	}

	for try := 1; ; try++ {
		before := livedir.State(dir)
		db, err := open()
		if _, locked := errors.AsType[*engine.LockedError](err); err == nil || locked {
			return db, err
		}

		select {
		case <-ctx.Done():
			return db, errors.Join(err, ctx.Err())
		case <-time.After(retryOpenPause): // a slow writer shows itself, too
		}

		if livedir.State(dir) == before {
			return db, err
		}

		if try == retryOpenTries {
			return db, livedir.Busy(dir, try, err)
		}
	}
}
