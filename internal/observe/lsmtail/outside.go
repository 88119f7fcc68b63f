package lsmtail

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/statelab/statelab/engine"
)

// At is the key that lies at a part of the way from the first key to the last, 0 <= part < 1. What
// both begin with alike is common to all keys between them; of the rest, eight bytes are read as a
// number.
func (b *Bounds) At(part float64) []byte {
	return b.Choose(func(low, high uint64) uint64 { return low + uint64(part*float64(high-low)) })
}

// Choose is a key between the first and the last, as choose picks one of the numbers from low to
// high, low < high.
func (b *Bounds) Choose(choose func(low, high uint64) uint64) []byte {
	shared := 0
	for shared < min(len(b.Smallest), len(b.Largest)) && b.Smallest[shared] == b.Largest[shared] {
		shared++
	}

	low, high := leadingNumber(b.Smallest[shared:]), leadingNumber(b.Largest[shared:])
	chosen := low
	if low < high {
		chosen = choose(low, high)
	}

	return binary.BigEndian.AppendUint64(b.Smallest[:shared:shared], chosen)
}

// leadingNumber are the first eight bytes of a key; what lacks is zero.
func leadingNumber(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// Span is where the entries of a table lie.
type Span struct {
	Bounds
	Level   int
	Entries uint64
}

// outsideDraws are the places in key space that are looked at, spread over the tables by their
// entries.
const outsideDraws = 20_000

// Outside is by level engine.Level's Outside, of the tables of a tree: those of level 0 in the
// order in which a Get asks them.
func Outside(tables []Span) (share [engine.MaxLevels]float64) {
	var sorted [engine.MaxLevels][]Span // of levels below L0
	var asked, spanned [engine.MaxLevels]float64
	var l0 []int
	entries := uint64(0)
	for i, t := range tables {
		entries += t.Entries
		if t.Level == 0 {
			l0 = append(l0, i)
		} else if t.Level < engine.MaxLevels {
			sorted[t.Level] = append(sorted[t.Level], t)
		}
	}

	for level := range sorted {
		slices.SortFunc(sorted[level], func(a, b Span) int {
			return bytes.Compare(a.Smallest, b.Smallest)
		})
	}

	for from, t := range tables {
		points := 1 + int(outsideDraws*float64(t.Entries)/float64(max(1, entries)))
		for point := range points {
			key := t.At((float64(point) + 0.5) / float64(points))
			for _, i := range l0 {
				if t.Level == 0 && i >= from {
					continue // not newer
				}

				asked[0]++
				if tables[i].Holds(key) {
					spanned[0]++
				}
			}

			for level := 1; level < t.Level; level++ {
				at, exact := slices.BinarySearchFunc(sorted[level], key,
					func(t Span, key []byte) int { return bytes.Compare(t.Smallest, key) })

				if asked[level]++; exact || at > 0 && sorted[level][at-1].Holds(key) {
					spanned[level]++
				}
			}
		}
	}

	for level := range share {
		if asked[level] > 0 {
			share[level] = 1 - spanned[level]/asked[level]
		}
	}

	return share
}
