package resolve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/cockroachdb/pebble/v2/objstorage"
	"golang.org/x/sys/unix"
)

// mapFile maps a table; it stays readable when its file is deleted. Tables
// never change once written.
func mapFile(path string) (mapped []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 || info.Size() > math.MaxInt {
		return nil, fmt.Errorf("%d bytes long", info.Size())
	}
	mapped, err = unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	return mapped, nil
}

// madviseRandom keeps the kernel from reading ahead: from here on single
// blocks are looked at.
func madviseRandom(mapped []byte) error {
	if err := unix.Madvise(mapped, unix.MADV_RANDOM); err != nil {
		return fmt.Errorf("advise random reads: %w", err)
	}
	return nil
}

// mappedFile lets Pebble's reader read mapped memory.
type mappedFile []byte

func (f mappedFile) ReadAt(_ context.Context, p []byte, offset int64) error {
	if offset < 0 || offset > int64(len(f)) || int64(len(p)) > int64(len(f))-offset {
		return fmt.Errorf("read of %d bytes at %d: beyond the end", len(p), offset)
	}
	copy(p, f[offset:])
	return nil
}

func (f mappedFile) Close() error { return nil }

func (f mappedFile) Size() int64 { return int64(len(f)) }

func (f mappedFile) NewReadHandle(objstorage.ReadBeforeSize) objstorage.ReadHandle {
	h := objstorage.MakeNoopReadHandle(f)
	return &h
}
