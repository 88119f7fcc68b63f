//go:build unix

package blockio

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func setLock(file *os.File) error {
	return unix.FcntlFlock(file.Fd(), unix.F_SETLK,
		&unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
}

// lockHeld tells whether another process has the lock.
func lockHeld(file *os.File) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}

func heldByOther(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES)
}
