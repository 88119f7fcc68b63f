package predict

import (
	"cmp"
	"math"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
)

// BlockTables is how Gets of a database of block-based tables ask for blocks, and RocksDB's
// LRUCache for them.
type BlockTables struct {
	// MetadataInCache: filters and indexes are in the cache. Else they are in memory with their
	// table, but for partitions, which always are in the cache.
	MetadataInCache bool
	HighPriority    bool // they enter it with high priority
	PartedFilters   bool
	PartBytes       int  // target size of a partition
	PinTop, PinL0   bool // what of them never leaves: tops of partitions, all of tables in level 0
	Ribbon          func(level int) bool

	// Target sizes of the data of a table; 0: not known. On each level below the base level, or
	// below the first one, a table is FileMultiplier times as large as on the level before.
	FileBytes, FileMultiplier float64
	Dynamic                   bool
}

// topEntryBytes is a partition in the top of a filter or of an index.
const topEntryBytes = 15

// PartFull is to which share of its target a partition of filters is filled.
const PartFull = 0.9

// FilterParts are the partitions of a level's filters.
func (b *BlockTables) FilterParts(l engine.Level) float64 {
	return math.Max(float64(l.Files),
		math.Round(float64(l.FilterBytes)/(PartFull*float64(b.PartBytes))+float64(l.Files)/2))
}

// pinned are the bytes of the cache that blocks take which never leave it.
func (b *BlockTables) pinned(levels []engine.Level) (bytes int64) {
	for _, l := range levels {
		if !b.MetadataInCache || l.Files == 0 {
			continue
		}

		if b.PinTop && l.IndexBlocks > 0 {
			bytes += l.TopIndexCacheBytes + int64(float64(l.Files)*cachesim.PooledCharge(false))
		}

		if b.PinTop && b.PartedFilters && l.FilterConsulted {
			bytes += int64(topEntryBytes*b.FilterParts(l) +
				float64(l.Files)*cachesim.PooledCharge(false))
		}

		if b.PinL0 && l.Level == 0 {
			bytes += l.IndexCacheBytes + l.FilterCacheBytes
		}
	}

	return bytes
}

// OutsideBytes are what open tables of a level keep of filters and indexes outside the cache: whole
// ones, and what finds the partitions.
func (b *BlockTables) OutsideBytes(l engine.Level) (bytes int64) {
	if b.MetadataInCache {
		return 0
	}

	bytes = l.SingleIndexCacheBytes + l.TopIndexCacheBytes
	switch {
	case !l.FilterConsulted:
	case b.PartedFilters:
		bytes += int64(topEntryBytes * b.FilterParts(l))
	default:
		bytes += l.FilterCacheBytes
	}

	return bytes
}

// randomLoad is RandomLoad of such tables, all of about the same size. What no table of a level
// spans is known from the database, or as measured on a settled load (TestPredictedLevels): the
// compaction of a table leaves a gap.
func (b *BlockTables) randomLoad(levels []engine.Level) []Geometry {
	outside := []float64{0.85, 0.55, 0.25, 0.15}
	geometry := make([]Geometry, len(levels))
	depth, base, last := 0, 0, Deepest(levels)
	for i, l := range levels {
		geometry[i] = Geometry{Coverage: 1}
		if l.Level == 0 || l.Files == 0 {
			continue
		}

		if base == 0 && b.Dynamic {
			base = l.Level
		}

		geometry[i].Files = b.files(l, max(1, base))
		if i >= last {
			continue
		}

		geometry[i].Coverage = 1 - cmp.Or(l.Outside, outside[min(depth, len(outside)-1)])
		depth++
	}

	return geometry
}

// files are those of a level, all but one of the target size, if they can be; nil: all alike.
func (b *BlockTables) files(l engine.Level, base int) []File {
	target := b.FileBytes * math.Pow(b.FileMultiplier,
		float64(lsm.FileDepth(l.Level, base, b.Dynamic)))
	rest := float64(l.DataBytes) - float64(l.Files-1)*target
	if target == 0 || rest <= 0 || rest > target || l.Files > 1000 {
		return nil
	}

	files := make([]File, l.Files)
	for i := range files {
		files[i] = File{target, target, 0}
	}

	files[0] = File{rest, rest, 0}
	return files
}

// falsePositives is the share of absent keys that a level's filters let pass, all without filters.
// A Ribbon filter is nearly as good as its bits can be.
func (b *BlockTables) falsePositives(l engine.Level) float64 {
	if !l.FilterConsulted || l.FilterBytes == 0 {
		return 1
	}

	bits := 8 * float64(l.FilterBytes) / float64(l.Keys)
	if b.Ribbon != nil && b.Ribbon(l.Level) {
		const overhead = 0.96
		return math.Exp2(-overhead * bits)
	}

	return BlockFilterRate(bits)
}

// BlockFilterRate is the share of absent keys that RocksDB's Bloom filter of so many bits a key
// lets pass. It keeps the bits of a key within a line of 512, as Pebble's does, with more probes
// for more bits (FastLocalBloomImpl::ChooseNumProbes) and independent ones.
func BlockFilterRate(bits float64) float64 {
	const lineBits = 512
	return passesLines(lineBits/bits, lineBits, probesFor(bits))
}

// probesFor is how many bits of a filter a key has.
func probesFor(bits float64) float64 {
	for probes, maximum := range []float64{2.08, 3.58, 5.1, 6.64, 8.3, 10.07, 11.72, 14.001, 16.05,
		18.3, 22.001, 25.501} {
		if bits <= maximum {
			return float64(probes + 1)
		}
	}
	return math.Min(24, math.Floor((bits*1000-1)/2000-1))
}

// classes are the classes of a level, or of a table of level 0: touch are the Gets that look into
// its tables, reach those whose key the filter lets pass.
func (b *BlockTables) classes(
	l engine.Level, sublevels, touch, reach float64, g Geometry,
) (classes []class) {
	add := func(kind engine.BlockType, perGet, blocks, bytes float64, perFile, filter bool) {
		if perGet <= 0 || blocks <= 0 ||
			kind != engine.Data && b.PinL0 && l.Level == 0 && b.MetadataInCache {
			return
		}

		charge := cachesim.PooledCharge(filter)
		classes = append(classes, class{
			kind:     kind,
			level:    l.Level,
			perGet:   perGet,
			blocks:   math.Max(1, blocks/sublevels),
			bytes:    bytes/math.Max(1, blocks) + charge,
			charge:   charge,
			perFile:  perFile,
			geometry: g,
			high:     kind != engine.Data && b.HighPriority,
		})
	}

	files := float64(l.Files)
	if l.FilterConsulted && l.FilterBytes > 0 {
		switch {
		case b.PartedFilters:
			parts := b.FilterParts(l)
			if b.MetadataInCache && !b.PinTop {
				add(engine.Filter, touch, files, topEntryBytes*parts, true, false)
			}
			add(engine.Filter, touch, parts, float64(l.FilterCacheBytes), false, true)
		case b.MetadataInCache:
			add(engine.Filter, touch, files, float64(l.FilterCacheBytes), true, true)
		}
	}

	switch {
	case l.IndexBlocks > 0:
		if b.MetadataInCache && !b.PinTop {
			add(engine.TopIndex, reach, files, float64(l.TopIndexCacheBytes), true, false)
		}
		add(engine.Index, reach, float64(l.IndexBlocks),
			float64(l.IndexCacheBytes-l.SingleIndexCacheBytes), false, false)
	case b.MetadataInCache:
		add(engine.SingleIndex, reach, files, float64(l.SingleIndexCacheBytes), true, false)
	}

	add(engine.Data, reach, float64(l.DataBlocks), float64(l.DataCacheBytes), false, false)
	return classes
}
