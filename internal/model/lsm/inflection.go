// Package lsm knows the shape of an LSM tree: what levels a load settles into,
// what a printed level table says, and which cache sizes change what a lookup
// costs.
//
// It is pure: level tables in, level tables and sizes out. It opens no
// database (engines do) and predicts no block reads (package predict does).
//
// Index sizes in a level table are those of Pebble's table properties, which
// are taken before compression: what a cache holds, not what the file holds.
package lsm

import (
	"math"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// Inflect works out the inflection points of a database of dbBytes, with values outside its
// tables (nil: none).
//
// IP1 is what a lookup needs to know which tables to read: the filters a Get
// consults and the top-level indexes. The whole index of a small table counts
// as its top-level index, as in the study's counters: each lookup that comes by
// reads it; so does that of a file of values. IP2 is IP1 and every other index block.
//
// Cache sizes are 0 where one of the levels' is not known.
func Inflect(levels []engine.Level, values *engine.Values, dbBytes int64) result.Inflection {
	var out result.Inflection
	known := true
	for _, l := range levels {
		if l.FilterConsulted {
			out.IP1.DiskBytes += l.FilterBytes
			out.IP1.CacheBytes += l.FilterCacheBytes
		} else {
			out.LastLevelFilterBytes += l.FilterBytes
		}

		out.IP1.DiskBytes += l.TopIndexBytes + l.SingleIndexBytes
		out.IP1.CacheBytes += l.TopIndexCacheBytes + l.SingleIndexCacheBytes
		out.IP2.DiskBytes += l.IndexBytes - l.SingleIndexBytes
		out.IP2.CacheBytes += l.IndexCacheBytes - l.SingleIndexCacheBytes
		known = known && (l.InCacheKnown || l.Files == 0)
	}

	if values != nil {
		out.IP1.DiskBytes += values.IndexBytes
		out.IP1.CacheBytes += values.IndexCacheBytes
	}

	out.IP2.DiskBytes += out.IP1.DiskBytes
	out.IP2.CacheBytes += out.IP1.CacheBytes
	if !known {
		out.IP1.CacheBytes, out.IP2.CacheBytes = 0, 0
	}

	for _, point := range []*result.Size{&out.IP1, &out.IP2} {
		if dbBytes > 0 {
			point.PercentOfDB = 100 * float64(point.DiskBytes) / float64(dbBytes)
			point.CachePercent = 100 * float64(point.CacheBytes) / float64(dbBytes)
		}
	}

	return out
}

// WithCharge returns the levels with perBlockBytes more for each block in a
// cache: what an engine charges beyond the block itself.
func WithCharge(levels []engine.Level, perBlockBytes int64) []engine.Level {
	charged := make([]engine.Level, len(levels))
	for i, l := range levels {
		l.IndexCacheBytes += perBlockBytes * (l.IndexBlocks + l.SingleIndexes)
		l.SingleIndexCacheBytes += perBlockBytes * l.SingleIndexes
		l.TopIndexCacheBytes += perBlockBytes * max(0, int64(l.Files)-l.SingleIndexes)
		l.DataCacheBytes += perBlockBytes * l.DataBlocks
		if l.FilterBytes > 0 {
			l.FilterCacheBytes += perBlockBytes * int64(l.Files)
		}

		charged[i] = l
	}

	return charged
}

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
