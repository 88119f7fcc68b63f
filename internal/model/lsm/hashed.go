package lsm

import "math"

// Lengths that neighbouring hashed keys share, and the separators Pebble puts
// between them, follow from their number alone: n uniform keys leave
// exponential gaps of mean 1/n, and a prefix of k bytes is a cell of width
// 256^-k. With x = n/256^k keys per cell, two neighbours fall
//
//	into one cell                        with 1 - (1-e^-x)/x
//	into two cells next to each other    with (1-e^-x)^2/x
//
// the second because the gap, once it crossed a border, is exponential again.

const maxPrefixBytes = 16

// sharedBytes is the mean length of the prefix that neighbours among n hashed
// keys have in common.
func sharedBytes(n float64) float64 {
	shared, perCell := 0.0, n
	for range maxPrefixBytes {
		perCell /= 256
		shared += sameCell(perCell)
	}
	return shared
}

// separatorBytes is the mean length of an index key between neighbours among n
// hashed keys. Pebble's default comparer cuts after the first byte that
// differs, and one later where it differs by one.
func separatorBytes(n float64) float64 {
	length, perCell := 1.0, n
	for range maxPrefixBytes {
		perCell /= 256
		length += sameCell(perCell) + 255.0/256*nextCell(perCell)
	}
	return length
}

func sameCell(perCell float64) float64 {
	if perCell < 1e-6 {
		return perCell / 2
	}
	return 1 + math.Expm1(-perCell)/perCell
}

func nextCell(perCell float64) float64 {
	if perCell < 1e-6 {
		return perCell
	}
	return math.Expm1(-perCell) * math.Expm1(-perCell) / perCell
}
