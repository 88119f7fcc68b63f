package lsm

import (
	"cmp"
	"fmt"
	"math"

	"github.com/statelab/statelab/engine"
)

// ModelLevels are the levels of a tree whose shape is modelled: Pebble and RocksDB have no more
// unless they are told to.
const ModelLevels = 7

// SteadyStateSpec describes a load whose level table SteadyStateLevels works out.
type SteadyStateSpec struct {
	Keys       uint64
	KeyBytes   int
	ValueBytes int // mean

	BlockBytes      int   // target size of data blocks
	IndexBlockBytes int   // and of index blocks; 0: the same
	LBaseMaxBytes   int64 // size of the first level below L0
	TargetFileBytes [ModelLevels]int64
	// Compression is stored/raw of the data blocks of each level.
	Compression [ModelLevels]float64
	// IndexCompression is stored/raw of index blocks.
	IndexCompression float64

	FilterBitsPerKey int // 0: no filters
	FilterLevels     [ModelLevels]bool
}

// ValueCompression is stored/raw of data blocks under Snappy by level, for 32-byte
// hashed keys and values of one of load's models. Those of table32 are from the published
// level tables, where they print three digits; the last level holds more keys with the
// same value in a block. docs/prediction.md says how the others were measured.
func ValueCompression(model string) (ratios [ModelLevels]float64, err error) {
	of, known := map[string]struct{ upper, last float64 }{
		"table32":   {0.94, 0.763},
		"random":    {1, 1},
		"trie-node": {0.8, 0.8},
	}[model]

	if !known {
		return ratios, fmt.Errorf("unknown value model %q: use table32, random or trie-node", model)
	}

	for level := range ratios {
		ratios[level] = of.upper
	}

	ratios[lastLevel] = of.last
	return ratios, nil
}

// BenchKVDB is the load of the published logs: 32-byte hashed keys, 110-byte
// values out of a table of 32, and that tool's Pebble options.
func BenchKVDB(keys uint64) SteadyStateSpec {
	spec := SteadyStateSpec{
		Keys: keys, KeyBytes: 32, ValueBytes: 110,
		BlockBytes: 4096, LBaseMaxBytes: 64 << 20,
		IndexCompression: 0.62, FilterBitsPerKey: 10,
	}

	for level := range ModelLevels {
		spec.TargetFileBytes[level] = 2 << 20 << level
		spec.FilterLevels[level] = true
	}

	spec.Compression, _ = ValueCompression("table32") // which is known
	return spec
}

const (
	lastLevel = ModelLevels - 1

	blockTrailerBytes = 5
	restartInterval   = 16
	// Row-format index entry without its separator: three varints, the
	// internal key's trailer, the block handle's offset and length, and the
	// restart point that every index entry has.
	indexEntryBytes = 3 + 8 + 4 + 2 + 4
	// A filter ends in 5 bytes of parameters and is rounded up to an odd
	// number of 64-byte lines: one line more on average.
	filterFileBytes = 5 + 64
)

// SteadyStateLevels is the level table that loading spec.Keys hashed keys in random
// order settles into: Pebble's dynamic level sizing with each level full. L0 is
// empty. Where all fits LBaseMaxBytes there is the last level alone.
func SteadyStateLevels(spec SteadyStateSpec) []engine.Level {
	rest := Settle(spec.Keys, spec.LBaseMaxBytes, spec.TargetFileBytes, func(
		level int, keys float64,
	) float64 {
		return spec.block(level, keys).storedBytesPerKey
	})

	levels := make([]engine.Level, ModelLevels)
	for level := range levels {
		levels[level] = engine.Level{Level: level, Sublevels: 1, InCacheKnown: true}
		if n := math.Round(rest.Keys[level]); n >= 1 {
			spec.fill(&levels[level], n, rest.FileBytes[level])
		}
	}

	return levels
}

func (spec *SteadyStateSpec) entryBytes() int { return 3 + 8 + spec.KeyBytes + spec.ValueBytes }

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
func (spec *SteadyStateSpec) block(level int, n float64) (b blockShape) {
	shared := min(sharedBytes(n), float64(spec.KeyBytes))
	entry := float64(spec.entryBytes()) - shared*(restartInterval-1)/restartInterval +
		4.0/restartInterval
	b.keys = EntriesPerBlock(entry, float64(spec.entryBytes())+3, float64(spec.BlockBytes))
	b.rawBytes = 4 + b.keys*entry

	separator := min(separatorBytes(n), float64(spec.KeyBytes))
	b.indexEntryBytes = indexEntryBytes + separator
	b.indexEntries = EntriesPerBlock(b.indexEntryBytes, b.indexEntryBytes+3,
		float64(cmp.Or(spec.IndexBlockBytes, spec.BlockBytes)))

	b.storedBytesPerKey = (b.rawBytes*spec.Compression[level] + blockTrailerBytes +
		b.indexEntryBytes*spec.IndexCompression) / b.keys
	if spec.FilterLevels[level] {
		b.storedBytesPerKey += float64(spec.FilterBitsPerKey) / 8
	}

	return b
}

// EntriesPerBlock is the number of entries of entryBytes after which the next one, of nextBytes,
// would pass the target of a block, which is nine tenths full by then.
func EntriesPerBlock(entryBytes, nextBytes, targetBytes float64) float64 {
	const full = 0.9
	n := math.Floor((targetBytes-nextBytes-4)/entryBytes) + 1
	return max(1, n, math.Ceil((full*targetBytes-4)/entryBytes))
}

// fill sets the figures of a level of n keys in files of fileBytes.
func (spec *SteadyStateSpec) fill(l *engine.Level, n, fileBytes float64) {
	b := spec.block(l.Level, n)
	files := max(1, math.Round(n*b.storedBytesPerKey/fileBytes))
	dataBlocks := math.Ceil(n / b.keys)

	l.Files = int(files)
	l.Keys = int64(n)
	l.DataBlocks = int64(dataBlocks)
	l.DataBytes = int64(dataBlocks * (b.rawBytes*spec.Compression[l.Level] + blockTrailerBytes))
	l.DataCacheBytes = int64(dataBlocks * b.rawBytes)
	l.IndexCacheBytes = int64(dataBlocks * b.indexEntryBytes)
	if dataBlocks <= files*b.indexEntries {
		l.SingleIndexes = int64(files)
		l.SingleIndexCacheBytes = l.IndexCacheBytes
	} else {
		// a file's last block is half full
		l.IndexBlocks = int64(math.Round(dataBlocks/b.indexEntries + files/2))
		l.TopIndexCacheBytes = int64(float64(l.IndexBlocks)*b.indexEntryBytes + files*4)
		l.IndexCacheBytes += 4 * l.IndexBlocks
	}

	stored := func(cacheBytes int64) int64 {
		return int64(float64(cacheBytes) * spec.IndexCompression)
	}
	l.IndexBytes, l.TopIndexBytes, l.SingleIndexBytes = stored(l.IndexCacheBytes),
		stored(l.TopIndexCacheBytes), stored(l.SingleIndexCacheBytes)
	if spec.FilterBitsPerKey > 0 && spec.FilterLevels[l.Level] {
		l.FilterBytes = int64(n*float64(spec.FilterBitsPerKey)/8 + files*filterFileBytes)
		l.FilterConsulted = l.Level != lastLevel
	}

	l.FilterCacheBytes = l.FilterBytes
	l.Bytes = l.DataBytes + l.IndexBytes + l.TopIndexBytes + l.FilterBytes
}

// LevelShape is what loading in random order leaves once compactions have ended. L0
// holds a few files at most and counts as empty.
type LevelShape struct {
	// the first level below L0; the last one where all fits LBaseMaxBytes
	Base      int
	Keys      [ModelLevels]float64 // of each level
	FileBytes [ModelLevels]float64 // mean size of a level's files; 0 for an empty level
}

const levelMultiplier = 10 // Pebble's default

// Settle works out where keys come to rest. storedBytesPerKey tells what one of
// the keys of a level adds to its table; targetFileBytes are numbered as in
// Pebble's options, from L0 and the base level on.
func Settle(
	keys uint64, lbaseMaxBytes int64, targetFileBytes [ModelLevels]int64,
	storedBytesPerKey func(level int, keys float64) float64,
) LevelShape {
	r := LevelShape{Base: lastLevel}
	r.Keys[lastLevel] = float64(keys)
	// Level sizes follow from the database's size and that from how the keys
	// spread over levels of different compression: iterate to the fixed point.
	for range 40 {
		var dbBytes float64
		for level, n := range r.Keys {
			dbBytes += n * storedBytesPerKey(level, n)
		}

		var limits [ModelLevels]float64
		r.Base, limits = levelLimits(dbBytes, float64(lbaseMaxBytes))
		r.FileBytes = fileBytes(r.Base, dbBytes/BaseStarts(r.Base, float64(lbaseMaxBytes)),
			targetFileBytes)
		before := r.Keys
		r.Keys = [ModelLevels]float64{lastLevel: float64(keys)}
		for level := r.Base; level < lastLevel; level++ {
			// Whole files leave a level until it is below its limit: on average
			// it rests half a file below.
			n := max(limits[level]-r.FileBytes[level]/2, limits[level]/2) / storedBytesPerKey(
				level,
				before[level],
			)

			r.Keys[level] = n
			r.Keys[lastLevel] -= n
		}
	}

	return r
}

// levelLimits is Pebble's dynamic sizing (initLevelMaxBytes): the last level
// takes nine tenths, levels above shrink tenfold until one fits baseBytes, and
// the multiplier is then smoothed so that the base level is just that.
func levelLimits(dbBytes, baseBytes float64) (base int, limits [ModelLevels]float64) {
	bottom := dbBytes - dbBytes/levelMultiplier
	base = lastLevel
	for size := bottom; base > 1 && size > baseBytes; base-- {
		size /= levelMultiplier
	}

	if base == lastLevel {
		return base, limits
	}

	multiplier := math.Pow(bottom/baseBytes, 1/float64(lastLevel-base))
	size := baseBytes
	for level := base; level < lastLevel; level++ {
		limits[level] = size
		size *= multiplier
	}

	return base, limits
}

// BaseStarts is the size of the database from which L0 is compacted into base, in bytes.
func BaseStarts(base int, baseBytes float64) float64 {
	return baseBytes / (1 - 1.0/levelMultiplier) * math.Pow(levelMultiplier,
		float64(lastLevel-1-base))
}

// fileBytes is the mean file size of each level of a database that has grown
// to growth times the size at which its base level became that, from 1 to 10.
//
// Compactions end a file between half and twice its target, at a boundary of
// the level below if they can. How often they can depends on how dense those
// are, which grows with the database; and when a new base level moves all
// targets up by one, the last level keeps its old files until they are merged
// again. The exponents are fitted to settled loads of 1 to 20 M keys and to the
// published level tables, all within a quarter (docs/loading.md);
// from layouts alone, not from read figures.
func fileBytes(
	base int, growth float64, target [ModelLevels]int64,
) (mean [ModelLevels]float64) {
	if base == lastLevel {
		mean[lastLevel] = float64(target[1]) // nothing below to be aligned with
		return mean
	}

	fill := func(level int, share float64) { mean[level] = share * float64(target[1+level-base]) }
	fill(base, 1.08*math.Pow(growth, -0.3))
	for level := base + 1; level < lastLevel; level++ {
		fill(level, 0.63*math.Pow(growth, -0.2))
	}

	// Doubled as the database grows tenfold, as the targets are.
	fill(lastLevel, 0.45*math.Pow(growth, math.Log10(2)))
	return mean
}
