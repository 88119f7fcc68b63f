package pagecache

import (
	"fmt"
	"math"
)

// Window is what is known of the page cache beside the history of its pages.
type Window struct {
	Evictions float64 // in the window
	OwnReads  float64 // pages of the own file that were read in it
	Share     float64 // of the pages whose history is known, above 0 and up to 1

	// Pages now: of the page cache, of the own file in it, and of the own file.
	CachePages, OwnPages, FilePages float64
	// EntryOrder: pages of the own file leave in the order of their entry, unless they come back
	// soon, since the kernel ignores whether mappings with MADV_RANDOM used them.
	EntryOrder bool
}

// Model predicts page reads at other sizes of the page cache.
type Model struct {
	cache       float64 // pages
	own, others mixture
	entry       float64 // part of the pages that leave in the order of their entry
	scale       float64 // that the present reads take to be those that were seen
	spread      float64 // of predictions, as a share, from the length of the window
	seen        float64 // own reads for each eviction
}

// Errors of a model.
const (
	// shortest is how often all pages must have been replaced for times out of memory to tell
	// rates.
	shortest = 1.4
	// spreadAtShortest is how far predictions for twice the memory were off after such a window;
	// it falls with the square of the window.
	spreadAtShortest = 0.13
	// spreadOfLess is how far predictions for less memory may be off beside that, as a share for
	// each share of the memory: pages that never left do not tell how soon they would.
	spreadOfLess = 0.15
	// spreadOfPages is how far the pages of another page cache may be from what the change of the
	// memory adds to the present ones, as a share: the process and the kernel use the rest.
	spreadOfPages = 0.04
	// mostOff is how far a model's reads at the present size may be from those that were seen.
	mostOff = 0.3
	// fewest own reads tell rates.
	fewest = 1000
	// forever, in evictions, is longer than any page stays.
	forever = 1e18
)

// TooShortError says that the window is too short, and how many times as long it should be.
type TooShortError struct{ Times float64 }

// Error says so.
func (e *TooShortError) Error() string {
	return fmt.Sprintf("too few pages left memory while it was watched: watch %.0f times as long",
		math.Ceil(e.Times))
}

// Replaced is how often the window replaced all pages of the page cache.
func (w Window) Replaced() float64 { return w.Evictions / max(1, w.CachePages) }

// wanted is how often all pages should be replaced in a window.
const wanted = 3

// Fit fits a model to what was seen until now, after w.Evictions evictions.
func (h *History) Fit(w Window) (*Model, error) {
	if replaced := w.Replaced(); replaced < shortest || w.OwnReads*w.Share < fewest {
		return nil, &TooShortError{max(wanted/max(replaced, 1e-3),
			fewest/max(1, w.OwnReads*w.Share))}
	}

	clock := uint64(w.Evictions)
	own, ownKnown, ownIn := h.classes(true, clock)
	others, _, othersIn := h.classes(false, clock)
	for _, all := range [][]class{own, others} {
		for i := range all {
			all[i].pages /= w.Share
		}
	}

	ownPinned := max(0, w.OwnPages-ownIn/w.Share)
	othersPinned := max(0, w.CachePages-w.OwnPages-othersIn/w.Share)
	idle := max(0, w.FilePages-ownKnown/w.Share-ownPinned)
	m := &Model{
		cache:  w.CachePages,
		seen:   w.OwnReads / w.Evictions,
		spread: spreadAtShortest * math.Pow(shortest/w.Replaced(), 2),
	}

	// How long a page stays follows from the rates, and the rates of pages that never left from
	// that.
	stay := w.CachePages
	for range 3 {
		m.own = fit(own, w.Evictions, idle, ownPinned, stay)
		m.others = fit(others, w.Evictions, 0, othersPinned, stay)
		stay = m.stay(m.cache, lru)
	}

	inOrder, byUse := m.alone(m.cache, fifo), m.alone(m.cache, lru)
	if w.EntryOrder && inOrder > byUse {
		m.entry = min(1, max(0, (m.seen-byUse)/(inOrder-byUse)))
	}

	modelled := m.entry*inOrder + (1-m.entry)*byUse
	m.scale = m.seen / modelled
	if !(modelled > 0) || math.Abs(m.scale-1) > mostOff {
		return nil, fmt.Errorf("the model of the page cache reads %.2f times the pages that were "+
			"read: other sizes of the memory are not predicted", modelled/m.seen)
	}

	return m, nil
}

// stay is how long a page stays in a page cache of so many pages.
func (m *Model) stay(pages float64, of policy) float64 {
	low, high := 0.0, 1.0
	inMemory := func(stay float64) float64 {
		return m.own.inMemory(stay, of) + m.others.inMemory(stay, of)
	}

	for inMemory(high) < pages {
		if high *= 2; high > forever {
			return math.Inf(1) // all pages fit
		}
	}

	const halvings = 60
	for range halvings {
		if middle := (low + high) / 2; inMemory(middle) < pages {
			low = middle
		} else {
			high = middle
		}
	}

	return (low + high) / 2
}

// alone is what one policy reads of the own file, for each eviction that there is now.
func (m *Model) alone(pages float64, of policy) float64 {
	stay := m.stay(pages, of)
	if math.IsInf(stay, 1) {
		return 0
	}
	return m.own.reads(stay, of)
}

// Prediction is how many pages of the own file would be read, as a multiple of those that are now,
// with the range in which that lies.
type Prediction struct{ Times, Low, High float64 }

// With predicts the reads when the page cache has so many pages more than now, or fewer.
func (m *Model) With(morePages float64) (p Prediction) {
	pages := max(1, m.cache+morePages)
	p.Times = m.times(pages)
	p.Low, p.High = p.Times, p.Times
	widen := func(times float64) { p.Low, p.High = min(p.Low, times), max(p.High, times) }
	if morePages != 0 {
		widen(m.times(pages * (1 - spreadOfPages)))
		widen(m.times(pages * (1 + spreadOfPages)))
	}

	// Either policy alone, if it met the present reads.
	for _, of := range []policy{fifo, lru} {
		if now := m.alone(m.cache, of); now > 0 {
			widen(m.alone(pages, of) / now)
		}
	}

	spread := m.spread + spreadOfLess*max(0, -morePages/m.cache)
	p.Low, p.High = p.Low*(1-spread), p.High*(1+spread)
	return p
}

// times is how many times the present reads a page cache of so many pages would need.
func (m *Model) times(pages float64) float64 {
	return m.scale * (m.entry*m.alone(pages, fifo) + (1-m.entry)*m.alone(pages, lru)) / m.seen
}
