package statemodel

import (
	"math"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// Nodes of layouts/chunktrie, in bytes, and branches kept in memory, in words (node.go and
// pins.go there).
const (
	chunkHeaderBytes   = 20
	chunkPerChildBytes = 26 + hashBytes
	chunkBuffersBytes  = 2 << 20
	pinHeadWords       = 2
	pinnedLevels       = 6
)

// Pinned is what branches of nibble depth 0 to 5 take of a budget: a word for each
// child and two more, as long as a sixteenth of the budget is left.
func Pinned(s State, budgetBytes float64) (bytes float64) {
	for d, at := range mpt.ExpectedDepths(s.Accounts) {
		if d < pinnedLevels {
			bytes += pinBytes(at)
		}
	}
	return math.Max(0, math.Min(bytes, (budgetBytes-chunkBuffersBytes)*15/16))
}

func pinBytes(at mpt.Depth) float64 { return math.Max(8, 8*at.Branches*(pinHeadWords+at.Children)) }

// UnpinnedNodes is what a lookup of a present account among n reads of a chunk trie: one read for
// every node below the pinned ones, the leaf included.
//
//	1 + SUM over d >= pinnedLevels of 1 - (1 - 16^-d)^(n-1)
func UnpinnedNodes(n float64) float64 {
	reads := 1.0
	for d := pinnedLevels; d < 64; d++ {
		reads += -math.Expm1((n - 1) * math.Log1p(-math.Pow(16, -float64(d))))
	}
	return reads
}

// ChunkTrie are the reads of nodes that are not pinned, and the pages of the page cache
// that they lie in. Pins fill level after level from the root on.
//
// A block writes the nodes on the way to its edits, children before their parent: a
// page holds a few leaves and what is above them. Early blocks wrote fewer branches
// for an account than late ones, so the file is taken in ages of as many accounts
// each. A leaf was last written with itself or with the neighbour that made it as
// deep, whichever came later: the later of two is before age t with chance t*t. A
// branch with m keys below it was last written with the latest of them: t^m.
//
// A branch lies behind the child written last. With one other key below it both
// leaves were written with it: it costs no other page. With j others it is so for one
// of j+1; j is Poisson with mean N / 16^d.
func ChunkTrie(s State, pinnedBytes, pageCacheBytes float64) []Memory {
	var reads [kinds]float64
	met := s.depths()
	read := make([]float64, len(met)) // share of the branches that are not pinned
	for d, at := range met {
		read[d] = 1 - math.Min(1, pinnedBytes/pinBytes(at))
		pinnedBytes -= (1 - read[d]) * pinBytes(at)
		for kind := range kinds {
			reads[kind] += read[d] * at.OnPath
		}
	}

	storage := s.storageDepth()
	reads[Account]++
	other := otherLeaf(s.Accounts)
	reads[AbsentAccount] += other
	reads[Slot] += 1 + storage.nodes
	reads[AbsentSlot] += storage.nodes
	// The storage trie is written just before its account's leaf, half of it away.
	slot := 1 + math.Min(1, s.chunkStorageBytes()/2/pageBytes)
	pages := s.chunkPages()
	var classes []Class
	for i, written := range pages {
		share := func(keys float64) float64 { // of what was last written with the latest of so many
			return math.Pow(float64(i+1)/ages, keys) - math.Pow(float64(i)/ages, keys)
		}
		leaves := s.Accounts * share(2)
		file := strewn{units: written * -math.Expm1(-leaves/written), unitBytes: pageBytes}
		below := s.Accounts
		for d, at := range met {
			if here := share(below+1) * read[d]; here > 1e-9 {
				apart := at.OnPath * farFromParent(below) * here
				file.levels = append(file.levels, level{
					nodes:  at.Branches * here,
					visits: [kinds]float64{apart, apart, apart, apart},
				})
			}

			below /= 16
		}

		here := leaves / s.Accounts
		file.levels = append(file.levels, level{
			nodes:  math.Inf(1),
			visits: [kinds]float64{here, other * here, slot * here, slot * here},
		})

		of, _ := file.classes()
		classes = append(classes, of...)
	}

	// What the layout counts: nodes, with no cache above the page cache.
	nodes := []Class{{Units: 1, UnitBytes: 1, Visits: reads, To: make([]float64, len(classes))}}
	return []Memory{{Classes: nodes}, {Bytes: pageCacheBytes, Classes: classes}}
}

const ages = 10

// otherLeaf is the chance that the path of an absent key ends at the leaf of another: of
// the keys that share its first d nibbles, Poisson with mean m = N / 16^d, one alone
// shares the next.
//
//	SUM over d of m/16 * (exp(-m/16) - exp(-m))
func otherLeaf(n float64) (chance float64) {
	for m := n; m > 1e-9; m /= 16 {
		chance += m / 16 * (math.Exp(-m/16) - math.Exp(-m))
	}
	return chance
}

// chunkPages are the pages that each age of the build wrote, as many of them as the
// files are long: compaction gives room back.
func (s State) chunkPages() []float64 {
	pages := make([]float64, ages)
	for i := range pages {
		accounts := s.Accounts * (float64(i) + .5) / ages
		pages[i] = s.Accounts / ages * s.chunkBytesPerAccount(accounts) / pageBytes
	}

	left := math.Min(1, s.DiskBytes/pageBytes/sum(pages))
	for i := range pages {
		pages[i] *= left
	}

	return pages
}

// chunkBytesPerAccount is what a block of the build writes for each of its accounts
// when there are n: the branches on their paths once for all, the leaf, that of a
// neighbour that has to give way, and storage. In a trie of n keys paths grow by 1 /
// ln 16 levels when n grows by as much again, a neighbour gives way for 16/15 of one.
func (s State) chunkBytesPerAccount(n float64) (bytes float64) {
	for _, at := range (State{Accounts: n}).depths() {
		if at.Branches > 0 {
			touched := at.Branches * -math.Expm1(-s.BlockAccounts*at.OnPath/at.Branches)
			bytes += touched / s.BlockAccounts * (chunkHeaderBytes + chunkPerChildBytes*at.Children)
		}
	}

	leaf := chunkHeaderBytes + hashBytes - math.Log2(n)/8 + 2 + nonceBytes + balanceBytes +
		s.ContractShare*(hashBytes+chunkPerChildBytes)
	return bytes + (1+givingWay)*leaf + s.ContractShare*s.chunkStorageBytes()
}

// givingWay is how many neighbours a new key makes deeper, in the mean.
const givingWay = 15. / 16 / (4 * math.Ln2)

// chunkStorageBytes are the nodes of a contract's storage.
func (s State) chunkStorageBytes() float64 {
	t := s.storageDepth()
	return s.SlotsPer*(chunkHeaderBytes+hashBytes+slotValue) +
		t.branches*(chunkHeaderBytes+chunkPerChildBytes*t.children)
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
