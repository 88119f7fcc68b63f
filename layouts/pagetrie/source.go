//go:build linux

package pagetrie

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// source reads committed pages. Safe for concurrent use.
type source interface {
	// page returns a page that exists, in the file's mapping or in buf.
	page(id uint32, buf *page) (*page, error)
	// wrote tells that a page has other bytes now; nobody reads it.
	wrote(id uint32, p *page)
	// shareWithWriter gives up what the block being built may take, half of the budget. Nothing happens but the first time.
	shareWithWriter()
	// reads are the read calls so far; nil if none are made.
	reads() *int64
	cacheBytes() int64
	close() error
}

// mapped reads through a mapping of the file, longer than the file: it holds what
// is written behind the end, too. Its cache is the page cache.
type mapped []byte

func mapFile(f *file) (mapped, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, int(mapBytes), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	if err := unix.Madvise(m, unix.MADV_RANDOM); err != nil {
		return nil, errors.Join(fmt.Errorf("advise of random reads: %w", err), unix.Munmap(m))
	}
	return m, nil
}

func (m mapped) page(id uint32, _ *page) (*page, error) { return (*page)(m[offset(id):]), nil }
func (m mapped) wrote(uint32, *page)                    {}
func (m mapped) shareWithWriter()                       {}
func (m mapped) reads() *int64                          { return nil }
func (m mapped) cacheBytes() int64                      { return 0 }
func (m mapped) close() error                           { return unix.Munmap(m) }

// called reads with a call for each page that its cache does not hold.
type called struct {
	file    *os.File
	cache   *cache // nil: none
	aligned sync.Pool
	calls   atomic.Int64
}

func openCalled(f *file, direct bool, cacheBytes int64) (*called, error) {
	flags := os.O_RDONLY
	if direct {
		flags |= unix.O_DIRECT
	}
	own, err := os.OpenFile(f.Name(), flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open for reading by calls: %w", err)
	}
	c := &called{file: own, aligned: sync.Pool{New: func() any { return newAligned() }}}
	if pages := cacheBytes / pageBytes; pages > 0 {
		if c.cache, err = newCache(int(pages)); err != nil {
			return nil, errors.Join(err, own.Close())
		}
	}
	return c, nil
}

func (c *called) page(id uint32, buf *page) (*page, error) {
	if c.cache != nil && c.cache.read(id, buf) {
		return buf, nil
	}
	c.calls.Add(1)
	to := c.aligned.Get().(*page)
	defer c.aligned.Put(to)
	if _, err := c.file.ReadAt(to[:], offset(id)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	*buf = *to
	if c.cache != nil {
		c.cache.put(id, buf)
	}
	return buf, nil
}

func (c *called) wrote(id uint32, p *page) {
	if c.cache != nil {
		c.cache.refresh(id, p)
	}
}

func (c *called) shareWithWriter() {
	if c.cache != nil {
		c.cache.shrinkOnce()
	}
}

func (c *called) reads() *int64 {
	n := c.calls.Load()
	return &n
}

func (c *called) cacheBytes() int64 {
	if c.cache == nil {
		return 0
	}
	return c.cache.bytes()
}

func (c *called) close() error {
	err := c.file.Close()
	if c.cache != nil {
		err = errors.Join(err, c.cache.close())
	}
	return err
}

// newAligned returns a page as O_DIRECT wants it.
func newAligned() *page {
	b := make([]byte, 2*pageBytes)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (pageBytes - 1)
	return (*page)(b[skip:])
}
