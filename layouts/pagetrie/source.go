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

	"github.com/statelab/statelab/internal/adapt/adapter"
)

// source reads committed pages. Safe for concurrent use.
type source interface {
	// page returns a page that exists, in the file's mapping or in buf.
	page(id uint32, buf *page) (*page, error)
	// wrote tells that a page has other bytes now; nobody reads it.
	wrote(id uint32, p *page)
	// shareWithWriter gives up what the block being built may take, half of the budget. Nothing
	// happens but the first time.
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
	m, err := unix.Mmap(int(f.Fd()), 0, int(mapBytes), unix.PROT_READ,
		unix.MAP_SHARED|unix.MAP_NORESERVE)
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

	c := &called{
		file: own,
		aligned: sync.Pool{
			New: func() any { return (*page)(adapter.Aligned(pageBytes, pageBytes)) },
		},
	}

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

// cache keeps pages, by second chance, in shards with a lock each. They lie outside
// the Go heap, where a collector would keep as much again in reserve.
type cache struct {
	memory []byte
	shards []cacheShard
	frames atomic.Int64
	shrunk sync.Once
}

const cacheShards = 16

type cacheShard struct {
	mu     sync.Mutex
	at     map[uint32]int // page -> frame
	frames []frame
	pages  []page // by frame
	hand   int
	_      [64]byte // neighbours' locks stay off this one's line
}

type frame struct {
	id   uint32 // 0: empty
	used bool
}

func newCache(pages int) (*cache, error) {
	memory, err := unix.Mmap(-1, 0, pages*pageBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("room for %d pages of cache: %w", pages, err)
	}

	c := &cache{memory: memory, shards: make([]cacheShard, min(cacheShards, pages))}
	c.frames.Store(int64(pages))
	all := unsafe.Slice((*page)(unsafe.Pointer(&memory[0])), pages)
	for i := range c.shards {
		n := pages / len(c.shards)
		if i < pages%len(c.shards) {
			n++
		}

		s := &c.shards[i]
		s.frames, s.at = make([]frame, n), make(map[uint32]int, n)
		s.pages, all = all[:n], all[n:]
	}

	return c, nil
}

func (c *cache) bytes() int64 { return c.frames.Load() * pageBytes }

// shrinkOnce gives up half of the frames, once and for all.
func (c *cache) shrinkOnce() {
	c.shrunk.Do(func() {
		for i := range c.shards {
			c.frames.Add(-int64(c.shards[i].shrink()))
		}
	})
}

// shrink gives up the last half of a shard's frames and their memory.
func (s *cacheShard) shrink() (frames int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := len(s.frames) / 2
	if gone == 0 {
		return 0
	}

	keep := len(s.frames) - gone
	for _, f := range s.frames[keep:] {
		delete(s.at, f.id)
	}

	memory := unsafe.Slice((*byte)(unsafe.Pointer(&s.pages[keep])), gone*pageBytes)
	s.frames, s.pages = s.frames[:keep], s.pages[:keep]
	s.hand = 0
	if err := unix.Madvise(memory, unix.MADV_DONTNEED); err != nil {
		return 0 // the memory stays taken, and counted
	}

	return gone
}

func (c *cache) shard(id uint32) *cacheShard { return &c.shards[int(id)%len(c.shards)] }

func (c *cache) read(id uint32, to *page) bool {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.at[id]
	if !ok {
		return false
	}

	s.frames[i].used = true
	*to = s.pages[i]
	return true
}

func (c *cache) put(id uint32, p *page) {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.at[id]; ok {
		return
	}

	for s.frames[s.hand].used {
		s.frames[s.hand].used = false
		s.hand = (s.hand + 1) % len(s.frames)
	}

	delete(s.at, s.frames[s.hand].id)
	s.frames[s.hand].id, s.pages[s.hand] = id, *p
	s.at[id] = s.hand
	s.hand = (s.hand + 1) % len(s.frames)
}

// refresh changes a page that is in the cache.
func (c *cache) refresh(id uint32, p *page) {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.at[id]; ok {
		s.pages[i] = *p
	}
}

func (c *cache) close() error {
	for i := range c.shards {
		c.shards[i].mu.Lock()
		c.shards[i].at = nil // nothing is found any more
		c.shards[i].mu.Unlock()
	}
	return unix.Munmap(c.memory)
}
