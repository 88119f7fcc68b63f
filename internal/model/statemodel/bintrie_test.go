package statemodel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGroupsAgainstATrie counts the groups of a trie of random stems, their children, and those on the way to every
// stem. It knows no formula: a group stands where the bits before it are those of two stems.
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
		for alone[i] = 1; i > 0 && prefix(keys[i-1], alone[i]) == prefix(key, alone[i]) || i+1 < n && prefix(keys[i+1], alone[i]) == prefix(key, alone[i]); {
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
			if math.Abs(float64(onPath)-g.onPath*n) > .02*n || math.Abs(float64(len(count))-g.count) > .03*g.count+15 ||
				math.Abs(float64(len(children))-g.children*g.count) > .03*g.children*g.count+30 {
				t.Errorf("groups of %d levels at depth %d: %d with %d children, on %d ways; expected %.0f, %.0f, %.0f", levels, depth, len(count), len(children),
					onPath, g.count, g.children*g.count, g.onPath*n)
			}
		}
		if got := BinaryNodes(n, float64(levels)); math.Abs(got/(nodes/n)-1) > .005 {
			t.Errorf("groups of %d levels: %.3f nodes a lookup, counted %.3f", levels, got, nodes/n)
		}
		random := rand.New(rand.NewPCG(5, 6))
		drawn := 0
		for range n {
			binaryPath(random, random.Float64(), n, float64(levels), true, func(float64, writes) { drawn++ })
		}
		if got := float64(drawn) / n; math.Abs(got/(nodes/n)-1) > .02 {
			t.Errorf("groups of %d levels: %.3f nodes of drawn lookups, counted %.3f", levels, got, nodes/n)
		}
	}
}
