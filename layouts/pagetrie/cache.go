//go:build linux

package pagetrie

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
	memory, err := unix.Mmap(-1, 0, pages*pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
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
