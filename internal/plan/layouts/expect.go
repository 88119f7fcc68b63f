package layouts

import (
	"math"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/internal/model/statemodel"
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
func expected(layout string, s statemodel.State) (nodes, reads *float64, basis string) {
	some := func(v float64) *float64 { return &v }
	folded := some(mpt.ExpectedFoldedNodes(s.Accounts))
	switch layout {
	case "chunktrie":
		return folded, some(expectedChunkReads(s.Accounts)), "nodes below the pinned depth, one read each"
	case "chunktrie:unpinned":
		return folded, folded, "one read for every node"
	case "pagetrie":
		if pages, ok := statemodel.Pages(s); ok {
			return folded, &pages, "pages by simulated splits"
		}
		return folded, nil, ""
	case "triedb": // by the model of pagetrie, which is after it
		if pages, ok := statemodel.Pages(s); ok {
			return nil, &pages, "pages by simulated splits of pagetrie"
		}
	case "geth-path", "geth-hash":
		return some(mpt.ExpectedNodes(s.Accounts)), nil, ""
	case "nomt":
		return nil, &statemodel.Steady(statemodel.NOMT(s, 0), statemodel.Account)[0], "one leaf page"
	case "nomt:prove":
		return nil, some(statemodel.NOMTProof(s)), "stored pages of the trie, and the leaf"
	case "qmdb":
		return nil, &statemodel.Steady(statemodel.QMDB(s, 0), statemodel.Account)[0], "the page of the newest operation"
	}
	return nil, nil, ""
}
