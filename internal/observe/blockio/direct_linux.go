package blockio

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// openDirect opens path with O_DIRECT.
func openDirect(path string, buffers *sync.Pool) (*directFile, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EINVAL) {
		return nil, errNoDirect
	}

	if err != nil {
		return nil, err
	}

	return &directFile{
		file:    os.NewFile(uintptr(fd), path),
		fd:      fd,
		align:   directAlign(fd),
		buffers: buffers,
	}, nil
}

// directAlign is what the file system asks of offsets: the logical block size
// of the device on most, 4096 where it does not say (kernels before 6.1).
func directAlign(fd int) int64 {
	const assumed, maximum = 4096, maxDirectAlign
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	align := int64(max(st.Dio_offset_align, st.Dio_mem_align))
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 || align == 0 || align > maximum ||
		align&(align-1) != 0 {
		return assumed
	}

	return max(align, 512)
}

// fill reads to the end of p or of the file. What is not aligned is the end: another call, as
// os.File makes it, would find that nothing is left, and count as a read.
func (f *directFile) fill(p []byte, offset int64) (n int, err error) {
	for n < len(p) && int64(n)%f.align == 0 {
		got, err := unix.Pread(f.fd, p[n:], offset+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, err
		case got == 0:
			return n, nil
		}

		n += got
	}

	return n, nil
}
