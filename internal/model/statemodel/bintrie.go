package statemodel

import (
	"math"
	"math/rand/v2"
)

// The binary trie of EIP-7864 as layouts/geth keeps it: a database value is a group of some levels
// of branches, or a stem. There is one trie: an account and each of its slots, whose keys are
// hashes, are stems of their own, evenly spread.

// Bytes of the values: a stem has its kind, its key and a bit for each of its leaves before them;
// a group its kind, its levels, a bit for each place of its last level, and a depth of 3 bits and a
// hash for each child.
const (
	stemHead     = 1 + 31 + 32
	stemLeaf     = 32
	chunkBytes   = 31  // of code, in a leaf
	headerChunks = 128 // in the stem of the account
	stemChunks   = 256
	// of a key, beyond what it shares with the one before: a byte or two, and its length in bits
	binaryPerKey  = 3
	defaultGroup  = 5
	stemBits      = 248 // of the longest path
	codeHashBytes = 32
)

// Bytes that compression saves of a stem: a run of zeros becomes 3 bytes. Of an account they are in
// its bits, the length of its code, its nonce and its balance; the hash of no code is that of its
// neighbours. Of a slot they are in its bits, and in half of the values, of 8 bytes.
const (
	accountZeros = 31 + 8 + (8 - nonceBytes) - 3 + (16 - balanceBytes) - 3
	slotZeros    = 31 - 2*3 + 24/2
)

// Group is how many levels a node has.
func (s State) Group() float64 {
	if s.GroupDepth == 0 {
		return defaultGroup
	}
	return s.GroupDepth
}

func (s State) block() float64 {
	if s.BlockBytes == 0 {
		return pebbleBlock
	}
	return s.BlockBytes
}

// Stems are those of accounts, slots, and code that the stem of its account has no room for.
func (s State) Stems() float64 { return s.Accounts + s.contracts()*(s.SlotsPer+s.codeStems()) }

func (s State) chunks() float64 { return math.Ceil(s.CodeBytes / chunkBytes) }
func (s State) codeStems() float64 {
	return math.Ceil(math.Max(0, s.chunks()-headerChunks) / stemChunks)
}

// BinaryNodes are the nodes that a lookup of one of n uniform stems gets in a binary trie whose
// nodes are groups of so many levels. A group begins at every multiple of them where there are
// branches, which is where any of the other stems shares the bits before.
//
//	1 + SUM over k >= 0 of 1 - (1 - 2^(-k group))^(n-1)     about 1.5 + (log2 n + 0.33) / group
func BinaryNodes(n, group float64) float64 {
	nodes := 1.0
	for _, g := range groupsOf(n, group) {
		nodes += g.onPath
	}
	return nodes
}

// groups are those of one depth.
type groups struct {
	depth    float64
	count    float64
	children float64 // of one, in the mean
	onPath   float64 // chance that a stem's path has one there
	below    float64 // stems below one, in the mean
}

func (g groups) bytes(levels float64) float64 {
	return 2 + math.Max(1, math.Exp2(levels)/8) + math.Ceil(3*g.children/8) + stemLeaf*g.children
}

// groupsOf are the groups of a trie of n uniform stems, from the root down.
//
// The 2^d subtries of depth d have k of the stems by the binomial distribution. A branch is where
// there are two or more. A stem is at the first depth where it is alone: at most at d with chance
// (1 - 2^-d)^(n-1). The children of the groups at d are the stems from there to their last level,
// and the branches at that.
func groupsOf(n, levels float64) (all []groups) {
	alone := func(depth float64) float64 {
		return math.Exp((n - 1) * math.Log1p(-math.Exp2(-depth)))
	}
	branches := func(depth float64) float64 {
		share := math.Exp2(-depth)
		if n*share < 1e-4 { // the differences vanish: pairs of stems
			return n * (n - 1) / 2 * share
		}

		if depth == 0 {
			return math.Min(1, math.Max(0, n-1))
		}

		return (1 - alone(depth)*(1-share+n*share)) / share
	}

	for depth := 0.0; depth < stemBits; depth += levels {
		g := groups{
			depth:  depth,
			count:  branches(depth),
			onPath: 1 - alone(depth),
			below:  math.Max(2, n*math.Exp2(-depth)),
		}

		if n < 2 || g.onPath < 1e-6 {
			break
		}

		g.children = (n*(alone(depth+levels)-alone(depth)) + branches(depth+levels)) / math.Max(
			1e-12,
			g.count,
		)

		all = append(all, g)
	}

	return all
}

// stems are those of one sort: how many, and their bytes and what compression saves.
type stems struct {
	count, bytes, saved float64
	writes              writes
	slots               bool
}

func (s State) stemsOf() []stems {
	chunks, contracts := s.chunks(), s.contracts()
	plain := stems{
		count:  s.Accounts - contracts,
		bytes:  stemHead + 2*stemLeaf,
		saved:  accountZeros + codeHashBytes - 3,
		writes: writes{pushed: 1},
	}

	coded := plain
	coded.count, coded.bytes, coded.saved = contracts,
		plain.bytes+stemLeaf*math.Min(chunks, headerChunks), accountZeros
	slots := stems{
		count:  contracts * s.SlotsPer,
		bytes:  stemHead + stemLeaf,
		saved:  slotZeros,
		writes: writes{pushed: 1},
		slots:  true,
	}

	code := stems{count: contracts * s.codeStems(), writes: writes{pushed: 1}}
	if code.count > 0 {
		code.bytes = stemHead + stemLeaf*(chunks-headerChunks)/s.codeStems()
	}

	return []stems{plain, coded, slots, code}
}

// packed are a part of so many records in blocks of a size. A block takes records until one would
// exceed it, and one more in any case while it is filled to less than nine tenths.
func packed(n, bytes, saved, block float64, w writes) part {
	full := block - bytes/2
	if bytes > block/10 {
		full = .9*block + bytes/2
	}

	return part{
		raw:    n * bytes * block / full,
		stored: n * (bytes - saved + filterBytes + pebbleIndexEntry*bytes/block),
		writes: w,
	}
}

// binaryTables have been opened, which reads the head, before all nodes, and the number of the
// state and others behind them, one of which is not there.
func binaryTables(s State) *tables {
	var nodes []part
	n, levels, keys := s.Stems(), s.Group(), 0.0
	for _, g := range groupsOf(n, levels) {
		nodes = append(nodes,
			packed(g.count, pebbleRecord+binaryPerKey+g.bytes(levels), 0, s.block(),
				writes{latest: g.below, again: true}))
		keys += g.count
	}

	for _, of := range s.stemsOf() {
		if of.count > 0 {
			nodes = append(nodes,
				packed(of.count, pebbleRecord+binaryPerKey+of.bytes, of.saved, s.block(),
					of.writes))
			keys += of.count
		}
	}

	t := tablesOf(keys, stretch{parts: nodes, block: s.block()})
	t.open = func(t *tables) {
		random := rand.New(rand.NewPCG(1, 2))
		t.get(random, 0, 0, 0)
		t.get(random, 0, 1, 0)
		t.get(random, 0, 1, absent)
	}

	return t
}

// FirstBinaryTrie is what the first lookup reads of a binary trie. A slot is looked up without its
// account.
func FirstBinaryTrie(s State, kind Kind) Reads {
	t := binaryTables(s)
	return t.first(func(random *rand.Rand) {
		age, x := random.Float64(), random.Float64()
		binaryPath(random, x, s.Stems(), s.Group(), kind == Account || kind == Slot,
			func(x float64, w writes) {
				t.get(random, 0, x, t.levelOf(0, x, w, age))
			})
	})
}

// binaryPath are the nodes that a lookup gets, from the root down: where each lies among the keys,
// of a stem at x between 0 and 1, and when it was written. The key of a node of d bits is those
// bits, filled up with zeros to whole bytes, and d in a byte behind them: it lies a little to the
// right of where its subtrie begins.
func binaryPath(
	random *rand.Rand, x, keys, levels float64, present bool, yield func(x float64, w writes),
) {
	below, above := int(keys), int(keys)
	for depth := 0.0; ; depth++ {
		if below < 2 {
			break
		}

		if math.Mod(depth, levels) == 0 {
			wide := math.Exp2(depth)
			yield(math.Min(1-1e-9, math.Floor(x*wide)/wide+
				depth/256*math.Exp2(-8*math.Ceil(depth/8))), writes{
				latest: float64(below),
				again:  true,
			})
		}

		above = below
		others := below
		if present {
			others--
		}

		if below = half(random, others); present {
			below++
		}
	}

	if present || below == 1 {
		yield(x, writes{pushed: math.Max(1, float64(above-1))})
	}
}

// half is how many of the keys below a branch are on one side.
func half(random *rand.Rand, keys int) (n int) {
	if keys > 1000 {
		return keys / 2
	}
	for range keys {
		n += random.IntN(2)
	}
	return n
}

// BinaryTrie are the nodes in the clean cache and the blocks that they lie in, which hold a subtrie
// or a part of one as those of GethPath do. A node that is larger than a block makes its block
// larger.
func BinaryTrie(s State, g GethMemory) []Memory {
	n, levels, block := s.Stems(), s.Group(), s.block()
	all, stems := groupsOf(n, levels), s.stemsOf()
	recent := upperShare(s.DiskBytes)
	late := func(keys float64) float64 { return 1 - math.Pow(1-recent, keys) }
	leafIn := [2]float64{late(2), 1 - late(2)}
	stored, saved := [2]float64{}, 0.0 // bytes of both levels
	for _, of := range stems {
		bytes := of.count * (pebbleRecord + binaryPerKey + of.bytes)
		stored[0], stored[1], saved = stored[0]+bytes*leafIn[0], stored[1]+bytes*leafIn[1],
			saved+of.count*of.saved
	}

	var strewnIn [2]strewn
	for _, of := range all {
		bytes := of.count * (pebbleRecord + binaryPerKey + of.bytes(levels))
		for i, in := range []float64{late(of.below), 1 - late(of.below)} {
			stored[i] += bytes * in
			strewnIn[i].levels = append(strewnIn[i].levels, level{nodes: of.count * in})
		}
	}

	perStem := (stored[0] + stored[1]) / n
	var classes [2][]Class
	var shares [2][][]float64
	for i := range strewnIn {
		strewnIn[i].units = math.Max(1, stored[i]/block)
		strewnIn[i].levels = append(strewnIn[i].levels, level{nodes: math.Inf(1)})
		classes[i], shares[i] = strewnIn[i].classes()
		for d, of := range all {
			if bytes := of.bytes(levels); bytes > block/2 {
				classes[i][d].UnitBytes = .45*block + bytes
			}
		}
	}

	size, lowerAt := len(classes[0])+len(classes[1])+2, len(classes[0])+1
	both := func(d int, in, up, down float64) []float64 {
		to := asks(0, size, shares[0][d], in, up)
		for i, share := range asks(lowerAt, size, shares[1][d], 1-in, down) {
			to[i] += share
		}
		return to
	}

	clean := Memory{Bytes: g.CleanBytes, Policy: FIFO}
	for d, of := range all {
		near, in := 1-evenly(of.below*perStem/block), late(of.below)
		node := trieNode{
			count:  of.count,
			bytes:  of.bytes(levels),
			visits: [kinds]float64{of.onPath, of.onPath, of.onPath, of.onPath},
		}

		clean.Classes = append(clean.Classes,
			node.clean(of.depth/8+1, both(d, in, in*(1-leafIn[0]*near), (1-in)*(1-leafIn[1]*near))))
	}

	for _, of := range stems {
		node := trieNode{
			count:  of.count,
			bytes:  of.bytes,
			visits: [kinds]float64{Account: of.count / math.Max(1, s.Accounts)},
		}

		if of.slots {
			node.visits = [kinds]float64{Slot: 1}
		}

		clean.Classes = append(clean.Classes,
			node.clean(math.Log2(n)/8+1, both(len(all), leafIn[0], leafIn[0], leafIn[1])))
	}

	fileBytes := block * (1 - saved/(stored[0]+stored[1]))
	return append([]Memory{clean},
		g.pebble(region{classes[0], fileBytes, block}, region{classes[1], fileBytes, block})...)
}
