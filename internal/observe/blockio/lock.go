package blockio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/statelab/statelab/engine"
)

// lockHint is the way out of a LockedError.
const lockHint = "stop it, or add --ignore-lock"

// LockExisting takes the lock of a database by its lock file at path, as Pebble
// does (fcntl, whole file), but leaves the file untouched. No file: nobody ever
// locked it, and nothing is done. A file we may not open for writing cannot be
// locked by us: then only a foreign lock is looked for.
//
// The fault of fcntl locks stays: closing any descriptor of the file in this
// process drops the lock.
func LockExisting(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return io.NopCloser(nil), CheckUnlocked(path)
	}

	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}

	if err != nil {
		return nil, AsLocked(fmt.Errorf("open lock file: %w", err), path)
	}

	if err := setLock(file); err != nil {
		return nil, errors.Join(AsLocked(err, path), file.Close())
	}

	return file, nil
}

// CheckUnlocked refuses a database whose lock file at path another process has locked. No file: it
// is a copy. A process that has locked it itself must not ask, as asking gives its own lock up.
func CheckUnlocked(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("look for a lock: %w", err)
	}

	held, err := lockHeld(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("look for a lock on %s: %w", path, err)
	}

	if held {
		return Locked(path)
	}

	return nil
}

// AsLocked turns the error of a lock that another process holds into an
// engine.LockedError and returns other errors unchanged.
func AsLocked(err error, path string) error {
	if heldByOther(err) {
		return Locked(path)
	}
	return err
}

// Locked is the error of a database whose lock file at path another process has locked.
func Locked(path string) error {
	return &engine.LockedError{Dir: filepath.Dir(path), Hint: lockHint}
}

// AsVanished turns the error of a missing file into one that says who deleted it, and is
// no fs.ErrNotExist on purpose. It returns other errors unchanged.
func AsVanished(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return engine.Fail(engine.CodeInUse,
			"%s was deleted by the process that holds the database", path)
	}
	return err
}
