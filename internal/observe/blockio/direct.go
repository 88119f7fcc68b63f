package blockio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"github.com/statelab/statelab/engine"
)

// directFile reads a file past the page cache. The kernel wants offset, length
// and memory aligned, so a read is rounded out, into a pooled buffer, and
// copied.
type directFile struct {
	file    *os.File
	fd      int // the file's
	align   int64
	buffers *sync.Pool // of *[]byte, aligned
}

// errNoDirect is the answer of file systems without O_DIRECT.
var errNoDirect = engine.Fail(engine.CodeNoDirect, "the file system refuses O_DIRECT")

// CheckDirect fails where the files of dir cannot be read past the page cache.
// It looks at any file there that can be opened, and creates none: a file that is deleted
// meanwhile tells nothing.
func CheckDirect(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("check for direct reads: %w", err)
	}

	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}

		file, err := openDirect(filepath.Join(dir, e.Name()), nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return fmt.Errorf("direct reads in %s: %w", dir, err)
		}

		return file.close()
	}

	return nil
}

const (
	maxDirectAlign      = 64 << 10
	directBufferBytes   = 64 << 10
	directBufferCeiling = 4 << 20 // larger ones are not kept
)

// newDirectBuffers makes a pool of aligned buffers.
func newDirectBuffers() *sync.Pool {
	return &sync.Pool{New: func() any { b := alignedBuffer(directBufferBytes); return &b }}
}

// alignedBuffer returns n bytes (a multiple of 512) at an address every
// alignment divides.
func alignedBuffer(n int64) []byte {
	b := make([]byte, n+maxDirectAlign)
	skip := int64(0)
	if r := int64(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % maxDirectAlign); r != 0 {
		skip = maxDirectAlign - r
	}
	return b[skip : skip+n : skip+n]
}

// readAt fills p from offset and tells how many bytes were asked of the device.
func (f *directFile) readAt(p []byte, offset int64) (n int, asked int64, err error) {
	start := offset &^ (f.align - 1)
	end := (offset + int64(len(p)) + f.align - 1) &^ (f.align - 1)
	asked = end - start

	pooled := f.buffers.Get().(*[]byte)
	if int64(len(*pooled)) < asked {
		*pooled = alignedBuffer(asked)
	}

	defer func() {
		if len(*pooled) <= directBufferCeiling {
			f.buffers.Put(pooled)
		}
	}()

	// A short read is the end of the file, which seldom is aligned.
	got, err := f.fill((*pooled)[:asked], start)
	if err != nil {
		return 0, asked, fmt.Errorf("direct read at %d: %w", offset, err)
	}

	if skip := int(offset - start); got > skip {
		n = copy(p, (*pooled)[skip:got])
	}

	if n < len(p) {
		return n, asked, io.EOF
	}

	return n, asked, nil
}

func (f *directFile) close() error { return f.file.Close() }
