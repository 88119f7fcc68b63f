package cachesim

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// zipf draws ids with probability ~ 1/(rank+1)^theta.
type zipf struct {
	random *rand.Rand
	sums   []float64
}

func newZipf(random *rand.Rand, n int, theta float64) *zipf {
	z := &zipf{random, make([]float64, n)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -theta)
		z.sums[i] = sum
	}
	return z
}

func (z *zipf) next() int {
	x := z.random.Float64() * z.sums[len(z.sums)-1]
	return sort.SearchFloat64s(z.sums, x)
}

func TestLRUIsGolangLRU(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, capacity := range []int{1, 2, 10, 500} {
		want, err := simplelru.NewLRU[int, struct{}](capacity, nil)
		if err != nil {
			t.Fatal(err)
		}

		have := NewLRU(int64(capacity))
		ids := newZipf(random, 1000, 0.8)
		for i := range 100_000 {
			id := ids.next()
			_, hit := want.Get(id)
			if !hit {
				want.Add(id, struct{}{})
			}

			if have.Access(uint32(id), 1) != hit {
				t.Fatalf("capacity %d, access %d: want hit %v", capacity, i, hit)
			}
		}
	}
}

// The naive policies keep plain slices, newest last, written from the papers'
// pseudo code.
type naiveEntry struct {
	id    uint32
	bytes int64
	freq  int
}

type naiveQueue []naiveEntry

func (q naiveQueue) find(id uint32) int {
	return slices.IndexFunc(q, func(e naiveEntry) bool { return e.id == id })
}

func (q naiveQueue) bytes() (sum int64) {
	for _, e := range q {
		sum += e.bytes
	}
	return sum
}

type naiveLRU struct {
	naiveQueue
	max int64
}

func (c *naiveLRU) Access(id uint32, bytes int32) bool {
	i := c.find(id)
	if i >= 0 {
		e := c.naiveQueue[i]
		c.naiveQueue = append(slices.Delete(c.naiveQueue, i, i+1), e)
		return true
	}

	if int64(bytes) > c.max {
		return false
	}

	for c.bytes()+int64(bytes) > c.max {
		c.naiveQueue = slices.Delete(c.naiveQueue, 0, 1)
	}

	c.naiveQueue = append(c.naiveQueue, naiveEntry{id: id, bytes: int64(bytes)})
	return false
}

type naiveSieve struct {
	naiveQueue
	max    int64
	hand   int // position
	second bool
}

func (c *naiveSieve) Access(id uint32, bytes int32) bool {
	if i := c.find(id); i >= 0 {
		c.naiveQueue[i].freq = 1
		return true
	}

	if int64(bytes) > c.max {
		return false
	}

	for c.bytes()+int64(bytes) > c.max {
		if c.second { // CLOCK
			for c.naiveQueue[0].freq > 0 {
				e := c.naiveQueue[0]
				e.freq = 0
				c.naiveQueue = append(slices.Delete(c.naiveQueue, 0, 1), e)
			}

			c.naiveQueue = slices.Delete(c.naiveQueue, 0, 1)
			continue
		}

		for {
			if c.hand >= len(c.naiveQueue) {
				c.hand = 0
			}

			if c.naiveQueue[c.hand].freq == 0 {
				break
			}

			c.naiveQueue[c.hand].freq = 0
			c.hand++
		}

		c.naiveQueue = slices.Delete(c.naiveQueue, c.hand, c.hand+1)
		if c.hand == len(c.naiveQueue) {
			c.hand = 0
		}
	}

	c.naiveQueue = append(c.naiveQueue, naiveEntry{id: id, bytes: int64(bytes)})
	return false
}

type naiveS3 struct {
	small, main, ghost naiveQueue
	max                int64
}

func (c *naiveS3) Access(id uint32, bytes int32) bool {
	for _, q := range []naiveQueue{c.small, c.main} {
		if i := q.find(id); i >= 0 {
			q[i].freq = min(q[i].freq+1, 3)
			return true
		}
	}

	if int64(bytes) > c.max {
		return false
	}

	wasGhost := false
	if i := c.ghost.find(id); i >= 0 {
		wasGhost = true
		c.ghost = slices.Delete(c.ghost, i, i+1)
	}

	for c.small.bytes()+c.main.bytes()+int64(bytes) > c.max {
		if c.small.bytes() > c.max/10 || len(c.main) == 0 {
			e := c.small[0]
			c.small = c.small[1:]
			if e.freq > 1 {
				e.freq = 0
				c.main = append(c.main, e)
			} else {
				e.freq = 0
				c.ghost = append(c.ghost, e)
				for c.ghost.bytes() > c.max-c.max/10 {
					c.ghost = c.ghost[1:]
				}
			}
		} else {
			e := c.main[0]
			c.main = c.main[1:]
			if e.freq > 0 {
				e.freq--
				c.main = append(c.main, e)
			}
		}
	}

	e := naiveEntry{id: id, bytes: int64(bytes)}
	if wasGhost {
		c.main = append(c.main, e)
	} else {
		c.small = append(c.small, e)
	}

	return false
}

// TestPooledLRUWithoutAPoolIsAnLRU: where no bytes are for blocks of high priority, as in Java,
// they leave as early as others.
func TestPooledLRUWithoutAPoolIsAnLRU(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	const capacity = 50
	want, err := simplelru.NewLRU[int, struct{}](capacity, nil)
	if err != nil {
		t.Fatal(err)
	}

	got, half := NewPooledLRU(capacity, 0), NewPooledLRU(capacity, DefaultHighShare)
	ids, differs := newZipf(random, 200, 0.8), false
	for range 20_000 {
		id := ids.next()
		_, hit := want.Get(id)
		if !hit {
			want.Add(id, struct{}{})
		}

		high := id%3 == 0
		if got.AccessAs(uint32(id+1), 1, high) != hit {
			t.Fatalf("block %d: hit %v, want %v", id, !hit, hit)
		}

		differs = half.AccessAs(uint32(id+1), 1, high) != hit || differs
	}

	if !differs {
		t.Error("a pool for half of the bytes makes no difference")
	}
}

func TestPoliciesAgainstNaiveOnes(t *testing.T) {
	const max = 20_000
	for name, pair := range map[string]struct {
		have Cache
		want interface {
			Access(id uint32, bytes int32) bool
		}
	}{
		"lru":    {NewLRU(max), &naiveLRU{max: max}},
		"sieve":  {NewSieve(max), &naiveSieve{max: max}},
		"clock":  {NewClock(max), &naiveSieve{max: max, second: true}},
		"s3fifo": {NewS3FIFO(max), &naiveS3{max: max}},
	} {
		random := rand.New(rand.NewPCG(3, 4))
		ids := newZipf(random, 600, 0.7)
		hits := 0
		for i := range 40_000 {
			id := uint32(ids.next())
			bytes := int32(1 + id*7919%900)
			if id == 5 {
				bytes = max + 1
			}

			have, want := pair.have.Access(id, bytes), pair.want.Access(id, bytes)
			if have != want {
				t.Fatalf("%s: access %d to %d: hit %v, want %v", name, i, id, have, want)
			}

			if have {
				hits++
			}

			if used := pair.have.UsedBytes(); used > max {
				t.Fatalf("%s: %d bytes used of %d", name, used, max)
			}
		}

		if hits < 4000 {
			t.Errorf("%s: only %d hits: the test shows little", name, hits)
		}
	}
}

func TestIndexAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	x, want := newIndex(), map[uint32]int32{}
	for range 300_000 {
		id := random.Uint32N(3000) * 1_000_003
		switch slot, there := want[id]; {
		case x.get(id) != slot:
			t.Fatalf("id %d: slot %d, want %d", id, x.get(id), slot)
		case there && random.IntN(2) == 0:
			x.remove(id)
			delete(want, id)
		case !there:
			want[id] = 1 + random.Int32N(1000)
			x.put(id, want[id])
		}
	}

	if x.n != len(want) {
		t.Errorf("%d entries, want %d", x.n, len(want))
	}
}

func TestAccessDoesNotAllocate(t *testing.T) {
	for name, c := range map[string]Cache{
		"clockpro": NewClockPro(1 << 20),
		"lru":      NewLRU(1 << 20),
		"sieve":    NewSieve(1 << 20),
		"s3fifo":   NewS3FIFO(1 << 20),
	} {
		id := uint32(0)
		access := func() { id = id*1664525 + 1013904223; c.Access(id%2000, 4096) }
		for range 50_000 {
			access()
		}

		if allocs := testing.AllocsPerRun(10_000, access); allocs != 0 {
			t.Errorf("%s: %v allocations per access", name, allocs)
		}
	}
}

func BenchmarkAccess(b *testing.B) {
	random := rand.New(rand.NewPCG(8, 9))
	// As in a lookup: few blocks asked for all the time, many hardly ever.
	ids := make([]uint32, 1<<20)
	for i := range ids {
		if ids[i] = random.Uint32N(2_000_000); i%5 != 0 {
			ids[i] %= 3000
		}
	}

	for name, c := range map[string]Cache{
		"clockpro": NewClockPro(32 << 20),
		"lru":      NewLRU(32 << 20),
		"sieve":    NewSieve(32 << 20),
		"clock":    NewClock(32 << 20),
		"s3fifo":   NewS3FIFO(32 << 20),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				c.Access(ids[i&(1<<20-1)], 4096)
			}
		})
	}
}
