package statemodel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The formula against the trie it describes: random keys, their common prefixes
// counted. A node of a lookup is read unless its depth is pinned; the leaf always is.
func TestUnpinnedNodesOfRandomKeys(t *testing.T) {
	const keys = 1 << 22
	r := rand.New(rand.NewPCG(5, 6))
	shared := make([]uint8, 1<<24) // keys with these first six nibbles
	for range keys {
		shared[r.Uint32()>>8]++
	}

	deeper := 0.0 // branches at depth 6 that a key's path has
	for _, n := range shared {
		if n > 1 {
			deeper += float64(n)
		}
	}

	got := 1 + deeper/keys
	want := UnpinnedNodes(keys)
	// What depth 7 and below add: keys that share seven nibbles.
	rest := 0.0
	for d := 7; d < 12; d++ {
		rest += -math.Expm1((keys - 1) * math.Log1p(-math.Pow(16, -float64(d))))
	}

	if math.Abs(got-(want-rest)) > .002 {
		t.Errorf("%.4f reads of random keys, formula %.4f without the %.4f below", got, want, rest)
	}
}
