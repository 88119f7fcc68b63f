package blockbased

import (
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// Describe puts what the tables themselves say of their filters and indexes into levels of the
// family: bytes as stored, where the engine tells them before compression, and in a cache that
// charges a block so much. After an error levels are as they were.
func (r *Resolver) Describe(levels []engine.Level, charge func(*cachesim.Block) int64) error {
	described := slices.Clone(levels)
	for i := range described {
		l := &described[i]
		l.IndexBlocks, l.SingleIndexes = 0, 0
		l.IndexBytes, l.IndexCacheBytes = 0, 0
		l.SingleIndexBytes, l.SingleIndexCacheBytes = 0, 0
		l.TopIndexBytes, l.TopIndexCacheBytes = 0, 0
		l.FilterBytes, l.FilterCacheBytes = 0, 0
		l.InCacheKnown = true
		// Only a table that nothing follows is passed over, and the last of level 0 is one.
		l.FilterConsulted = r.reading.Filters &&
			!(r.reading.ForHits && i == len(levels)-1 && (l.Level > 0 || l.Files == 1))
		for _, t := range r.All {
			if t.Level != l.Level {
				continue
			}

			for number := t.First; number < t.First+t.FirstData; number++ {
				if _, h := t.Describe(number); h.Bytes == 0 {
					continue
				}

				b, err := r.Block(number)
				if err != nil {
					return err
				}

				disk, cache := int64(b.DiskBytes), charge(&b)
				switch b.Type {
				case engine.Filter:
					l.FilterBytes, l.FilterCacheBytes = l.FilterBytes+disk, l.FilterCacheBytes+cache
				case engine.TopIndex:
					l.TopIndexBytes, l.TopIndexCacheBytes = l.TopIndexBytes+disk,
						l.TopIndexCacheBytes+cache
				case engine.SingleIndex:
					l.SingleIndexes++
					l.SingleIndexBytes, l.SingleIndexCacheBytes = l.SingleIndexBytes+disk,
						l.SingleIndexCacheBytes+cache
					l.IndexBytes, l.IndexCacheBytes = l.IndexBytes+disk, l.IndexCacheBytes+cache
				case engine.Index:
					l.IndexBlocks++
					l.IndexBytes, l.IndexCacheBytes = l.IndexBytes+disk, l.IndexCacheBytes+cache
				}
			}
		}
	}

	copy(levels, described)
	return nil
}

// MetadataOutsideCache reports whether filters and indexes stay in memory with open tables, not in
// the block cache.
func (r *Resolver) MetadataOutsideCache() bool { return !r.reading.MetadataInCache }
