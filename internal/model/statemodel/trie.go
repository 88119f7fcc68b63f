// Package statemodel predicts how often a lookup of state reads below each memory
// that a layout has: its own cache, then the page cache.
//
// What a memory keeps is divided into classes of units (nodes, pages, blocks) that
// lookups ask for alike: so many units of so many bytes, asked for so often a
// lookup. Classes follow from the number of accounts and the rules of the layout;
// what stays in memory follows from Che's approximation (H. Che, Y. Tung, Z. Wang,
// Hierarchical Web Caching Systems, IEEE JSAC 20(7), 2002), and for Pebble's cache
// from playing the requests through internal/model/cachesim.
//
// What the first lookup after opening reads is another question (first.go): blocks of
// Pebble's levels, drawn and counted.
//
// Goals: no constant fitted to a measurement; the run as it was, stretch by stretch,
// and sizes nobody builds. Non-goals: time, concurrency, skewed lookups.
//
// Read in this order: memory.go (what stays), stretches.go and steady.go (misses), trie.go (nodes
// by depth), then a file for each layout.
package statemodel

import (
	"math"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// State is what was built, or would be.
type State struct {
	Accounts      float64
	ContractShare float64 // of the accounts, that have storage
	SlotsPer      float64 // of each of those
	BlockAccounts float64 // that a block of the build made
	DiskBytes     float64 // of all files; measured, or carried on per account
	// that changed UpdateKeys accounts each after the build; of one contract, every second its
	// slots
	UpdateBlocks float64
	UpdateKeys   float64
	ContractAt   float64 // place of the one contract among all accounts, 0 to 1; 0: anywhere
	// Grown: slots came block by block with the accounts, as on a chain; otherwise each contract's
	// in the block that made it, and those of the one contract in the first.
	Grown      bool
	GroupDepth float64 // levels of a node, of a binary trie
	BlockBytes float64 // of its store's blocks
	CodeBytes  float64 // of each contract, in a binary trie
}

func (s State) contracts() float64 { return s.Accounts * s.ContractShare }

// depths are those of the account trie that have branches worth counting.
func (s State) depths() []mpt.Depth {
	all := mpt.ExpectedDepths(s.Accounts)
	last := 0
	for d, at := range all {
		if at.OnPath > 1e-6 {
			last = d
		}
	}
	return all[:last+1]
}

// Of the accounts that the harness makes, in the mean.
const (
	nonceBytes   = 2
	balanceBytes = 9.5
	hashBytes    = 32
	slotValue    = 20 // half 32, half 8
)

const pageBytes = 4096

// strewn are units of memory (pages, blocks) over which nodes lie strewn, and how
// lookups ask for nodes of each depth. A unit that holds a node of some depth is in
// the class of the shallowest that it holds:
//
//	units of class e = units * exp(-SUM over d < e of n_d / units) * (1 - exp(-n_e / units))
//
// and the requests for nodes of depth d go to their units of every class up to d.
// levels are given from the shallowest down; what is behind them is in any unit.
type strewn struct {
	units     float64
	unitBytes float64
	levels    []level
}

type level struct {
	nodes  float64
	visits [kinds]float64
}

// classes returns the classes of the units, and for each level the shares of its
// requests that go to each of them.
func (s strewn) classes() (classes []Class, shares [][]float64) {
	left := s.units
	for _, l := range s.levels {
		of := left * -math.Expm1(-l.nodes/s.units)
		classes = append(classes, Class{Units: math.Max(of, 1e-9), UnitBytes: s.unitBytes})
		left -= of
	}

	for d := range s.levels {
		share := make([]float64, len(s.levels))
		rest := 1.0
		for e := range d {
			share[e] = classes[e].Units / s.units
			rest -= share[e]
		}

		share[d] = math.Max(0, rest)
		shares = append(shares, share)
		for e := range share {
			for kind := range kinds {
				classes[e].Visits[kind] += s.levels[d].visits[kind] * share[e]
			}
		}
	}

	return classes, shares
}

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
func (m Memory) reach(maximum float64, kept func(class int, back float64) float64) float64 {
	full := func(back float64) bool {
		bytes := 0.0
		for i, c := range m.Classes {
			bytes += c.takes(kept(i, back))
		}
		return bytes > m.Bytes
	}

	if !full(maximum) {
		return maximum
	}

	low, high := 0.0, maximum
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
