package lsm

import (
	"math"

	"github.com/statelab/statelab/engine"
)

// NaturalSpec describes a load whose settled level table Natural works out.
type NaturalSpec struct {
	Keys       uint64
	KeyBytes   int
	ValueBytes int // mean

	BlockBytes      int   // target size of data blocks and of index blocks
	LBaseMaxBytes   int64 // size of the first level below L0
	TargetFileBytes [engine.MaxLevels]int64
	// Compression is stored/raw of the data blocks of each level.
	Compression [engine.MaxLevels]float64
	// IndexCompression is stored/raw of index blocks.
	IndexCompression float64

	FilterBitsPerKey int // 0: no filters
	FilterLevels     [engine.MaxLevels]bool
}

// BenchKVDB is the load of the published logs: 32-byte hashed keys, 110-byte
// values out of a table of 32 (which compress better in the last level, where
// blocks are older merges of more values), and that tool's Pebble options.
func BenchKVDB(keys uint64) NaturalSpec {
	spec := NaturalSpec{
		Keys: keys, KeyBytes: 32, ValueBytes: 110,
		BlockBytes: 4096, LBaseMaxBytes: 64 << 20,
		IndexCompression: 0.62, FilterBitsPerKey: 10,
	}
	for level := range engine.MaxLevels {
		spec.TargetFileBytes[level] = 2 << 20 << level
		spec.Compression[level] = 0.935
		spec.FilterLevels[level] = true
	}
	spec.Compression[lastLevel] = 0.775
	return spec
}

const (
	lastLevel       = engine.MaxLevels - 1
	levelMultiplier = 10 // Pebble's default

	blockTrailerBytes = 5
	restartInterval   = 16
	// Row-format index entry without its separator: three varints, the
	// internal key's trailer, the block handle's offset and length, and the
	// restart point that every index entry has.
	indexEntryBytes = 3 + 8 + 4 + 2 + 4
	// A filter ends in 5 bytes of parameters and is rounded up to an odd
	// number of 64-byte lines: one line more on average.
	filterFileBytes = 5 + 64

	// Files end before their target: compactions cut them where the levels
	// below would overlap too much. Mean fill seen in the published level
	// tables; from layouts alone, not from read figures.
	baseFileFill, middleFileFill, lastFileFill = 0.72, 0.50, 0.63
)

// Natural is the level table that loading spec.Keys hashed keys in random
// order settles into: Pebble's dynamic level sizing with each level full. L0 is
// empty. Where all fits LBaseMaxBytes there is the last level alone.
func Natural(spec NaturalSpec) []engine.Level {
	var keys [engine.MaxLevels]float64
	keys[lastLevel] = float64(spec.Keys)
	base := lastLevel
	// Level sizes follow from the database's size and that from how the keys
	// spread over levels of different compression: iterate to the fixed point.
	for range 40 {
		var dbBytes float64
		for level, n := range keys {
			dbBytes += n * spec.block(level, n).storedBytesPerKey
		}
		var sizes [engine.MaxLevels]float64
		base, sizes = levelSizes(dbBytes, float64(spec.LBaseMaxBytes))
		keys = [engine.MaxLevels]float64{}
		keys[lastLevel] = float64(spec.Keys)
		for level := base; level < lastLevel; level++ {
			n := sizes[level] / spec.block(level, sizes[level]/float64(spec.entryBytes())).storedBytesPerKey
			keys[level] = n
			keys[lastLevel] -= n
		}
	}
	levels := make([]engine.Level, engine.MaxLevels)
	for level := range levels {
		levels[level] = engine.Level{Level: level, Sublevels: 1, InCacheKnown: true}
		if n := math.Round(keys[level]); n >= 1 {
			spec.fill(&levels[level], n, base)
		}
	}
	return levels
}

// levelSizes is Pebble's dynamic sizing (initLevelMaxBytes): the last level
// takes nine tenths, levels above shrink tenfold until one fits baseBytes, and
// the multiplier is then smoothed so that the base level is just that.
func levelSizes(dbBytes, baseBytes float64) (base int, sizes [engine.MaxLevels]float64) {
	bottom := dbBytes - dbBytes/levelMultiplier
	base = lastLevel
	for size := bottom; base > 1 && size > baseBytes; base-- {
		size /= levelMultiplier
	}
	if base == lastLevel {
		return base, sizes
	}
	multiplier := math.Pow(bottom/baseBytes, 1/float64(lastLevel-base))
	size := baseBytes
	for level := base; level < lastLevel; level++ {
		sizes[level] = size
		size *= multiplier
	}
	return base, sizes
}

func (spec *NaturalSpec) entryBytes() int { return 3 + 8 + spec.KeyBytes + spec.ValueBytes }

// blockShape is a level's mean data block and index entry.
type blockShape struct {
	keys              float64
	rawBytes          float64
	indexEntryBytes   float64
	indexEntries      float64 // per full index block
	storedBytesPerKey float64 // everything the key adds to its table
}

// block works out how Pebble's row-block writer cuts blocks of n neighbouring
// hashed keys: a block is closed when the next entry, counted without prefix
// compression, would pass the target and the block is nine tenths full.
func (spec *NaturalSpec) block(level int, n float64) (b blockShape) {
	shared := min(sharedBytes(n), float64(spec.KeyBytes))
	entry := float64(spec.entryBytes()) - shared*(restartInterval-1)/restartInterval + 4.0/restartInterval
	b.keys = entriesPerBlock(entry, float64(spec.entryBytes())+3, float64(spec.BlockBytes))
	b.rawBytes = 4 + b.keys*entry

	separator := min(separatorBytes(n), float64(spec.KeyBytes))
	b.indexEntryBytes = indexEntryBytes + separator
	b.indexEntries = entriesPerBlock(b.indexEntryBytes, b.indexEntryBytes+3, float64(spec.BlockBytes))

	b.storedBytesPerKey = (b.rawBytes*spec.Compression[level] + blockTrailerBytes + b.indexEntryBytes*spec.IndexCompression) / b.keys
	if spec.FilterLevels[level] {
		b.storedBytesPerKey += float64(spec.FilterBitsPerKey) / 8
	}
	return b
}

// entriesPerBlock is the number of entries after which the next one, of
// nextBytes, would pass the target.
func entriesPerBlock(entryBytes, nextBytes, targetBytes float64) float64 {
	const full = 0.9
	n := math.Floor((targetBytes-nextBytes-4)/entryBytes) + 1
	return max(1, n, math.Ceil((full*targetBytes-4)/entryBytes))
}

// fill sets the figures of a level of n keys.
func (spec *NaturalSpec) fill(l *engine.Level, n float64, base int) {
	b := spec.block(l.Level, n)
	fill := middleFileFill
	switch l.Level {
	case lastLevel:
		fill = lastFileFill
	case base:
		fill = baseFileFill
	}
	// Pebble numbers target sizes from the base level on, L0's first.
	target := float64(spec.TargetFileBytes[1+l.Level-base])
	files := max(1, math.Round(n*b.storedBytesPerKey/(target*fill)))
	dataBlocks := math.Ceil(n / b.keys)

	l.Files = int(files)
	l.Keys = int64(n)
	l.DataBlocks = int64(dataBlocks)
	l.DataBytes = int64(dataBlocks * (b.rawBytes*spec.Compression[l.Level] + blockTrailerBytes))
	l.DataCacheBytes = int64(dataBlocks * b.rawBytes)
	l.IndexBytes = int64(dataBlocks * b.indexEntryBytes)
	if dataBlocks <= files*b.indexEntries {
		l.SingleIndexes = int64(files)
		l.SingleIndexBytes = l.IndexBytes
		l.SingleIndexCacheBytes = l.IndexBytes
	} else {
		l.IndexBlocks = int64(math.Round(dataBlocks/b.indexEntries + files/2)) // a file's last block is half full
		l.TopIndexBytes = int64(float64(l.IndexBlocks)*b.indexEntryBytes + files*4)
		l.IndexBytes += 4 * l.IndexBlocks
	}
	if spec.FilterBitsPerKey > 0 && spec.FilterLevels[l.Level] {
		l.FilterBytes = int64(n*float64(spec.FilterBitsPerKey)/8 + files*filterFileBytes)
		l.FilterConsulted = l.Level != lastLevel
	}
	l.Bytes = l.DataBytes + int64(float64(l.IndexBytes+l.TopIndexBytes)*spec.IndexCompression) + l.FilterBytes
	l.IndexCacheBytes, l.TopIndexCacheBytes, l.FilterCacheBytes = l.IndexBytes, l.TopIndexBytes, l.FilterBytes
}
