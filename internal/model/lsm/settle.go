package lsm

import (
	"math"

	"github.com/statelab/statelab/engine"
)

// Rest is what loading in random order leaves once compactions have ended. L0
// holds a few files at most and counts as empty.
type Rest struct {
	Base      int                       // the first level below L0; the last one where all fits LBaseMaxBytes
	Keys      [engine.MaxLevels]float64 // of each level
	FileBytes [engine.MaxLevels]float64 // mean size of a level's files; 0 for an empty level
}

const levelMultiplier = 10 // Pebble's default

// Settle works out where keys come to rest. storedBytesPerKey tells what one of
// the keys of a level adds to its table; targetFileBytes are numbered as in
// Pebble's options, from L0 and the base level on.
func Settle(keys uint64, lbaseMaxBytes int64, targetFileBytes [engine.MaxLevels]int64, storedBytesPerKey func(level int, keys float64) float64) Rest {
	r := Rest{Base: lastLevel}
	r.Keys[lastLevel] = float64(keys)
	// Level sizes follow from the database's size and that from how the keys
	// spread over levels of different compression: iterate to the fixed point.
	for range 40 {
		var dbBytes float64
		for level, n := range r.Keys {
			dbBytes += n * storedBytesPerKey(level, n)
		}
		var limits [engine.MaxLevels]float64
		r.Base, limits = levelLimits(dbBytes, float64(lbaseMaxBytes))
		r.FileBytes = fileBytes(r.Base, dbBytes/BaseStarts(r.Base, float64(lbaseMaxBytes)), targetFileBytes)
		before := r.Keys
		r.Keys = [engine.MaxLevels]float64{lastLevel: float64(keys)}
		for level := r.Base; level < lastLevel; level++ {
			// Whole files leave a level until it is below its limit: on average
			// it rests half a file below.
			n := max(limits[level]-r.FileBytes[level]/2, limits[level]/2) / storedBytesPerKey(level, before[level])
			r.Keys[level] = n
			r.Keys[lastLevel] -= n
		}
	}
	return r
}

// levelLimits is Pebble's dynamic sizing (initLevelMaxBytes): the last level
// takes nine tenths, levels above shrink tenfold until one fits baseBytes, and
// the multiplier is then smoothed so that the base level is just that.
func levelLimits(dbBytes, baseBytes float64) (base int, limits [engine.MaxLevels]float64) {
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
	return baseBytes / (1 - 1.0/levelMultiplier) * math.Pow(levelMultiplier, float64(lastLevel-1-base))
}

// fileBytes is the mean file size of each level of a database that has grown
// to growth times the size at which its base level became that, from 1 to 10.
//
// Compactions end a file between half and twice its target, at a boundary of
// the level below if they can. How often they can depends on how dense those
// are, which grows with the database; and when a new base level moves all
// targets up by one, the last level keeps its old files until they are merged
// again. The exponents are fitted to settled loads of 1 to 20 M keys and to the
// published level tables, all within a quarter (docs/shape.md);
// from layouts alone, not from read figures.
func fileBytes(base int, growth float64, target [engine.MaxLevels]int64) (mean [engine.MaxLevels]float64) {
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
