package pebble1fs

import (
	"io"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/statelab/statelab/internal/observe/blockio"
)

// TypedLock returns base with the lock of another process told as an
// engine.LockedError.
func TypedLock(base vfs.FS) vfs.FS { return typedLockFS{base} }

type typedLockFS struct{ vfs.FS }

func (fs typedLockFS) Lock(name string) (io.Closer, error) {
	lock, err := fs.FS.Lock(name)
	if err != nil {
		return nil, blockio.AsLocked(err, name)
	}
	return lock, nil
}
