package statemodel

import (
	"math"
	"math/rand/v2"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// pathNodes are the nodes that a lookup in a trie gets, from the root down: where each
// lies among the trie's keys, of a key at x between 0 and 1, and when it was written, by
// how many keys below it. A lookup of an absent key may end at the leaf of another.
func pathNodes(
	random *rand.Rand, x, keys float64, present bool, yield func(x float64, below int, w writes),
) {
	wide, others, above := 1.0, int(keys), 0
	if present {
		others--
	}

	for others > 1 || present && others == 1 {
		below := others
		if present {
			below++
		}

		yield(math.Floor(x*wide)/wide, below, writes{latest: float64(below)})
		wide, above, others = wide*16, others, oneIn16(random, others)
	}

	if present || others == 1 {
		if !present {
			above-- // the leaf's own key
		}
		yield(math.Floor(x*wide)/wide, 1, writes{pushed: float64(above)})
	}
}

// oneIn16 is how many of the keys below a branch are below the same child.
func oneIn16(random *rand.Rand, keys int) (n int) {
	if keys > 1000 {
		return keys / 16
	}

	for range keys {
		if random.IntN(16) == 0 {
			n++
		}
	}

	return n
}

// walk yields the nodes of a lookup: whether each is of storage, its place, by how many keys it
// was written, and how long ago in all writes. The one contract was changed by one of the last
// blocks, and with it the path to it.
func (t *tables) walk(
	random *rand.Rand, s State, kind Kind, yield func(slot bool, x float64, w writes, age float64),
) {
	slot, age, account := kind == Slot || kind == AbsentSlot, random.Float64(), random.Float64()
	if slot && s.ContractAt > 0 {
		account = s.ContractAt
	}

	pathNodes(random, account, s.Accounts, kind != AbsentAccount, func(x float64, _ int, w writes) {
		if slot && s.UpdateBlocks > 1 && !s.Grown {
			age = 0
		}
		yield(false, x, w, age)
	})

	if slot {
		age = random.Float64()
		pathNodes(random, random.Float64(), s.SlotsPer, kind == Slot, func(
			x float64, below int, w writes,
		) {
			if !s.Grown {
				w = s.slotWrites(float64(below))
			}
			yield(true, x, w, age)
		})
	}
}

// FirstGethHash is what the first lookup reads of the hash scheme's nodes, which lie
// anywhere among all that were ever written.
func FirstGethHash(s State, kind Kind) Reads {
	t := hashTables(s)
	return t.first(func(random *rand.Rand) {
		t.walk(random, s, kind, func(_ bool, _ float64, w writes, age float64) {
			x := random.Float64()
			t.get(random, 0, x, t.levelOf(0, x, w, age))
		})
	})
}

// hashTables have been opened, which reads the head's number.
func hashTables(s State) *tables {
	nodes, all := s.hashNodes()
	t := tablesOf(nodes, stretch{parts: []part{all}})
	t.open = func(t *tables) { t.get(nil, 0, headHashed, 0) }
	return t
}

// headHashed is where the head's key, which begins with an s, lies among hashes.
const headHashed = 's' / 256.

// manyBlocks are so many blocks of a build that one can stand for its neighbours.
const manyBlocks = 10_000

// hashNodes are the nodes that the build and the updates wrote: of each block the branches
// on the paths of its keys once, a leaf for each, and one for a neighbour that has to give
// way.
func (s State) hashNodes() (nodes float64, of part) {
	leaves, all := 0.0, part{writes: once}
	store := func(n, bytes float64) {
		nodes += n
		p := records(n, pebbleRecord+hashBytes+bytes, 0, once)
		all.raw, all.stored = all.raw+p.raw, all.stored+p.stored
	}

	add := func(keys, changed, blocks, leafBytes float64, grows bool) {
		if keys < 1 || changed < 1 {
			return
		}

		for _, at := range (State{Accounts: keys}).depths() {
			if at.Branches > 0 {
				store(blocks*at.Branches*-math.Expm1(-changed*at.OnPath/at.Branches),
					gethBranch+gethPerChild*at.Children)
			}
		}

		if grows {
			changed *= 1 + givingWay
			leaves += blocks * changed
		}

		store(blocks*changed, leafBytes)
	}

	rest := float64(mpt.PathNibbles)/2 - math.Log2(math.Max(2, s.Accounts))/8
	account := gethLeafHead + rest + gethAccount
	slot := gethLeafHead + gethAccount/3 + gethSlot
	// Of many blocks, some stand for all.
	step := s.BlockAccounts * math.Max(1, math.Floor(s.Accounts/s.BlockAccounts/manyBlocks))
	for made := step; made < s.Accounts+step; made += step {
		keys := math.Min(made, s.Accounts)
		changed, blocks := s.BlockAccounts-(made-keys), 1.0
		if step > s.BlockAccounts {
			changed, blocks = s.BlockAccounts, (step-(made-keys))/s.BlockAccounts
		}

		add(keys, changed, blocks, account, true)
	}

	add(s.SlotsPer, s.SlotsPer, math.Floor(s.contracts()+.5), slot, false)

	for n := range int(s.UpdateBlocks) {
		if s.SlotsPer > 0 && s.contracts() <= 1.5 && n%2 == 1 {
			add(s.SlotsPer, s.UpdateKeys, 1, slot, false)
			add(s.Accounts, 1, 1, account, false)
		} else {
			add(s.Accounts, s.UpdateKeys, 1, account, false)
		}
	}

	saved := savedOf(pebbleBlock/(all.raw/nodes), leaves/nodes,
		emptyHashes*(1-s.ContractShare)) / pebbleBlock
	all.stored -= all.raw * saved
	return nodes, all
}

// savedOf is what compression saves in the mean of a block with so many records, of which a
// share can be made so many bytes smaller: nothing, unless an eighth of the block.
func savedOf(records, share, bytes float64) float64 {
	mean, deviation := records*share*bytes, math.Sqrt(records*share*(1-share))*bytes
	over := (mean - pebbleBlock/8) / math.Max(1, deviation)
	return mean*(1+math.Erf(over/math.Sqrt2))/2 +
		deviation*math.Exp(-over*over/2)/math.Sqrt(2*math.Pi)
}

// Regions of the path scheme's database, in the order of its keys: nodes by their paths,
// then the flat state.
const (
	accountNodes = iota
	slotNodes
	flatAccounts
)

// pathTables have been opened, which reads the root, the number of the state, which lies
// before the nodes of storage, the root of the flat state before that, and the head.
func pathTables(s State) *tables {
	branches, leaf, slotBranch, slotLeaf := gethTrie(s)
	nodesOf := func(n trieNode, saved float64, w writes) part {
		return records(n.count, pebbleRecord+pathPerKey+n.bytes, saved, w)
	}
	var nodes []part
	keys := leaf.count + slotBranch.count + slotLeaf.count
	below, depths := s.Accounts, s.depths()
	for d, at := range depths {
		nodes, keys = append(nodes,
			nodesOf(branches[d], 0, writes{latest: aboveTwo(below), again: true})),
			keys+branches[d].count
		leaves := s.Accounts * at.OnPath
		if d+1 < len(depths) {
			leaves -= s.Accounts * depths[d+1].OnPath
		}

		// Of the leaf's parent, one in sixteen keys is below the same child.
		others, one := below*15/16, 0.0
		if others < 30 {
			one = others / math.Expm1(others)
		}

		leaf.count = leaves * one
		nodes = append(nodes, nodesOf(leaf, emptyHashes*(1-s.ContractShare), writes{pushed: 1}))
		leaf.count = leaves - leaf.count
		nodes = append(nodes,
			nodesOf(leaf, emptyHashes*(1-s.ContractShare), writes{pushed: math.Max(2, others)}))
		below /= 16
	}

	flat := func(n, key, value, shared float64, w writes) stretch {
		return stretch{
			parts: []part{records(n,
				pebbleRecord+key-math.Log(math.Max(1, n))/math.Log(256)+value, 0, w)},
			shared: shared,
		}
	}

	slots := s.contracts() * s.SlotsPer
	t := tablesOf(
		keys+s.Accounts+slots,
		stretch{parts: nodes},
		stretch{
			parts: append(s.slotBranches(nodesOf, slotBranch),
				nodesOf(slotLeaf, 0, s.slotWrites(1))),
			shared: hashBytes,
		},
		flat(s.Accounts, accountKey, gethSlim+2*hashBytes*s.ContractShare, 0, once),
		flat(slots, slotKey-hashBytes, gethSlot, hashBytes, s.slotWrites(1)),
	)

	t.open = func(t *tables) {
		t.get(nil, accountNodes, 0, 0)
		t.get(nil, slotNodes, 0, 0)
		t.get(nil, flatAccounts, 0, 0)
		t.get(nil, flatAccounts+1, 1, 0)
	}

	return t
}

// aboveTwo is the mean number of keys below a branch, which has two at least, where places like
// its own have so many in the mean.
func aboveTwo(keys float64) float64 {
	none := math.Exp(-keys)
	return (keys - keys*none) / math.Max(1e-12, 1-none-keys*none)
}

// slotBranches are parts of the contracts' branches by depth: those higher up are above more
// slots, and so were changed more often.
func (s State) slotBranches(
	nodesOf func(trieNode, float64, writes) part, mean trieNode,
) (parts []part) {
	for d, at := range mpt.ExpectedDepths(s.SlotsPer) {
		if at.Branches > 0 {
			mean.count = s.contracts() * at.Branches
			mean.bytes = gethBranch + gethPerChild*at.Children
			w := s.slotWrites(math.Max(2, s.SlotsPer/math.Pow(16, float64(d))))
			w.again = s.Grown // older versions lie below
			parts = append(parts, nodesOf(mean, 0, w))
		}
	}

	return parts
}

// FirstGethPath is what the first lookup reads of the path scheme.
func FirstGethPath(s State, kind Kind) Reads {
	t := pathTables(s)
	return t.first(func(random *rand.Rand) {
		t.walk(random, s, kind, func(slot bool, x float64, w writes, age float64) {
			region := accountNodes
			if slot {
				region = slotNodes
			}
			t.get(random, region, x, t.levelOf(region, x, w, age))
		})
	})
}

// FirstGethFlat is what the first lookup reads of the flat state beside it.
func FirstGethFlat(s State, kind Kind) Reads {
	t := pathTables(s)
	return t.first(func(random *rand.Rand) { t.getFlat(random, s, kind, flatAccounts) })
}

// FirstFlatMDBX is what the first lookup of a flat table in a B-tree faults in after
// opening, which has read the way to the block's number: it lies between accounts and
// slots. A page that is on both ways is there.
func FirstFlatMDBX(s State, kind Kind) Reads {
	room := mdbxPageBytes * filled
	slots := s.contracts() * s.SlotsPer
	var accountPages, slotPages []float64 // of each level, leaves first
	a, b := s.Accounts*(mdbxRecord+accountKey+s.accountValue())/room,
		slots*(mdbxRecord+slotKey+slotValue)/room
	for {
		accountPages, slotPages = append(accountPages, a), append(slotPages, b)
		if a+b <= 1 {
			break
		}
		a, b = a*(mdbxRecord+accountKey)/room, b*(mdbxRecord+slotKey)/room
	}

	return drawn(1, func(random *rand.Rand) func() float64 {
		// the page of each level that opening has read; the root is there
		opened := make([]span, len(accountPages)-1)
		for level := range opened {
			opened[level] = pageAt(random, accountPages[level],
				accountPages[level]+slotPages[level])
		}

		return func() (reads float64) {
			x := random.Float64()
			for level, page := range opened {
				at := x * accountPages[level]
				if kind == Slot || kind == AbsentSlot {
					at = accountPages[level] + x*slotPages[level]
				}

				if at < page.from || at >= page.from+page.wide {
					reads++
				}
			}

			return reads
		}
	})
}

// pageAt is the page at a place of a level that takes so many pages in the mean. Pages are
// from half full to full, and the first and the last end where the level does: of few
// pages, the last one is as wide as any other, however little lies behind the place.
func pageAt(random *rand.Rand, at, pages float64) span {
	const many = 1000
	if pages > many { // no end matters
		wide := (.5 + random.Float64()/2) / .75
		return span{from: at - random.Float64()*wide, wide: wide}
	}

	widths := make([]float64, max(1, int(pages+random.Float64())))
	for i := range widths {
		widths[i] = .5 + random.Float64()/2
	}

	scale := pages / sum(widths)
	page := span{}
	for _, wide := range widths {
		page.from, page.wide = page.from+page.wide, wide*scale
		if at < page.from+page.wide {
			break
		}
	}

	return page
}
