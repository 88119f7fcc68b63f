//go:build unix

package goleveldb

import (
	"os"

	"golang.org/x/sys/unix"
)

func shareLock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) }
