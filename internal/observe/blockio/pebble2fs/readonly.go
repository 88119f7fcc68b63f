package pebble2fs

import (
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/internal/observe/blockio"
)

// ReadOnly returns base without any way to change it: whatever would is an
// error. With ignoreLock the lock of another process is not looked at.
func ReadOnly(base vfs.FS, ignoreLock bool) vfs.FS {
	return readOnlyFS{FS: base, ignoreLock: ignoreLock}
}

type readOnlyFS struct {
	vfs.FS
	ignoreLock bool
}

// Unwrap returns the file system below.
func (fs readOnlyFS) Unwrap() vfs.FS { return fs.FS }

// Open tells a table that is gone by an error of its own where the database is
// another process's: Pebble ends the process when it misses a file.
func (fs readOnlyFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := fs.FS.Open(name, opts...)
	if err != nil && fs.ignoreLock {
		return nil, blockio.AsVanished(err, name)
	}
	return file, err
}

// Lock takes the lock without creating or truncating its file.
func (fs readOnlyFS) Lock(name string) (io.Closer, error) {
	if fs.ignoreLock {
		return io.NopCloser(nil), nil
	}
	return blockio.LockExisting(name)
}

func refused(operation, name string) error {
	return fmt.Errorf("%s %s: refused, the database is open for reading only", operation, name)
}

func (readOnlyFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refused("create", name)
}

func (readOnlyFS) Link(_, name string) error { return refused("link", name) }

func (readOnlyFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, refused("open for writing", name)
}

func (readOnlyFS) Remove(name string) error { return refused("remove", name) }

func (readOnlyFS) RemoveAll(name string) error { return refused("remove", name) }

func (readOnlyFS) Rename(name, _ string) error { return refused("rename", name) }

func (readOnlyFS) ReuseForWrite(name, _ string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refused("reuse", name)
}

func (readOnlyFS) MkdirAll(name string, _ os.FileMode) error { return refused("make", name) }
