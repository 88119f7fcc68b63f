package mpt

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// The formulas against prefixes of random keys.
func TestExpectedDepthsOfRandomKeys(t *testing.T) {
	for _, n := range []int{3, 16, 50_000} {
		rounds := max(1, 20_000/n)
		r := rand.New(rand.NewPCG(1, uint64(n)))
		var branches, children, onPath [8]float64
		for range rounds {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = r.Uint64()
			}

			for d := range branches {
				below := map[uint64]uint16{}
				of := func(k uint64) uint64 { return k >> 1 >> (63 - 4*d) }
				for _, k := range keys {
					below[of(k)] |= 1 << (k >> (60 - 4*d) & 15)
				}

				for _, mask := range below {
					if count := bits.OnesCount16(mask); count > 1 {
						branches[d]++
						children[d] += float64(count)
					}
				}

				for _, k := range keys {
					if bits.OnesCount16(below[of(k)]) > 1 {
						onPath[d]++
					}
				}
			}
		}

		nodes := 1.0
		for d, at := range ExpectedDepths(float64(n)) {
			nodes += at.OnPath
			if d >= len(branches) {
				continue
			}

			close := func(figure string, got, counted float64) {
				// Counts scatter by their root.
				if math.Abs(got-counted) > .01*counted+4*math.Sqrt(counted)+1 {
					t.Errorf("%d keys, depth %d: %.2f %s, counted %.2f", n, d, got, figure, counted)
				}
			}

			close("branches", at.Branches*float64(rounds), branches[d])
			close("children", at.Branches*at.Children*float64(rounds), children[d])
			close("paths", at.OnPath*float64(n*rounds), onPath[d])
		}

		if want := ExpectedFoldedNodes(float64(n)); math.Abs(nodes-want) > 1e-6 {
			t.Errorf("%d keys: %.6f nodes over the depths, %.6f by the sum", n, nodes, want)
		}
	}
}

// Where keys are few against the subtries, differences of nearly equal numbers must
// not become branches.
func TestExpectedDepthsAreQuietBelow(t *testing.T) {
	for _, n := range []float64{1, 2, 1e6, 1e10} {
		sum := 0.0
		for d, at := range ExpectedDepths(n) {
			if at.Branches < 0 || at.Children < 0 || at.Children > 16 ||
				float64(d) > math.Log2(n)/2+2 && at.Branches > 1 {
				t.Errorf("%g keys, depth %d: %+v", n, d, at)
			}
			sum += at.Branches * (at.Children - 1)
		}

		if n > 1 && math.Abs(sum-(n-1)) > 1e-3*n {
			t.Errorf("%g keys: branches have %g children more than themselves", n, sum)
		}
	}
}
