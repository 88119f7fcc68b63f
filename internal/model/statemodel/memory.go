package statemodel

import "math"

// Kind of a lookup.
type Kind int

// Kinds of lookups.
const (
	Account Kind = iota
	AbsentAccount
	Slot
	AbsentSlot
	kinds
)

// Class is units that lookups ask for alike, each as often as any other.
type Class struct {
	Units     float64
	UnitBytes float64 // of one in memory
	// EndToEnd units lie one behind the other in a file, and memory keeps the pages
	// that they begin and end on.
	EndToEnd bool
	// Again are further requests for the same unit that follow one at once. They are
	// no misses, but CLOCK-Pro takes them for reuse.
	Again float64
	// Visits are requests per lookup of each kind. Below the first memory they are
	// added to what its misses ask for.
	Visits [kinds]float64
	// To is where this class's misses go in the next memory: the requests of one
	// miss to its classes.
	To []float64
}

// takes is the memory of a class of which a share is kept. A page of units end to end,
// p of one page each, is there if any of the 1 + 1/p units on it was asked for.
func (c Class) takes(kept float64) float64 {
	if c.EndToEnd {
		kept = 1 - math.Pow(1-kept, 1+1/c.pages())
	}
	return c.UnitBytes * c.Units * kept
}

// missing is the chance that a request needs a read: it was not asked for itself, nor,
// end to end, were neighbours on its page (two pages with chance p).
func (c Class) missing(kept float64) float64 {
	if !c.EndToEnd {
		return 1 - kept
	}
	p := math.Min(1, c.pages())
	page := 1 - math.Pow(1-kept, 1/p)
	return (1 - kept) * (1 - (1-p)*page - p*page*page)
}

func (c Class) pages() float64 { return c.UnitBytes / pageBytes }

// Policy is how a memory chooses what to give up.
type Policy int

// Policies.
const (
	LRU      Policy = iota
	FIFO            // a ring that is written over
	ClockPro        // Pebble's
)

// Memory keeps units of some classes.
type Memory struct {
	Bytes   float64
	Policy  Policy
	Shards  int // ClockPro
	Classes []Class
}

// keptOf is the share of a class's units in memory, of requests per unit within the
// window that memory reaches back. Of requests that come now, at random:
//
//	LRU: 1 - exp(-now), a unit is kept if it was asked for at all (Che's approximation)
//	FIFO: now / (1 + now), a unit is kept from a miss for as long as the window is
//	      (V. Martina, M. Garetto, E. Leonardi, INFOCOM 2014, section IV-B)
//
// earlier are requests before those (LRU), or the misses among them (FIFO): no unit
// misses twice within the window.
func (p Policy) keptOf(earlier, now float64) float64 {
	if p == FIFO {
		return min(1, (earlier+now)/(1+now))
	}
	return -math.Expm1(-earlier - now)
}

// reach is how many lookups back memory reaches, at most most. asked are the
// requests of each class within a window of so many lookups.
//
//	SUM over classes of bytes * units * kept(asked / units) = memory
func (m Memory) reach(most float64, kept func(class int, back float64) float64) float64 {
	full := func(back float64) bool {
		bytes := 0.0
		for i, c := range m.Classes {
			bytes += c.takes(kept(i, back))
		}
		return bytes > m.Bytes
	}
	if !full(most) {
		return most
	}
	low, high := 0.0, most
	for range 100 {
		if middle := (low + high) / 2; full(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

func sum(of []float64) (total float64) {
	for _, x := range of {
		total += x
	}
	return total
}
