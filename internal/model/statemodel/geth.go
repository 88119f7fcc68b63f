package statemodel

import (
	"math"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// GethMemory is how layouts/geth spends a budget: a ring of whole nodes or flat states
// (fastcache), Pebble's block cache, and the page cache.
type GethMemory struct {
	CleanBytes, PebbleBytes float64
	Shards                  int // of Pebble's cache
	PageCacheBytes          float64
}

// Nodes of go-ethereum's trie as RLP, in bytes: a leaf is a path and an account, of
// two hashes and two numbers; a branch has a byte for each child that is missing and
// 33 for each that is there.
const (
	gethLeafHead = 2 + 1 + 1 + 2
	gethAccount  = 2 + (1 + nonceBytes) + (1 + balanceBytes) + 2*(1+hashBytes)
	gethSlot     = 1 + slotValue
	gethBranch   = 3 + 17
	gethPerChild = hashBytes
	gethSlim     = 2 + (1 + nonceBytes) + (1 + balanceBytes) + 2 // without the two hashes
	cleanHead    = 4                                             // lengths in fastcache
	// nibbles that a key does not share with the one before
	pathPerKey = 2
	// what compression saves of an account without code
	emptyHashes    = 2 * (1 + hashBytes)
	gethHashKey    = hashBytes
	gethStorageKey = hashBytes
)

// trieNode is a sort of node: one depth's branches, or leaves.
type trieNode struct {
	count  float64
	bytes  float64 // RLP
	path   float64 // nibbles of its key
	below  float64 // keys of the subtrie under it
	visits [kinds]float64
}

// gethTrie are the branches of the account trie from the root down, its leaves, then
// the branches and the leaves of storage.
func gethTrie(s State) (branches []trieNode, leaf, slotBranch, slotLeaf trieNode) {
	below, last := s.Accounts, 0
	for d, at := range s.depths() {
		branches = append(branches, trieNode{
			count:  at.Branches,
			bytes:  gethBranch + gethPerChild*at.Children,
			path:   float64(d),
			below:  below + 1,
			visits: [kinds]float64{at.OnPath, at.OnPath, at.OnPath, at.OnPath},
		})

		if at.OnPath > .5 {
			last = d + 1
		}

		below /= 16
	}

	rest := float64(mpt.PathNibbles-last)/2 + 1
	leaf = trieNode{
		count:  s.Accounts,
		bytes:  gethLeafHead + rest + gethAccount,
		path:   float64(last),
		visits: [kinds]float64{1, 0, 1, 1},
	}

	storage := s.storageDepth()
	slots := s.contracts() * s.SlotsPer
	if slots == 0 {
		return branches, leaf, slotBranch, slotLeaf
	}

	slotBranch = trieNode{
		count:  s.contracts() * storage.branches,
		bytes:  gethBranch + gethPerChild*storage.children,
		path:   gethStorageKey,
		visits: [kinds]float64{0, 0, storage.nodes - 1, storage.nodes - 1},
	}

	slotLeaf = trieNode{
		count:  slots,
		bytes:  gethLeafHead + gethAccount/3 + gethSlot,
		path:   gethStorageKey,
		visits: [kinds]float64{0, 0, 1, 0},
	}

	return branches, leaf, slotBranch, slotLeaf
}

// clean is a node in fastcache, under a key of so many bytes.
func (n trieNode) clean(keyBytes float64, to []float64) Class {
	return Class{
		Units:     math.Max(n.count, 1e-9),
		UnitBytes: cleanHead + keyBytes + n.bytes,
		Visits:    n.visits,
		To:        to,
	}
}

// stored is what a node takes of a data block, under a key that keeps so many bytes.
func (n trieNode) stored(keyBytes float64) float64 {
	return n.count * (pebbleRecord + keyBytes + n.bytes)
}

// region is blocks of keys that lie together, what compression leaves of one, and how long one is
// before; those of a class with bytes of its own are as long as those.
type region struct {
	blocks                []Class
	fileBytes, blockBytes float64
}

// pebble joins regions under one cache, each with its index, and the file below.
// Misses above ask for blocks by their place in the joined list, as at says.
func (g GethMemory) pebble(regions ...region) []Memory {
	cache := Memory{
		Bytes:  math.Max(0, g.PebbleBytes-gethMemtables),
		Policy: ClockPro,
		Shards: g.Shards,
	}

	file := Memory{Bytes: g.PageCacheBytes}
	for _, r := range regions {
		blocks := 0.0
		for _, b := range r.blocks {
			blocks += b.Units
		}

		index := Class{Units: math.Max(1, blocks*pebbleIndexEntry/r.blockBytes)}
		for _, b := range append(r.blocks, index) {
			stored := r.fileBytes
			if b.UnitBytes > 0 { // hashes, which do not compress
				stored = b.UnitBytes
			}

			b.UnitBytes = math.Max(b.UnitBytes, r.blockBytes) + pebbleV2Charge
			cache.Classes = append(cache.Classes, b)
			file.Classes = append(file.Classes, Class{
				Units:     b.Units,
				UnitBytes: stored,
				EndToEnd:  true,
			})
		}
	}

	cache.Classes = passing(cache.Classes)
	return []Memory{cache, file}
}

// asks are the requests of one miss that a region has with chance found: its index
// block, and with chance read the shares of its blocks. first is the place of the
// region among all classes, size how many there are.
func asks(first, size int, shares []float64, found, read float64) []float64 {
	to := make([]float64, size)
	for i, share := range shares {
		to[first+i] = share * read
	}
	to[first+len(shares)] = found
	return to
}

// gethMemtables are what Pebble's cache is without after an Open that replayed a log:
// the memtable in use and the one before it, kept to be used again. The first has
// 256 KiB, each is twice the last (open.go and DB.newMemTable of Pebble v2.1.7; its
// statistics say 1.0 and 0.5 MB).
const gethMemtables = 1<<20 + 1<<19

// GethPath is the path scheme: a node lies under its path, so a data block holds a
// subtrie or a part of one, parents before children. A branch whose subtrie takes
// S bytes is in another block than the rest of a key's path with chance
//
//	mean of min(1, u * S / 4096), u even between 0 and 1
//
// and for certain if it is in another level of Pebble's: what was written last is in
// the levels above the last one.
func GethPath(s State, g GethMemory) []Memory {
	branches, leaf, _, slotLeaf := gethTrie(s)
	recent := upperShare(s.DiskBytes)
	// written with the latest of so many
	late := func(keys float64) float64 { return 1 - math.Pow(1-recent, keys) }
	bytes := leaf.stored(pathPerKey)
	for _, b := range branches {
		bytes += b.stored(pathPerKey)
	}

	perAccount := bytes / s.Accounts
	var levels [2]strewn // of accounts: above the last, and the last
	leafIn := [2]float64{late(2), 1 - late(2)}
	for i := range levels {
		units := leaf.stored(pathPerKey) * leafIn[i]
		for _, b := range branches {
			in := [2]float64{late(b.below), 1 - late(b.below)}[i]
			units += b.stored(pathPerKey) * in
			levels[i].levels = append(levels[i].levels, level{nodes: b.count * in})
		}

		levels[i].units = math.Max(1, units/pebbleBlock)
		levels[i].levels = append(levels[i].levels, level{nodes: math.Inf(1)})
	}

	upper, upperShares := levels[0].classes()
	lower, lowerShares := levels[1].classes()
	storage := s.storage(slotLeaf)
	owners := s.owners(branches, &leaf, levels[0].units+levels[1].units)
	size := len(upper) + len(lower) + len(storage.blocks) + len(owners.blocks) + 4
	lowerAt, slotsAt := len(upper)+1, len(upper)+len(lower)+2
	ownersAt := slotsAt + len(storage.blocks) + 1
	both := func(d int, in, up, down float64) []float64 {
		to := asks(0, size, upperShares[d], in, up)
		for i, share := range asks(lowerAt, size, lowerShares[d], 1-in, down) {
			to[i] += share
		}
		return to
	}

	clean := Memory{Bytes: g.CleanBytes, Policy: FIFO}
	asked, again := 1.0, 0.0
	for d, b := range branches {
		near := 1 - evenly(b.below*perAccount/pebbleBlock)
		in := late(b.below)
		up, down := in*(1-leafIn[0]*near), (1-in)*(1-leafIn[1]*near)
		clean.Classes = append(clean.Classes, b.clean(b.path, both(d, in, up, down)))
		asked, again = asked+b.visits[Account]*(up+down), again+b.visits[Account]*(1-up-down)
		// An absent account's path ends at a branch: no leaf asks for that one's block.
		ends := b.visits[Account]
		if d+1 < len(branches) {
			ends -= branches[d+1].visits[Account]
		}

		for i := range upper {
			upper[i].Visits[AbsentAccount] += ends * (in - up) * upperShares[d][i]
			lower[i].Visits[AbsentAccount] += ends * (1 - in - down) * lowerShares[d][i]
		}
	}

	for i := range upper {
		upper[i].Again, lower[i].Again = again/asked, again/asked
	}

	clean.Classes = append(clean.Classes,
		leaf.clean(leaf.path, both(len(branches), leafIn[0], leafIn[0], leafIn[1])))
	clean.Classes = append(clean.Classes, storage.clean(slotsAt, size)...)
	clean.Classes = append(clean.Classes, owners.clean(ownersAt, size)...)

	fileBytes := pebbleBlock * (1 - emptyHashes*(1-s.ContractShare)/perAccount)
	return append([]Memory{clean},
		g.pebble(region{upper, fileBytes, pebbleBlock}, region{lower, fileBytes, pebbleBlock},
			region{storage.blocks, pebbleBlock, pebbleBlock},
			region{owners.blocks, fileBytes, pebbleBlock})...)
}

// subtries are nodes by depth, leaves last, and the blocks that they lie in by their paths: a node
// and what is below it are neighbours.
type subtries struct {
	nodes  []trieNode
	apart  []float64 // of each depth, the chance that its block is not that of what is below
	shares [][]float64
	blocks []Class
}

// newSubtries lets the nodes lie in so many blocks; bytes are those below each of them.
func newSubtries(nodes []trieNode, blocks float64, bytes func(trieNode) float64) (t subtries) {
	t.nodes = nodes
	leaf := len(nodes) - 1
	in := strewn{units: math.Max(1, blocks)}
	for _, n := range nodes[:leaf] {
		in.levels = append(in.levels, level{nodes: n.count})
		t.apart = append(t.apart, evenly(bytes(n)/pebbleBlock))
	}

	in.levels = append(in.levels, level{nodes: math.Inf(1)})
	t.apart = append(t.apart, 1)
	t.blocks, t.shares = in.classes()

	asked, again := 1.0, 0.0
	for d, n := range nodes[:leaf] {
		near := 1 - t.apart[d]
		asked, again = asked+n.visits[Slot]*t.apart[d], again+n.visits[Slot]*near
		if nodes[leaf].visits[AbsentSlot] > 0 {
			continue
		}

		// The path of an absent slot ends at a branch: no leaf asks for that one's block.
		ends := n.visits[AbsentSlot]
		if d+1 < leaf {
			ends -= nodes[d+1].visits[AbsentSlot]
		}

		for i := range t.blocks {
			t.blocks[i].Visits[AbsentSlot] += ends * near * t.shares[d][i]
		}
	}

	for i := range t.blocks {
		t.blocks[i].Again = again / asked
	}

	return t
}

// clean are the nodes in fastcache, whose misses ask for the blocks from a place on.
func (t subtries) clean(at, size int) (classes []Class) {
	for d, n := range t.nodes {
		classes = append(classes, n.clean(n.path, asks(at, size, t.shares[d], 1, t.apart[d])))
	}
	return classes
}

// storage are the nodes of all contracts' storage.
func (s State) storage(leaf trieNode) subtries {
	bytes := leaf.stored(pathPerKey)
	var nodes []trieNode
	below := s.SlotsPer
	for _, at := range mpt.ExpectedDepths(s.SlotsPer) {
		if at.OnPath < 1e-6 || leaf.count == 0 {
			break
		}

		n := trieNode{
			count:  s.contracts() * at.Branches,
			bytes:  gethBranch + gethPerChild*at.Children,
			path:   gethStorageKey,
			below:  below,
			visits: [kinds]float64{Slot: at.OnPath, AbsentSlot: at.OnPath},
		}
		nodes, below, bytes = append(nodes, n), below/16, bytes+n.stored(pathPerKey)
	}

	perSlot := bytes / math.Max(1, leaf.count)
	return newSubtries(append(nodes, leaf), bytes/pebbleBlock, func(n trieNode) float64 {
		return n.below * perSlot
	})
}

// fewOwners is the share of the accounts' blocks up to which contracts are few: their accounts and
// what is above them are asked for by all lookups of slots, and lie in as many blocks.
const fewOwners = .1

// owners are the nodes above the accounts of contracts, where those are few; otherwise slots are
// looked up below accounts like any other. It takes the visits of the others' nodes for slots.
func (s State) owners(branches []trieNode, leaf *trieNode, blocks float64) subtries {
	contracts := math.Max(1, s.contracts())
	few := s.SlotsPer > 0 && contracts < fewOwners*blocks
	var nodes []trieNode
	move := func(n *trieNode) {
		of := *n
		of.visits[Account], of.visits[AbsentAccount] = 0, 0
		of.count = math.Max(1e-9, n.count*-math.Expm1(-contracts/n.count))
		if few {
			n.visits[Slot], n.visits[AbsentSlot] = 0, 0
		} else {
			of.count, of.visits = 1e-9, [kinds]float64{}
		}
		nodes = append(nodes, of)
	}
	for d := range branches {
		move(&branches[d])
	}
	move(leaf)
	if !few {
		contracts = 1e-9
	}

	perAccount := pebbleBlock * blocks / s.Accounts
	return newSubtries(nodes, contracts, func(n trieNode) float64 { return n.below * perAccount })
}

// upperShare is what Pebble keeps above the last level of a database of that size: the
// base level has 64 MiB, each below it is larger by one factor, at most 10, and the
// last has nine tenths if there is no other way.
func upperShare(bytes float64) float64 {
	const base, maximum = 64 << 20, 10
	last := .9 * bytes
	if last <= base {
		return 0
	}

	levels := math.Ceil(math.Log(last/base) / math.Log(maximum))
	factor, above, level := math.Pow(last/base, 1/levels), 0.0, float64(base)
	for range int(levels) {
		above += level
		level *= factor
	}

	return math.Min(1, above/(above+last))
}

// evenly is the mean of min(1, u*x) for u even between 0 and 1.
func evenly(x float64) float64 {
	if x <= 1 {
		return x / 2
	}
	return 1 - 1/(2*x)
}

// GethHash is the hash scheme: nodes lie under their hashes, live and dead, each in any
// data block of its level: what was written last is above the last level. What the
// files take says how many blocks there are.
func GethHash(s State, g GethMemory) []Memory {
	branches, leaf, slotBranch, slotLeaf := gethTrie(s)
	// a leaf is written anew when another makes it deeper
	leaf.below, slotBranch.below, slotLeaf.below = 2, 2, 1
	nodes := append(branches, slotBranch, slotLeaf, leaf)
	saved := emptyHashes * (1 - s.ContractShare) * s.Accounts
	recent, units := upperShare(s.DiskBytes), (s.DiskBytes+saved)/pebbleBlock
	in := func(n trieNode) [2]float64 {
		earlier := math.Pow(1-recent, n.below)
		return [2]float64{1 - earlier, earlier}
	}

	levels := [2]strewn{{units: math.Max(1, units*recent)}, {units: math.Max(1, units*(1-recent))}}
	for i := range levels {
		for _, b := range branches {
			levels[i].levels = append(levels[i].levels, level{nodes: b.count * in(b)[i]})
		}
		levels[i].levels = append(levels[i].levels, level{nodes: math.Inf(1)})
	}

	upper, upperShares := levels[0].classes()
	lower, lowerShares := levels[1].classes()
	size := len(upper) + len(lower) + 2
	clean := Memory{Bytes: g.CleanBytes, Policy: FIFO}
	for i, n := range nodes {
		d, found := min(i, len(branches)), in(n)
		to := asks(0, size, upperShares[d], found[0], found[0])
		for j, share := range asks(len(upper)+1, size, lowerShares[d], found[1], found[1]) {
			to[j] += share
		}

		clean.Classes = append(clean.Classes, n.clean(gethHashKey, to))
	}

	fileBytes := s.DiskBytes / units
	return append([]Memory{clean},
		g.pebble(region{upper, fileBytes, pebbleBlock}, region{lower, fileBytes, pebbleBlock})...)
}

// GethFlat is the flat state that the path scheme keeps: one key an account or slot, in
// the order of hashes.
func GethFlat(s State, g GethMemory) []Memory {
	records := func(count, key, value float64) region {
		key -= math.Log(math.Max(1, count)) / math.Log(256)
		return region{[]Class{{Units: math.Max(1, count*(pebbleRecord+key+value)/pebbleBlock)}},
			pebbleBlock, pebbleBlock}
	}

	slots := s.contracts() * s.SlotsPer
	slim := gethSlim + 2*hashBytes*s.ContractShare
	accounts := trieNode{count: s.Accounts, bytes: slim, visits: [kinds]float64{1, 1, 0, 0}}
	stored := trieNode{count: slots, bytes: gethSlot, visits: [kinds]float64{0, 0, 1, 1}}
	clean := Memory{Bytes: g.CleanBytes, Policy: FIFO, Classes: []Class{
		accounts.clean(hashBytes, asks(0, 4, []float64{1}, 1, 1)),
		stored.clean(2*hashBytes, asks(2, 4, []float64{1}, 1, 1)),
	}}

	return append([]Memory{clean},
		g.pebble(records(s.Accounts, accountKey, slim),
			records(slots, slotKey-hashBytes, gethSlot))...)
}
