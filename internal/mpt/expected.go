package mpt

import "math"

// ExpectedNodes is the mean number of nodes that a lookup meets, the leaf
// included, in a trie of n keys that are spread evenly:
//
//	1 + SUM over d >= 0 of 1 - (1 - 16^-d)^(n-1)
//
// At depth d of a key's path stands a node above the leaf if any of the other n-1
// keys shares its first d nibbles: a branch, or an extension, which counts once
// for each nibble. About log16 n + 1.71.
func ExpectedNodes(n float64) float64 { return expected(n, 1) }

// ExpectedFoldedNodes is the same for a trie whose branches hold the extension
// before them:
//
//	1 + SUM over d >= 0 of 1 - (1 - 16^-d * 15/16)^(n-1)
//
// A branch stands at depth d if another key shares d nibbles and differs in the
// next.
func ExpectedFoldedNodes(n float64) float64 { return expected(n, 15./16) }

// expected takes the chance of another key at depth 0 to count there.
func expected(n, chance float64) float64 {
	if n < 1 {
		return 0
	}
	nodes := 1.0
	for range PathNibbles {
		nodes += 1 - math.Pow(1-chance, n-1)
		chance /= 16
	}
	return nodes
}
