package lsm

import (
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// Inflect works out the inflection points of a database of dbBytes.
//
// IP1 is what a lookup needs to know which tables to read: the filters a Get
// consults and the top-level indexes. The whole index of a small table counts
// as its top-level index, as in the study's counters: each lookup that comes by
// reads it. IP2 is IP1 and every other index block.
//
// Cache sizes are 0 where one of the levels' is not known.
func Inflect(levels []engine.Level, dbBytes int64) result.Inflection {
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
