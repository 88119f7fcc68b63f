package pagecache

import (
	"container/list"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// cache is a page cache whose pages leave in the order of their entry or of their last use.
type cache struct {
	capacity int
	byUse    bool
	order    list.List // the next to leave last
	at       map[Page]*list.Element
	clock    uint64
	history  *History // nil: nobody watches
}

// get asks for a page, and reports whether it had to be read.
func (c *cache) get(p Page) (read bool) {
	if e := c.at[p]; e != nil {
		if c.byUse {
			c.order.MoveToFront(e)
		}
		return false
	}

	if c.order.Len() >= c.capacity {
		last := c.order.Back()
		gone := c.order.Remove(last).(Page)
		delete(c.at, gone)
		c.clock++
		if c.history != nil {
			c.history.Evicted(gone, c.clock)
		}
	}

	c.at[p] = c.order.PushFront(p)
	if c.history != nil {
		c.history.Added(p, c.clock)
	}

	return true
}

const (
	filePages = 20_000
	ownFile   = 1
)

// zipfPages draws pages of a file, the popular ones all over it.
func zipfPages(exponent float64, seed uint64) func() Page {
	rng := rand.New(rand.NewPCG(seed, 1))
	place := rng.Perm(filePages)
	cumulated, sum := make([]float64, filePages), 0.0
	for i := range cumulated {
		sum += math.Pow(float64(i+1), -exponent)
		cumulated[i] = sum
	}

	return func() Page {
		want := rng.Float64() * sum
		low, high := 0, filePages-1
		for low < high {
			if middle := (low + high) / 2; cumulated[middle] < want {
				low = middle + 1
			} else {
				high = middle
			}
		}
		return Page{Inode: ownFile, Index: uint64(place[low])}
	}
}

// reads makes accesses, and returns how many of the own file had to be read.
func (c *cache) reads(next func() Page, accesses int) (own int) {
	for range accesses {
		if p := next(); c.get(p) && p.Inode == ownFile {
			own++
		}
	}
	return own
}

// traffic is what asks for pages.
type traffic struct {
	name   string
	source func(seed uint64) func() Page
}

func traffics() []traffic {
	const other = 2
	return []traffic{
		{"uniform", func(seed uint64) func() Page { return zipfPages(0, seed) }},
		{"Zipf", func(seed uint64) func() Page { return zipfPages(0.99, seed) }},
		{"beside another file", func(seed uint64) func() Page {
			own, theirs := zipfPages(0.8, seed), zipfPages(0.2, seed+1)
			rng := rand.New(rand.NewPCG(seed, 2))
			return func() Page {
				if rng.IntN(3) > 0 {
					return own()
				}
				p := theirs()
				p.Inode = other
				return p
			}
		}},
	}
}

// TestPredictedIsSimulated: what is predicted from the pages that enter and leave one cache is what
// caches of other sizes read of the same traffic.
func TestPredictedIsSimulated(t *testing.T) {
	const present, accesses = 4000, 200_000
	for _, tr := range traffics() {
		for _, byUse := range []bool{false, true} {
			run := func(pages int, h *History) (own int, c *cache) {
				c = &cache{capacity: pages, byUse: byUse, at: map[Page]*list.Element{}}
				next := tr.source(1)
				c.reads(next, accesses) // until it is full, and long after
				c.history, c.clock = h, 0
				own = c.reads(next, accesses)
				return own, c
			}

			h := NewHistory(Page{Inode: ownFile})
			reads, c := run(present, h)
			in := 0
			for p := range c.at {
				if p.Inode == ownFile {
					in++
				}
			}

			m, err := h.Fit(Window{
				Evictions:  float64(c.clock),
				OwnReads:   float64(reads),
				Share:      1,
				CachePages: present,
				OwnPages:   float64(in),
				FilePages:  filePages,
				EntryOrder: !byUse,
			})
			if err != nil {
				t.Fatal(tr.name, err)
			}

			for _, times := range []float64{0.5, 0.75, 1, 1.5, 2, 3} {
				p := m.With((times - 1) * present)
				then, _ := run(int(times*present), nil)
				got := p.Times * float64(reads)
				off := got/float64(then) - 1
				t.Logf("%s, by use %v, %gx: %.0f predicted (%.0f to %.0f), %d read (%+.1f%%)",
					tr.name, byUse, times, got, p.Low*float64(reads), p.High*float64(reads), then,
					100*off)
				inRange := float64(then) >= p.Low*float64(reads) &&
					float64(then) <= p.High*float64(reads)
				if math.Abs(off) > 0.05 && !inRange || math.Abs(off) > 0.1 {
					t.Errorf("%s, by use %v, %gx: off by %.1f%%", tr.name, byUse, times, 100*off)
				}
			}
		}
	}
}

// TestShortWindow: too short a window tells how long to watch.
func TestShortWindow(t *testing.T) {
	h := NewHistory(Page{Inode: ownFile})
	_, err := h.Fit(Window{Evictions: 500, OwnReads: 500, Share: 1, CachePages: 1000})
	var short *TooShortError
	if !errors.As(err, &short) || short.Times != 6 {
		t.Errorf("%v", err)
	}
}
