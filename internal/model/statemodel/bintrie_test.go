package statemodel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// TestGroupsAgainstATrie counts the groups of a trie of random stems, their children, and those on
// the way to every stem. It knows no formula: a group stands where the bits before it are those of
// two stems.
func TestGroupsAgainstATrie(t *testing.T) {
	const n = 20_000
	random := rand.New(rand.NewPCG(3, 4))
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = random.Uint64()
	}

	slices.Sort(keys)
	prefix := func(key uint64, bits int) uint64 { return key >> 1 >> (63 - bits) }
	alone := make([]int, n) // the depth of each stem
	for i, key := range keys {
		for alone[i] = 1; i > 0 && prefix(keys[i-1], alone[i]) == prefix(key, alone[i]) ||
			i+1 < n && prefix(keys[i+1], alone[i]) == prefix(key, alone[i]); {
			alone[i]++
		}
	}

	for _, levels := range []int{1, 3, 5, 8} {
		nodes, of := float64(n), groupsOf(n, float64(levels))
		for _, g := range of {
			count, children, onPath := map[uint64]bool{}, map[uint64]bool{}, 0
			depth := int(g.depth)
			for i, key := range keys {
				if alone[i] <= depth {
					continue
				}

				onPath++
				count[prefix(key, depth)] = true
				end := min(alone[i], depth+levels)
				children[prefix(key, end)<<8|uint64(end)] = true
			}

			nodes += float64(onPath)
			if math.Abs(float64(onPath)-g.onPath*n) > .02*n ||
				math.Abs(float64(len(count))-g.count) > .03*g.count+15 ||
				math.Abs(float64(len(children))-g.children*g.count) > .03*g.children*g.count+30 {
				t.Errorf("groups of %d levels at depth %d: %d with %d children, on %d ways; "+
					"expected %.0f, %.0f, %.0f", levels, depth, len(count), len(children),
					onPath, g.count, g.children*g.count, g.onPath*n)
			}
		}

		if got := BinaryNodes(n, float64(levels)); math.Abs(got/(nodes/n)-1) > .005 {
			t.Errorf("groups of %d levels: %.3f nodes a lookup, counted %.3f", levels, got, nodes/n)
		}

		random := rand.New(rand.NewPCG(5, 6))
		drawn := 0
		for range n {
			binaryPath(random, random.Float64(), n, float64(levels), true, func(float64, writes) {
				drawn++
			})
		}

		if got := float64(drawn) / n; math.Abs(got/(nodes/n)-1) > .02 {
			t.Errorf("groups of %d levels: %.3f nodes of drawn lookups, counted %.3f", levels, got,
				nodes/n)
		}
	}
}

// binaryMeasured are block reads of first lookups of accounts, absent accounts, slots and absent
// slots: means of 40 lookups of each, or of 60 beside one contract. The model has none of these
// figures in it. The standard error of the four together is 1 to 2 %, and one build differs from
// another.
//
//	statelab layouts --layout geth-bintrie --set GroupDepth=1,2,3,4,5,6,7,8 \
//	  --accounts 10k,100k --reads 2k --first 40 --memory 16MiB --out L
//	statelab price --layout geth-bintrie --set GroupDepth=5 --accounts 10k,100k,1M \
//	  --contract-slots 10k --first 60 --block 20k --out P
//	statelab layouts --layout geth-bintrie --set GroupDepth=1,2,3,4,6,7,8 --accounts 1M \
//	  --contracts 0% --slots 0 --contract-slots 10k --block 20k \
//	  --reads 500 --first 40 --memory 16MiB --update-blocks 1 --out L
var binaryMeasured = []struct {
	accounts, group float64
	contract        bool // of 10,000 slots, instead of a tenth with 16
	measured        [kinds]float64
	within          float64
}{
	{1e4, 5, true, [kinds]float64{3.18, 3.05, 3.23, 2.92}, .05},
	{1e5, 5, true, [kinds]float64{4.62, 4.68, 4.73, 4.65}, .05},
	{1e6, 5, true, [kinds]float64{9.32, 8.47, 9.12, 8.63}, .05},
	{1e6, 2, true, [kinds]float64{16, 15.12, 16.73, 15.75}, .05},
	{1e6, 3, true, [kinds]float64{12.25, 12.2, 13.07, 11.47}, .05},
	{1e6, 4, true, [kinds]float64{10.85, 10.1, 10.97, 9.78}, .05},
	{1e6, 6, true, [kinds]float64{8.47, 8.12, 8.62, 8.03}, .05},
	{1e6, 7, true, [kinds]float64{7.53, 6.8, 7.83, 7.1}, .05},
	{1e6, 8, true, [kinds]float64{7.23, 6.5, 7.48, 6.75}, .05},
	{1e4, 1, false, [kinds]float64{7.4, 7.4, 8.35, 6.9}, .06},
	{1e4, 3, false, [kinds]float64{4.23, 4.15, 4.43, 4.33}, .13},
	{1e4, 5, false, [kinds]float64{3.23, 3.08, 3.4, 3.13}, .05},
	{1e4, 8, false, [kinds]float64{2.7, 2.4, 2.8, 2.6}, .06},
	{1e5, 2, false, [kinds]float64{10.2, 9.88, 10.4, 10.7}, .05},
	{1e5, 4, false, [kinds]float64{6.47, 6.83, 6.78, 6.95}, .05},
	{1e5, 5, false, [kinds]float64{5.7, 5.68, 6, 5.83}, .05},
	{1e5, 6, false, [kinds]float64{5.13, 5.3, 5.28, 5.28}, .05},
	{1e5, 7, false, [kinds]float64{4.3, 4.05, 4.18, 4.23}, .05},
	{1e5, 8, false, [kinds]float64{3.98, 3.98, 4.05, 4.2}, .05},
}

// firstBinary is the mean of the four kinds by the model, to which a slot is as an account.
func firstBinary(accounts, group float64, contract bool) float64 {
	s := State{
		Accounts:      accounts,
		ContractShare: .1,
		SlotsPer:      16,
		BlockAccounts: 5000,
		UpdateBlocks:  4,
		UpdateKeys:    500,
		GroupDepth:    group,
	}

	if contract {
		s.ContractShare, s.SlotsPer, s.BlockAccounts = 1/accounts, 1e4, 20_000
	}

	return (FirstBinaryTrie(s, Account).Mean + FirstBinaryTrie(s, AbsentAccount).Mean) / 2
}

func TestFirstBinaryLookupsAreAsMeasured(t *testing.T) {
	testring.Outer(t, "it models states of millions of accounts")
	var modelled, counted []float64
	for _, c := range binaryMeasured {
		model, measured := firstBinary(c.accounts, c.group, c.contract),
			sum(c.measured[:])/float64(kinds)
		modelled, counted = append(modelled, model), append(counted, measured)
		if math.Abs(model/measured-1) > c.within {
			t.Errorf("%g accounts, groups of %g levels: %.2f reads, measured %.2f", c.accounts,
				c.group, model, measured)
		}
	}

	for i, large := range binaryMeasured { // smaller states predict 1M
		for from, small := range binaryMeasured {
			if large.accounts < 1e6 || small.accounts >= 1e6 || small.group != large.group ||
				small.accounts < 1e5 && !small.contract {
				continue
			}

			predicted := counted[from] * modelled[i] / modelled[from]
			t.Logf("groups of %g levels: %g accounts predict %.2f reads of 1M, measured %.2f",
				large.group, small.accounts, predicted, counted[i])
			if math.Abs(predicted/counted[i]-1) > .05 {
				t.Errorf("%g accounts, groups of %g levels: %.2f reads of 1M predicted, measured "+
					"%.2f", small.accounts, large.group, predicted, counted[i])
			}
		}
	}
}

// The same of 100,000 accounts without slots in larger blocks, which take fewer reads; values of a
// block's size and more are in blocks of their own. Means of accounts and absent ones.
//
//	statelab layouts --layout geth-bintrie --set GroupDepth=5,6,7,8 \
//	  --set BlockSize=4KiB,8KiB,16KiB --contracts 0% --slots 0 --block 20k \
//	  --accounts 100k --first 40 --memory 16MiB --update-blocks 2 --out L
func TestFirstBinaryLookupsInLargerBlocks(t *testing.T) {
	testring.Outer(t, "it models states of millions of accounts")
	for _, c := range []struct {
		group    float64
		measured [3]float64 // with blocks of 4, 8 and 16 KiB
	}{
		{6, [3]float64{4.1, 3.46, 2.54}},
		{7, [3]float64{3.58, 3.29, 2.41}},
		{8, [3]float64{3.33, 3.11, 2.33}},
	} {
		for i, measured := range c.measured {
			s := State{
				Accounts:      1e5,
				BlockAccounts: 20_000,
				UpdateBlocks:  2,
				UpdateKeys:    500,
				GroupDepth:    c.group,
				BlockBytes:    float64(int(4096) << i),
			}

			if got := (FirstBinaryTrie(s, Account).Mean +
				FirstBinaryTrie(s, AbsentAccount).Mean) / 2; math.Abs(got/measured-1) > .05 {
				t.Errorf("groups of %g levels, blocks of %g bytes: %.2f reads, measured %.2f",
					c.group, s.BlockBytes, got, measured)
			}
		}
	}
}

// partitionedNodes are the nodes of a lookup of an account, and of a slot of a contract, in a trie
// with the keys of EIP-8297 and groups of so many levels, by formula alone: no registry has an
// implementation. Its first four bits are a zone: headers of accounts are in one sixteenth of the
// keys, slots in the half with the first bit. A slot's next 60 bits are its account's, and there
// are no extension nodes: a contract of two stems or more has branches at every depth down to 61.
func partitionedNodes(s State, group float64) (account, slot float64) {
	const zoneBits, bucket = 4, 61
	shared := func(others, bits float64) float64 {
		return -math.Expm1(others * math.Log1p(-math.Exp2(-bits)))
	}
	account, slot = 1, 1
	for depth := 0.0; depth < stemBits; depth += group {
		if depth < zoneBits {
			account++
		} else {
			account += shared(s.Accounts-1, math.Max(1e-9, depth-zoneBits))
		}

		switch {
		case depth <= bucket && s.SlotsPer > 1 || depth == 0:
			slot++
		case depth <= bucket:
			slot += shared(s.contracts()-1, math.Max(1e-9, depth-1))
		default:
			slot += shared(s.SlotsPer-1, depth-bucket)
		}
	}

	return account, slot
}

// TestPartitionedNodes counts the groups on the way to every stem of a trie with EIP-8297's keys: a
// group stands where another stem has the same bits before it.
func TestPartitionedNodes(t *testing.T) {
	s := State{Accounts: 4000, ContractShare: .05, SlotsPer: 30}
	random := rand.New(rand.NewPCG(7, 8))
	type key [2]uint64
	var keys []key
	for range int(s.Accounts) {
		keys = append(keys, key{random.Uint64() >> 4, random.Uint64()})
	}

	for range int(s.contracts()) {
		prefix := 1<<63 | random.Uint64()>>1&^7 // a bit, and 60 of the account
		for range int(s.SlotsPer) {
			keys = append(keys, key{prefix | random.Uint64()&7, random.Uint64()})
		}
	}

	bits := func(k key, n int) key {
		return key{k[0] >> max(0, 64-n) << max(0, 64-n), k[1] >> max(0, 128-n) << max(0, 128-n)}
	}
	for _, group := range []int{1, 5, 8} {
		nodes := [2]float64{1, 1}
		for depth := 0; depth < 128; depth += group {
			same := map[key]int{}
			for _, k := range keys {
				same[bits(k, depth)]++
			}

			for i, k := range keys {
				if same[bits(k, depth)] > 1 {
					of := 0
					if i >= int(s.Accounts) {
						of = 1
					}
					nodes[of] += 1 / []float64{s.Accounts, s.contracts() * s.SlotsPer}[of]
				}
			}
		}

		account, slot := partitionedNodes(s, float64(group))
		if math.Abs(account/nodes[0]-1) > .005 || math.Abs(slot/nodes[1]-1) > .005 {
			t.Errorf("groups of %d levels: %.3f nodes of an account, %.3f of a slot; counted "+
				"%.3f, %.3f", group, account, slot, nodes[0], nodes[1])
		}
	}

	main := State{Accounts: 100e6, ContractShare: .01, SlotsPer: 300}
	text, err := os.ReadFile("../../../docs/studies/binary-trie.md")
	if err != nil {
		t.Fatal(err)
	}

	five, slotOfFive := partitionedNodes(main, 5)
	eight, slotOfEight := partitionedNodes(main, 8)
	want := fmt.Sprintf("groups of 5 levels take %.3g nodes for an account and %.3g for a slot, "+
		"of 8 levels %.3g and %.3g; those of EIP-7864 take %.3g and %.3g",
		five, slotOfFive, eight, slotOfEight, BinaryNodes(main.Stems(), 5),
		BinaryNodes(main.Stems(), 8))

	if !strings.Contains(string(text), want) {
		t.Errorf("the study does not say %q", want)
	}
}
