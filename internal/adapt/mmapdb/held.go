package mmapdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// Access is what a file is wanted for.
type Access int16

const (
	ToRead  Access = unix.F_RDLCK // held by whoever may write
	ToWrite Access = unix.F_WRLCK // held by anybody
)

// Held tells whether somebody's record lock on the file at path stands against
// access to its bytes 0..length; 0 is the whole file. What does not exist is not
// held. No file is changed.
//
// Closing a file drops the process's own classic record locks on it: do not ask
// about a file that this process has locked.
func Held(path string, access Access, length int64) (held bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lock := unix.Flock_t{Type: int16(access), Len: length}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("ask who holds %s: %w", path, err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// CheckDir makes the directory of a new database, or refuses one that does not hold
// data. lock is the file whose first bytes, length of them, tell whether somebody else
// stands against access.
func CheckDir(o engine.Options, data, lock string, access Access, length int64, locked error) error {
	if err := adapter.CheckDir(o, data); err != nil || o.Create {
		return err
	}
	held, err := Held(filepath.Join(o.Dir, lock), access, length)
	if err == nil && held {
		err = locked
	}
	return err
}
