// Package pagecache predicts how many pages a process would read with more or less memory for the
// page cache, from the pages that were seen to enter and to leave it.
//
// Time is counted in evictions, the clock of the kernel's own reclaim. How long a page stays out
// of memory before it is asked for again tells how often it is asked for: a mixture of rates is
// fitted to those times by expectation-maximisation. A cache of another size keeps a page for
// another characteristic time T, and is full when the expected share of the time that each page
// spends in memory adds up to it: λT/(1+λT) where pages leave in the order of their entry, and
// 1-exp(-λT) where the least recently used page leaves (Che's approximation).
//
// Non-goals: watching the page cache (observe/probe).
//
// Read in this order: pagecache.go (what was seen), mixture.go (rates), predict.go.
package pagecache

import (
	"maps"
	"math"
)

// Page names a page of a file.
type Page struct {
	Device uint32
	Inode  uint64
	Index  uint64 // in the file
}

// file is that of a page.
func (p Page) file() Page { return Page{Device: p.Device, Inode: p.Inode} }

// history is what was seen of a page.
type history struct {
	in       bool
	gone     bool   // it left without being evicted: its absence tells nothing
	since    uint64 // clock when it entered or left last
	out      uint64 // evictions during which it was known to be out of memory
	refaults uint32 // how often it was read after such a time
}

// History is what was seen of the pages of one page cache. For one goroutine.
type History struct {
	own   Page // the file that is asked about
	pages map[Page]*history
}

// NewHistory begins to watch; own is a page of the file that is asked about.
func NewHistory(own Page) *History {
	return &History{own: own.file(), pages: map[Page]*history{}}
}

// Added notes that a page was read into memory, after so many evictions since the beginning.
func (h *History) Added(p Page, clock uint64) {
	seen := h.pages[p]
	if seen == nil {
		// It was out of memory from the beginning on.
		seen = &history{}
		h.pages[p] = seen
	}

	if !seen.in && !seen.gone {
		seen.out += clock - min(clock, seen.since)
		seen.refaults++
	}

	seen.in, seen.gone, seen.since = true, false, clock
}

// Evicted notes that memory was made free by dropping a page.
func (h *History) Evicted(p Page, clock uint64) {
	seen := h.pages[p]
	if seen == nil {
		seen = &history{}
		h.pages[p] = seen
	}
	seen.in, seen.gone, seen.since = false, false, clock
}

// Removed notes that a page left for another reason: its file was cut, or it was dropped on demand.
func (h *History) Removed(p Page) {
	if seen := h.pages[p]; seen != nil {
		seen.in, seen.gone = false, true
	}
}

// Keep forgets the pages that are not to be kept.
func (h *History) Keep(kept func(Page) bool) {
	maps.DeleteFunc(h.pages, func(p Page, _ *history) bool { return !kept(p) })
}

// Pages is how many pages were seen.
func (h *History) Pages() int { return len(h.pages) }

// class is a set of pages that were out of memory equally long, and were read equally often.
type class struct {
	out      float64 // evictions
	refaults float64
	pages    float64
}

// outSteps is how finely times out of memory are told apart, for each doubling.
const outSteps = 8

// classes sums up the pages of the own file, or of all others, until clock. known counts those that
// were seen, in those that are in memory at the end.
func (h *History) classes(own bool, clock uint64) (all []class, known, in float64) {
	type bin struct{ out, refaults int }
	bins := map[bin]*class{}
	for p, seen := range h.pages {
		if (p.file() == h.own) != own {
			continue
		}

		known++
		out := seen.out
		switch {
		case seen.in:
			in++
		case !seen.gone:
			out += clock - min(clock, seen.since)
		}

		if out == 0 && seen.refaults == 0 {
			continue // its absence was never seen
		}

		b := bin{int(math.Round(outSteps * math.Log2(float64(out)+1))), int(seen.refaults)}
		if bins[b] == nil {
			bins[b] = &class{refaults: float64(seen.refaults)}
		}
		c := bins[b]
		c.out += float64(out)
		c.pages++
	}

	for _, c := range bins {
		c.out /= c.pages
		all = append(all, *c)
	}

	return all, known, in
}
