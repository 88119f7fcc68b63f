package statemodel

import (
	"math"
	"math/rand/v2"

	"github.com/statelab/statelab/internal/chain/mpt"
)

// pathNodes are the nodes that a lookup in a trie gets, from the root down: where each
// lies among the trie's keys, of a key at x between 0 and 1, and with the latest of how many keys it was
// written last. A present key has a leaf.
func pathNodes(random *rand.Rand, x, keys float64, present bool, yield func(x, written float64)) {
	on, depth := random.Float64(), 0
	for d, at := range mpt.ExpectedDepths(keys) {
		if on >= at.OnPath {
			break
		}
		wide := math.Pow(16, float64(d))
		others := keys / wide
		yield(math.Floor(x*wide)/wide, 1+others/-math.Expm1(-others)) // one other at least
		depth = d + 1
	}
	if present {
		wide := math.Pow(16, float64(depth))
		yield(math.Floor(x*wide)/wide, 2) // with itself or the neighbour that made it as deep
	}
}

// walk yields the nodes of a lookup: whether each is of storage, its place and level. The
// one contract was changed by one of the last blocks, and with it the path to it.
func (t *tables) walk(random *rand.Rand, s State, kind Kind, yield func(slot bool, x float64, found int)) {
	slot, age, account := kind == Slot || kind == AbsentSlot, random.Float64(), random.Float64()
	if slot && s.ContractAt > 0 {
		account = s.ContractAt
	}
	pathNodes(random, account, s.Accounts, kind != AbsentAccount, func(x, written float64) {
		found := t.levelOf(written, age)
		if slot && s.UpdateBlocks > 1 {
			found = 0
		}
		yield(false, x, found)
	})
	if slot {
		age = random.Float64()
		pathNodes(random, random.Float64(), s.SlotsPer, kind == Slot, func(x, written float64) { yield(true, x, t.slotLevelOf(s, written, age)) })
	}
}

// FirstGethHash is what the first lookup reads of the hash scheme's nodes, which lie
// anywhere among all that were ever written.
func FirstGethHash(s State, kind Kind) Reads {
	nodes, bytes := s.hashNodes()
	t := tablesOf(nodes, stretch{[]part{{bytes, 1}}, 0})
	t.open = func(t *tables) { t.get(nil, 0, headHashed, 0) }
	return t.first(func(random *rand.Rand) {
		t.walk(random, s, kind, func(_ bool, _ float64, found int) { t.get(random, 0, random.Float64(), found) })
	})
}

// headHashed is where the head's key, which begins with an s, lies among hashes.
const headHashed = 's' / 256.

// hashNodes are the nodes that the build and the updates wrote, and what they take: of
// each block the branches on the paths of its keys once, a leaf for each, and one for a
// neighbour that has to give way.
func (s State) hashNodes() (nodes, bytes float64) {
	add := func(keys, changed float64, leafBytes float64, grows bool) {
		if keys < 1 || changed < 1 {
			return
		}
		for _, at := range (State{Accounts: keys}).depths() {
			if at.Branches > 0 {
				touched := at.Branches * -math.Expm1(-changed*at.OnPath/at.Branches)
				nodes += touched
				bytes += touched * (pebbleRecord + hashBytes + filterBytes + gethBranch + gethPerChild*at.Children)
			}
		}
		leaves := changed
		if grows {
			leaves *= 1 + givingWay
		}
		nodes += leaves
		bytes += leaves * (pebbleRecord + hashBytes + filterBytes + leafBytes)
	}
	rest := float64(mpt.PathNibbles)/2 - math.Log2(math.Max(2, s.Accounts))/8
	account := gethLeafHead + rest + gethAccount - emptyHashes*(1-s.ContractShare)
	slot := gethLeafHead + gethAccount/3 + gethSlot
	for made := s.BlockAccounts; made < s.Accounts+s.BlockAccounts; made += s.BlockAccounts {
		keys := math.Min(made, s.Accounts)
		add(keys, s.BlockAccounts-(made-keys), account, true)
	}
	for range int(s.contracts() + .5) {
		add(s.SlotsPer, s.SlotsPer, slot, false)
	}
	for n := range int(s.UpdateBlocks) {
		if s.SlotsPer > 0 && s.contracts() <= 1.5 && n%2 == 1 {
			add(s.SlotsPer, s.UpdateKeys, slot, false)
			add(s.Accounts, 1, account, false)
		} else {
			add(s.Accounts, s.UpdateKeys, account, false)
		}
	}
	return nodes, bytes
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
	const perNode = pathPerKey + filterBytes
	nodes := []part{{leaf.stored(perNode) - emptyHashes*(1-s.ContractShare)*s.Accounts, 2}}
	keys := leaf.count + slotBranch.count + slotLeaf.count
	for _, b := range branches {
		nodes, keys = append(nodes, part{b.stored(perNode), 1 + b.below}), keys+b.count
	}
	flat := func(records, key, value, shared float64) stretch {
		return stretch{[]part{{records * (pebbleRecord + key - math.Log(math.Max(1, records))/math.Log(256) + value + filterBytes), 1}}, shared}
	}
	slots := s.contracts() * s.SlotsPer
	t := tablesOf(keys+s.Accounts+slots, stretch{nodes, 0}, stretch{[]part{{slotBranch.stored(perNode) + slotLeaf.stored(perNode), 1}}, hashBytes},
		flat(s.Accounts, accountKey, gethSlim+2*hashBytes*s.ContractShare, 0), flat(slots, slotKey-hashBytes, gethSlot, hashBytes))
	t.open = func(t *tables) {
		t.get(nil, accountNodes, 0, 0)
		t.get(nil, slotNodes, 0, 0)
		t.get(nil, flatAccounts, 0, 0)
		t.get(nil, flatAccounts+1, 1, 0)
	}
	return t
}

// FirstGethPath is what the first lookup reads of the path scheme.
func FirstGethPath(s State, kind Kind) Reads {
	t := pathTables(s)
	return t.first(func(random *rand.Rand) {
		t.walk(random, s, kind, func(slot bool, x float64, found int) {
			region := accountNodes
			if slot {
				region = slotNodes
			}
			t.get(random, region, x, found)
		})
	})
}

// FirstGethFlat is what the first lookup reads of the flat state beside it.
func FirstGethFlat(s State, kind Kind) Reads {
	t := pathTables(s)
	return t.first(func(random *rand.Rand) { t.getFlat(random, s, kind, flatAccounts) })
}
