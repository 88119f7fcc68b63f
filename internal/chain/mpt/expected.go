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

// Depth is what stands at one nibble depth of a trie of evenly spread keys, in the
// mean.
type Depth struct {
	Branches float64 // that fork there
	Children float64 // of one
	OnPath   float64 // chance that a key's path has a branch there
}

// ExpectedDepths are the depths of a trie of n keys, from the root down. A key's
// first d+1 nibbles are any with chance q = 16^-(d+1); the 16^d subtries of depth d
// are empty with chance (1 - 16q)^n, and lead to one child alone with chance
// 16 * ((1 - 15q)^n - (1 - 16q)^n): else a branch is there.
func ExpectedDepths(n float64) (depths [PathNibbles]Depth) {
	q := 1. / 16
	subtries := 1.0
	for d := range depths {
		none := func(children float64) float64 { return math.Exp(n * math.Log1p(-children*q)) }
		empty := 0.0 // log1p(-1) is -Inf at the root
		if d > 0 {
			empty = none(16)
		}
		single := 16 * (none(15) - empty)
		branch, children := 1-empty-single, 16*-math.Expm1(n*math.Log1p(-q))-single
		if n*q < 1e-4 { // the differences vanish: pairs of keys that fork there
			branch = 120 * n * (n - 1) * q * q
			children = 2 * branch
		}
		depths[d] = Depth{Branches: subtries * branch, OnPath: -math.Expm1((n - 1) * math.Log1p(-15*q))}
		if branch > 0 {
			depths[d].Children = children / branch
		}
		q /= 16
		subtries *= 16
	}
	return depths
}
