package statemodel

import (
	"math"

	"github.com/statelab/statelab/internal/mpt"
)

// Nodes of trees/chunktrie, in bytes (node.go there).
const (
	chunkHeaderBytes   = 20
	chunkPerChildBytes = 26 + hashBytes
	chunkBuffersBytes  = 2 << 20
	pinOverheadBytes   = 64
	mostPinnedLevels   = 6
)

// PinnedLevels are the levels of nibble depth 0 and below that fit into a budget, and
// what they take: level by level, the last that does not fit not at all.
//
//	SUM over branches of header + children * (58 + 8) + 64
func PinnedLevels(s State, budgetBytes float64) (levels int, bytes float64) {
	for d, at := range mpt.ExpectedDepths(s.Accounts) {
		level := at.Branches * (chunkHeaderBytes + at.Children*(chunkPerChildBytes+8) + pinOverheadBytes)
		if d == mostPinnedLevels || bytes+level > budgetBytes-chunkBuffersBytes {
			return d, bytes
		}
		bytes += level
	}
	return mostPinnedLevels, bytes
}

// ChunkTrie are the reads of nodes below the pinned levels, and the pages of the page
// cache that they lie in.
//
// A block writes the nodes on the way to its edits, children before their parent, so
// pages hold nodes of all depths; of the file's pages those with a live leaf count:
//
//	pages * (1 - exp(-accounts / pages))
//
// A branch lies behind the child written last. With one other key below it both
// leaves were written with it: it costs no other page. With j others it is so for one
// of j+1; j is Poisson with mean N / 16^d.
func ChunkTrie(s State, pinned int, pageCacheBytes float64) []Memory {
	pages := s.DiskBytes / pageBytes
	pages *= -math.Expm1(-s.Accounts / pages)
	var reads [kinds]float64
	file := strewn{units: pages, unitBytes: pageBytes}
	subtrie := s.Accounts
	for d, at := range s.depths() {
		if d >= pinned {
			met := at.OnPath
			apart := met * farFromParent(subtrie)
			l := level{nodes: at.Branches, visits: [kinds]float64{apart, apart, apart, apart}}
			file.levels = append(file.levels, l)
			for kind := range kinds {
				reads[kind] += met
			}
		}
		subtrie /= 16
	}
	// The storage trie is written just before its account's leaf, half of it away.
	storage := s.storageDepth()
	bytes := s.SlotsPer*(chunkHeaderBytes+hashBytes+slotValue) + storage.branches*(chunkHeaderBytes+chunkPerChildBytes*storage.children)
	slot := 1 + math.Min(1, bytes/2/pageBytes)
	file.levels = append(file.levels, level{nodes: math.Inf(1), visits: [kinds]float64{1, 0, slot, slot}})
	reads[Account]++
	reads[Slot] += 1 + storage.nodes
	reads[AbsentSlot] += storage.nodes
	classes, _ := file.classes()
	// What the layout counts: nodes, with no cache above the page cache.
	nodes := []Class{{Units: 1, UnitBytes: 1, Visits: reads, To: make([]float64, len(classes))}}
	return []Memory{{Classes: nodes}, {Bytes: pageCacheBytes, Classes: classes}}
}

// farFromParent is the chance that a branch on a key's path is not on the page of what
// it leads to, if one of j others, Poisson with mean m, makes it stand there:
//
//	SUM over j >= 2 of P(j) * (1 - 1/(j+1)) / SUM over j >= 1 of P(j)
func farFromParent(m float64) float64 {
	if m < 1e-3 {
		return m / 3 // two others of three keys
	}
	none, one := math.Exp(-m), m*math.Exp(-m)
	two := m * m / 2 * math.Exp(-m)
	newest := (1 - none - one - two) / m
	return (1 - none - one - newest) / (1 - none)
}

// storageTrie is a contract's trie in the mean.
type storageTrie struct{ branches, children, nodes float64 }

func (s State) storageDepth() (t storageTrie) {
	if s.SlotsPer < 1 {
		return t
	}
	t.nodes = mpt.ExpectedFoldedNodes(s.SlotsPer)
	for _, at := range mpt.ExpectedDepths(s.SlotsPer) {
		t.branches += at.Branches
		t.children += at.Branches * at.Children
	}
	if t.branches > 0 {
		t.children /= t.branches
	}
	return t
}
