package layouts

import (
	"math"

	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/internal/statemodel"
)

// pinnedDepth is the nibble depth to which the chunk trie keeps nodes in memory, if it
// can.
const pinnedDepth = 5

// expectedChunkReads is what a lookup of a present account reads of a chunk trie: one
// read for every node below the pinned ones, the leaf included.
//
//	1 + SUM over d > pinnedDepth of 1 - (1 - 16^-d)^(n-1)
func expectedChunkReads(n float64) float64 {
	reads := 1.0
	for d := pinnedDepth + 1; d < 64; d++ {
		reads += -math.Expm1((n - 1) * math.Log1p(-math.Pow(16, -float64(d))))
	}
	return reads
}

// expected is what formulas say of a lookup of a present account without a cache: the
// nodes of Ethereum's trie for a layout that walks it, and the reads of those that
// have a formula.
func expected(layout string, walks bool, s statemodel.State) (nodes, reads *float64, basis string) {
	if !walks {
		return nil, nil, ""
	}
	folded, chunks := mpt.ExpectedFoldedNodes(s.Accounts), expectedChunkReads(s.Accounts)
	switch layout {
	case "chunktrie":
		return &folded, &chunks, "nodes below the pinned depth, one read each"
	case "chunktrie:unpinned":
		return &folded, &folded, "one read for every node"
	case "pagetrie":
		if pages, ok := statemodel.Pages(s); ok {
			return &folded, &pages, "pages by simulated splits"
		}
		return &folded, nil, ""
	}
	extended := mpt.ExpectedNodes(s.Accounts)
	return &extended, nil, ""
}
