package subject

import (
	"slices"

	"github.com/statelab/statelab/internal/model/statemodel"
)

// Memory is what a layout has to keep what it reads, in bytes.
type Memory struct {
	Cache     float64 // of pages or blocks
	Clean     float64 // of nodes or flat states, above it
	Shards    int     // of a block cache
	Pinned    float64 // of a trie's upper branches
	PageCache float64
}

// Model is what a layout keeps of what it reads.
type Model struct {
	Basis string
	// Memories are those of a lookup, the first to be asked first; nil for a state that the model
	// does not reach.
	Memories func(statemodel.State, Memory) []statemodel.Memory
	// The memories below which the layout's own reads are, and the device's. A layout whose cache
	// is the page cache has no reads of its own: Own is Nowhere.
	Own, Device int
	// Divide is how the layout spends a budget; not ok where it cannot run with it.
	Divide func(s statemodel.State, budget float64) (m Memory, ok bool)
	// Pins are the bytes of a budget that it keeps of the trie's upper branches; nil: none.
	Pins func(s statemodel.State, budget float64) float64
	// Slots: Memories also know lookups of slots, in contracts of any size.
	Slots bool
	// First are the reads of a lookup with nothing cached, where they do not follow from Memories.
	First func(statemodel.State, statemodel.Kind) (reads statemodel.Reads, ok bool)
}

// Nowhere is the place of a model without a memory.
const Nowhere = -1

// Uncached are the reads of a lookup with nothing cached but what a budget pins.
func (m *Model) Uncached(
	s statemodel.State, kind statemodel.Kind, budget float64,
) (reads statemodel.Reads, ok bool) {
	if m.First != nil {
		return m.First(s, kind)
	}

	var held Memory
	if m.Pins != nil {
		held.Pinned = m.Pins(s, budget)
	}

	memories := m.Memories(s, held)
	if memories == nil {
		return reads, false
	}

	return statemodel.Reads{Mean: statemodel.Steady(memories, kind)[max(m.Own, 0)]}, true
}

// Ways to spend a budget.
func allPageCache(_ statemodel.State, budget float64) (Memory, bool) {
	return Memory{PageCache: budget}, true
}

func allCache(_ statemodel.State, budget float64) (Memory, bool) {
	return Memory{Cache: budget}, true
}

func halfClean(_ statemodel.State, budget float64) (Memory, bool) {
	return Memory{Clean: budget / 2, Cache: budget / 2}, true
}

func always(
	first func(statemodel.State, statemodel.Kind) statemodel.Reads,
) func(statemodel.State, statemodel.Kind) (statemodel.Reads, bool) {
	return func(s statemodel.State, kind statemodel.Kind) (statemodel.Reads, bool) {
		return first(s, kind), true
	}
}

// chunkTrie pins what pins says; the page cache has the rest.
func chunkTrie(pins func(statemodel.State, float64) float64) *Model {
	m := &Model{
		Basis:  "nodes that are not pinned, and their pages",
		Own:    0,
		Device: 1,
		Divide: allPageCache,
		Pins:   pins,
		Memories: func(s statemodel.State, m Memory) []statemodel.Memory {
			return statemodel.ChunkTrie(s, m.Pinned, m.PageCache)
		},
	}

	if pins != nil {
		m.Divide = func(s statemodel.State, budget float64) (Memory, bool) {
			pinned := pins(s, budget)
			return Memory{Pinned: pinned, PageCache: budget - pinned}, true
		}
	}

	return m
}

func pageTrie() *Model {
	return &Model{Basis: "pages by simulated splits", Own: 0, Device: 1, Divide: allCache,
		Memories: func(s statemodel.State, m Memory) []statemodel.Memory {
			memories, _ := statemodel.PageTrie(s, m.Cache, m.PageCache)
			return memories
		},
		// A contract's trie is paged as one of as many accounts.
		First: func(s statemodel.State, kind statemodel.Kind) (reads statemodel.Reads, ok bool) {
			slots := s.SlotsPer
			s.ContractShare, s.SlotsPer = 0, 0
			reads.Mean, ok = statemodel.Pages(s)
			if kind == statemodel.Slot || kind == statemodel.AbsentSlot {
				s.Accounts = slots
				below, known := statemodel.Pages(s)
				reads.Mean, ok = reads.Mean+below, ok && known
			}

			return reads, ok
		}}
}

func trieDB() *Model {
	return &Model{
		Basis:  "pages by simulated splits of pagetrie",
		Own:    Nowhere,
		Device: 0,
		Divide: allPageCache,
		Memories: func(s statemodel.State, m Memory) []statemodel.Memory {
			memories, ok := statemodel.TrieDB(s, m.PageCache)
			if !ok {
				return nil
			}
			return memories
		},
	}
}

func flatMDBX() *Model {
	return &Model{
		Basis:  "pages of a B-tree",
		Slots:  true,
		Own:    Nowhere,
		Device: 0,
		Divide: allPageCache,
		First:  always(statemodel.FirstFlatMDBX),
		Memories: func(s statemodel.State, m Memory) []statemodel.Memory {
			return statemodel.FlatMDBX(s, m.PageCache)
		},
	}
}

func flatPebble() *Model {
	return &Model{
		Basis:  "blocks of one level, and their pages",
		Slots:  true,
		Own:    0,
		Device: 1,
		Divide: allCache,
		First:  always(statemodel.FirstFlatPebble),
		Memories: func(s statemodel.State, m Memory) []statemodel.Memory {
			return statemodel.FlatPebble(s, m.Cache, m.Shards, m.PageCache)
		},
	}
}

// inGeth keeps clean nodes or flat states above Pebble.
func inGeth(basis string,
	memories func(statemodel.State, statemodel.GethMemory) []statemodel.Memory,
	first func(statemodel.State, statemodel.Kind) statemodel.Reads) *Model {
	return &Model{Basis: basis, Own: 1, Device: 2, Divide: halfClean, First: always(first),
		Memories: func(s statemodel.State, m Memory) []statemodel.Memory {
			return memories(s, statemodel.GethMemory{
				CleanBytes:     m.Clean,
				PebbleBytes:    m.Cache,
				Shards:         m.Shards,
				PageCacheBytes: m.PageCache,
			})
		}}
}

// SlotsInMemory are the layouts whose model knows which slots are kept in memory.
func SlotsInMemory() (names []string) {
	for _, l := range Layouts() {
		if l.Model != nil && l.Model.Slots && !slices.Contains(names, l.Name()) {
			names = append(names, l.Name())
		}
	}
	return names
}

// withSlots is a model whose memories know slots, too.
func withSlots(m *Model) *Model {
	m.Slots = true
	return m
}

func leafPages() *Model {
	return &Model{Basis: "leaf pages, read past the page cache", Own: 0, Device: 0,
		Memories: func(s statemodel.State, m Memory) []statemodel.Memory {
			return statemodel.NOMT(s, m.Cache)
		},
		Divide: func(s statemodel.State, budget float64) (Memory, bool) {
			cache := statemodel.NOMTLeafCache(s, budget)
			return Memory{Cache: cache}, cache > 0
		}}
}

func logPages() *Model {
	return &Model{Basis: "pages of the log, read past the page cache", Own: 0, Device: 0,
		Memories: func(s statemodel.State, m Memory) []statemodel.Memory {
			return statemodel.QMDB(s, m.Cache)
		},
		Divide: func(s statemodel.State, budget float64) (Memory, bool) {
			cache, ok := statemodel.QMDBCache(s, budget)
			return Memory{Cache: cache}, ok
		}}
}
