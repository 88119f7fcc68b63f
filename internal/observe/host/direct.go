//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// directBytes is the size and the alignment of direct reads: what every device
// accepts.
const directBytes = 4096

// DirectSupported reads once with O_DIRECT in dir, from a file that is there or
// else from one it makes and deletes. nil means that such reads reach the device.
func DirectSupported(dir string) (err error) {
	defer wrap(&err, "O_DIRECT in %s", dir)
	return tryDirect(dir)
}

func tryDirect(dir string) error {
	m, err := mountOf(dir)
	if err != nil {
		return err
	}
	// From Linux 6.6 on tmpfs accepts the flag and ignores it.
	if m.filesystem == "tmpfs" || m.filesystem == "ramfs" {
		return fmt.Errorf("%s keeps its files in memory: there is no device to read from", m.filesystem)
	}
	path, remove, err := fileToRead(dir)
	if err != nil {
		return err
	}
	return errors.Join(readDirect(path, m.filesystem), remove())
}

// readDirect also watches the page cache: a filesystem that fills it serves
// such reads from memory.
func readDirect(path, filesystem string) (err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s does not support it", filesystem)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	before, err := residentPages(f, directBytes)
	if err != nil {
		return err
	}
	if _, err := unix.Pread(int(f.Fd()), alignedBlock(), 0); err != nil {
		return fmt.Errorf("%s refuses the read: %w", filesystem, err)
	}
	after, err := residentPages(f, directBytes)
	if err != nil {
		return err
	}
	if after > before {
		return fmt.Errorf("%s accepts it but reads through the page cache", filesystem)
	}
	return nil
}

// fileToRead finds a file, so that another program's directory is left alone, or
// makes a small one outside the page cache.
func fileToRead(dir string) (path string, remove func() error, err error) {
	path, err = firstFile(dir)
	if err != nil || path != "" {
		return path, func() error { return nil }, err
	}
	f, err := os.CreateTemp(dir, ".statelab-direct-*")
	if err != nil {
		return "", nil, err
	}
	_, err = f.Write(make([]byte, directBytes))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", nil, errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), func() error { return os.Remove(f.Name()) }, nil
}

// firstFile is the path of a file that is not empty; "" where there is none.
func firstFile(dir string) (path string, err error) {
	found := errors.New("found")
	err = eachFile(context.Background(), dir, func(f *os.File, bytes int64) error {
		if bytes == 0 {
			return nil
		}
		path = f.Name()
		return found
	})
	if errors.Is(err, found) {
		err = nil
	}
	return path, err
}

// alignedBlock returns directBytes of memory at a multiple of directBytes.
func alignedBlock() []byte {
	b := make([]byte, 2*directBytes)
	from := -uintptr(unsafe.Pointer(&b[0])) % directBytes
	return b[from : from+directBytes : from+directBytes]
}
