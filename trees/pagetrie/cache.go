package pagetrie

import "sync"

// cache keeps pages, by second chance, in shards with a lock each.
type cache struct{ shards []cacheShard }

const cacheShards = 16

type cacheShard struct {
	mu     sync.Mutex
	at     map[uint32]int // page -> frame
	frames []frame
	hand   int
	_      [64]byte // neighbours' locks stay off this one's line
}

type frame struct {
	id   uint32 // 0: empty
	used bool
	page page
}

func newCache(pages int) *cache {
	c := &cache{make([]cacheShard, min(cacheShards, pages))}
	for i := range c.shards {
		n := pages / len(c.shards)
		if i < pages%len(c.shards) {
			n++
		}
		c.shards[i].frames = make([]frame, n)
		c.shards[i].at = make(map[uint32]int, n)
	}
	return c
}

func (c *cache) bytes() (sum int64) {
	for i := range c.shards {
		sum += int64(len(c.shards[i].frames)) * pageBytes
	}
	return sum
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
	*to = s.frames[i].page
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
	f := &s.frames[s.hand]
	delete(s.at, f.id)
	f.id, f.page = id, *p
	s.at[id] = s.hand
	s.hand = (s.hand + 1) % len(s.frames)
}

// refresh changes a page that is in the cache.
func (c *cache) refresh(id uint32, p *page) {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.at[id]; ok {
		s.frames[i].page = *p
	}
}
