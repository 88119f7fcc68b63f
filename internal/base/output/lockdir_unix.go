//go:build unix

package output

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
)

// LockDir takes a folder for this process, until held is closed or the process ends; the folder
// stays as it is. If another process has taken it, the error has engine.CodeInUse. A filesystem
// without such locks lets everybody have it.
func LockDir(dir string) (held *os.File, err error) {
	held, err = os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("take the folder of the results: %w", err)
	}

	if err := Lock(held); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(engine.Fail(engine.CodeInUse, "another statelab command is "+
			"writing into %s: wait until it has ended, or choose another --out", dir), held.Close())
	}

	return held, nil
}

// Lock takes a file for this process if no other one has taken it, which is syscall.EWOULDBLOCK.
func Lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
