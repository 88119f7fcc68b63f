package pagefile

import (
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// beside reads a file beside the process that owns it, without changing which of its pages are in
// the page cache: whoever reads a page into it pays for it with the memory of his control group,
// and the owner would find there what it had no memory for.
type beside struct {
	file   *os.File
	direct *os.File // nil: the filesystem reads nothing directly
}

// directBytes is what the addresses, offsets and lengths of direct reads are multiples of.
const directBytes = 4096

// openBeside opens a file for reading, by one goroutine.
func openBeside(path string) (_ *beside, err error) {
	b := &beside{}
	if b.file, err = os.Open(path); err != nil {
		return nil, err
	}

	// Advice: where the kernel does not take it, reads are as they would be without. What is read
	// here does not count as used, so that it does not stay longer.
	for _, advice := range []int{unix.FADV_RANDOM, unix.FADV_NOREUSE} {
		_ = unix.Fadvise(int(b.file.Fd()), 0, 0, advice)
	}

	// The path may be that of a descriptor of another process.
	if b.direct, err = os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0); err != nil {
		b.direct = nil
	}

	return b, nil
}

// ReadAt reads what is in the page cache from there, and the rest from the device.
func (b *beside) ReadAt(p []byte, at int64) (int, error) {
	if b.direct == nil || b.cached(at, len(p)) {
		return b.file.ReadAt(p, at)
	}

	first := at &^ (directBytes - 1)
	length := int(at-first) + len(p)
	length += -length & (directBytes - 1)
	room := make([]byte, length+directBytes)
	skip := int(-uintptr(unsafe.Pointer(&room[0])) & (directBytes - 1))
	aligned := room[skip : skip+length]
	n, err := b.direct.ReadAt(aligned, first)
	if errors.Is(err, unix.EINVAL) {
		// It opens files for direct reads, but reads none, or with other alignments.
		err, b.direct = b.direct.Close(), nil
		if err != nil {
			return 0, err
		}

		return b.file.ReadAt(p, at)
	}

	if n -= int(at - first); n >= len(p) {
		return copy(p, aligned[at-first:]), nil
	}

	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}

	return max(n, 0), err
}

// cached reports whether a part of the file is in the page cache. Linux before 6.5 does not tell.
func (b *beside) cached(at int64, length int) bool {
	const page = 4096
	first, end := at/page, (at+int64(length)+page-1)/page
	part := unix.CachestatRange{Off: uint64(first * page), Len: uint64((end - first) * page)}
	var counted unix.Cachestat_t
	err := unix.Cachestat(uint(b.file.Fd()), &part, &counted, 0)

	return err == nil && counted.Cache == uint64(end-first)
}

// Close closes the file.
func (b *beside) Close() error {
	err := b.file.Close()
	if b.direct != nil {
		err = errors.Join(err, b.direct.Close())
	}
	return err
}
