package pebble2fs

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/internal/observe/blockio"
)

// TypedLock returns base with the lock of another process told as an
// engine.LockedError.
func TypedLock(base vfs.FS) vfs.FS { return typedLockFS{base} }

type typedLockFS struct{ vfs.FS }

// Unwrap returns the file system below.
func (fs typedLockFS) Unwrap() vfs.FS { return fs.FS }

func (fs typedLockFS) Lock(name string) (io.Closer, error) {
	lock, err := fs.FS.Lock(name)
	if err != nil {
		return nil, blockio.AsLocked(err, name)
	}
	return lock, nil
}
