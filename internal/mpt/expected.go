package mpt

import "math"

// ExpectedNodes is the mean number of nodes that a lookup meets, the leaf
// included, in a trie of n keys that are spread evenly:
//
//	1 + SUM over d >= 0 of 1 - (1 - 16^-d)^(n-1)
//
// A key's path has a branch at depth d if any of the other n-1 keys shares its
// first d nibbles; extensions do not count. About log16 n + 1.71.
func ExpectedNodes(n float64) float64 {
	if n < 1 {
		return 0
	}
	nodes := 1.0
	for d := range PathNibbles {
		alone := math.Exp((n - 1) * math.Log1p(-math.Pow(16, -float64(d))))
		if d == 0 {
			alone = 0
			if n == 1 {
				alone = 1
			}
		}
		nodes += 1 - alone
	}
	return nodes
}
