//go:build cgo

package rocksdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
)

// checkUnlocked refuses a database that another process has open: opening for
// reading only takes no lock and would not notice. A process that has dir open
// itself must not ask, as asking gives its own lock up.
func checkUnlocked(dir string) error {
	file, err := os.Open(filepath.Join(dir, "LOCK"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a copy of a database
	}
	if err != nil {
		return fmt.Errorf("look for a lock: %w", err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err = errors.Join(unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock), file.Close())
	if err != nil {
		return fmt.Errorf("look for a lock on %s: %w", file.Name(), err)
	}
	if lock.Type != unix.F_UNLCK {
		return locked(dir)
	}
	return nil
}

func locked(dir string) error {
	return &engine.LockedError{Dir: dir, Hint: "stop it, or add --ignore-lock"}
}
