package layouts

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The formula against the trie it describes: random keys, their common prefixes
// counted. A node of a lookup is read unless its depth is pinned; the leaf always is.
func TestExpectedChunkReadsOfRandomKeys(t *testing.T) {
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
	want := expectedChunkReads(keys)
	// What depth 7 and below add: keys that share seven nibbles.
	rest := 0.0
	for d := 7; d < 12; d++ {
		rest += -math.Expm1((keys - 1) * math.Log1p(-math.Pow(16, -float64(d))))
	}
	if math.Abs(got-(want-rest)) > .002 {
		t.Errorf("%.4f reads of random keys, formula %.4f without the %.4f below", got, want, rest)
	}
}

func TestExpectedPagesGoThroughTheSimulatedSizes(t *testing.T) {
	for _, p := range simulatedPages() {
		if got := expectedPages(p[0]); math.Abs(got-p[1]) > 1e-9 {
			t.Errorf("%g accounts: %g pages, simulated %g", p[0], got, p[1])
		}
	}
	if a, b := expectedPages(10), expectedPages(1e10); a < 1 || b < 7.4 || b > 9 {
		t.Errorf("beyond them: %g and %g", a, b)
	}
}

func TestFittedLine(t *testing.T) {
	if got := fitted([][2]float64{{1, 3}, {2, 5}, {4, 9}}, 10); math.Abs(got-21) > 1e-9 {
		t.Errorf("%g", got)
	}
}
