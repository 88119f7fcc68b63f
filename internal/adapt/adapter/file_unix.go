//go:build unix

package adapter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
)

// OpenLocked opens the one file of a database, or makes it, and holds it against other processes:
// readers share it, a writer is alone. hint says what to do about another process.
func OpenLocked(dir, name string, create, readOnly bool, hint string) (*os.File, error) {
	flags, lock := os.O_RDWR, unix.LOCK_EX
	switch {
	case create:
		flags |= os.O_CREATE | os.O_EXCL
	case readOnly:
		flags, lock = os.O_RDONLY, unix.LOCK_SH
	}

	file, err := os.OpenFile(filepath.Join(dir, name), flags, 0o644)
	if err != nil {
		return nil, err
	}

	switch err = unix.Flock(int(file.Fd()), lock|unix.LOCK_NB); {
	case err == nil:
		return file, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = &engine.LockedError{Dir: dir, Hint: hint}
	default:
		err = fmt.Errorf("lock %s: %w", file.Name(), err)
	}

	return nil, errors.Join(err, file.Close())
}

// Aligned is memory at an address that O_DIRECT accepts: a multiple of align, a power of two.
func Aligned(bytes, align int) []byte {
	raw := make([]byte, bytes+align)
	skip := -int(uintptr(unsafe.Pointer(&raw[0]))) & (align - 1)
	return raw[skip : skip+bytes : skip+bytes]
}
