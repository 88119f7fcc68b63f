package lookuppath

import (
	"bytes"
	"slices"
	"sort"
)

// Tombstone is a range deletion.
type Tombstone struct {
	Start, End []byte
	SeqNum     uint64
}

// CoveredBy looks for the range deletion over key among ones that are sorted and do
// not overlap.
func CoveredBy(tombstones []Tombstone, key []byte) (seqNum uint64, covered bool) {
	i := sort.Search(len(tombstones), func(i int) bool {
		return bytes.Compare(tombstones[i].End, key) > 0
	})
	if i < len(tombstones) && bytes.Compare(tombstones[i].Start, key) <= 0 {
		return tombstones[i].SeqNum, true
	}
	return 0, false
}

// Disjoint cuts range deletions, given from the oldest to the newest, where they
// overlap, and keeps the newest of each part, in key order.
func Disjoint(tombstones []Tombstone) []Tombstone {
	var bounds [][]byte
	for _, t := range tombstones {
		bounds = append(bounds, t.Start, t.End)
	}

	slices.SortFunc(bounds, bytes.Compare)
	bounds = slices.CompactFunc(bounds, bytes.Equal)
	// Part i lies between bounds i and i+1. unpainted[i] leads to the first part from i
	// on that no newer deletion has taken.
	newest, unpainted := make([]uint64, len(bounds)), make([]int, len(bounds)+1)
	for i := range unpainted {
		unpainted[i] = i
	}

	first := func(i int) int {
		for unpainted[i] != i {
			unpainted[i] = unpainted[unpainted[i]]
			i = unpainted[i]
		}
		return i
	}

	for _, t := range slices.Backward(tombstones) {
		from, _ := slices.BinarySearchFunc(bounds, t.Start, bytes.Compare)
		to, _ := slices.BinarySearchFunc(bounds, t.End, bytes.Compare)
		for i := first(from); i < to; i = first(i) {
			newest[i], unpainted[i] = t.SeqNum, i+1
		}
	}

	var parts []Tombstone
	for i, seqNum := range newest {
		if seqNum > 0 {
			parts = append(parts, Tombstone{bounds[i], bounds[i+1], seqNum})
		}
	}

	return parts
}
