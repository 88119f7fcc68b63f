//go:build unix

package output

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Hold takes a folder for this process, until held is closed or the process ends; the folder stays as it is. ok is
// false if another process has taken it. A filesystem without such locks lets everybody have it.
func Hold(dir string) (held *os.File, ok bool, err error) {
	held, err = os.Open(dir)
	if err != nil {
		return nil, false, fmt.Errorf("take the folder of the results: %w", err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, held.Close()
	}
	return held, true, nil
}
