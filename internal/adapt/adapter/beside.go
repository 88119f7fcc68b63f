package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
)

const (
	// besideTries bounds how often a database is opened beside its writer.
	besideTries = 20
	besidePause = 50 * time.Millisecond
)

// Beside calls open, and again as long as another process changes the database in
// dir meanwhile: a table may be listed and then deleted, a log may end in the
// middle of a record. Where ignoreLock is false, or the files are as they were
// before open failed, its error stands.
func Beside[DB any](ctx context.Context, dir string, ignoreLock bool, open func() (DB, error)) (DB, error) {
	if !ignoreLock {
		return open()
	}
	for try := 1; ; try++ {
		before := files(dir)
		db, err := open()
		if _, locked := errors.AsType[*engine.LockedError](err); err == nil || locked {
			return db, err
		}
		select {
		case <-ctx.Done():
			return db, errors.Join(err, ctx.Err())
		case <-time.After(besidePause): // a slow writer shows itself, too
		}
		if files(dir) == before {
			return db, err
		}
		if try == besideTries {
			return db, fmt.Errorf("%w; another process changed the database during each of %d attempts to open it:"+
				" stop that process, or read a checkpoint or a copy", err, try)
		}
	}
}

// files tells the names, sizes and times of the files below dir. What cannot be
// read is left out: open reports it.
func files(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return b.String()
}
