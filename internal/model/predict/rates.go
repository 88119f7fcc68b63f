package predict

import (
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// class is a set of blocks that a Get asks for alike.
type class struct {
	kind      engine.BlockType
	level     int
	perGet    float64 // accesses per Get
	blocks    float64
	bytes     float64 // mean, in the cache
	charge    float64 // of bytes: what the cache adds to each block, however small
	perFile   bool    // one block per file, as the file is wide and large
	firstRate float64 // accesses per Get, of perGet, to files' first blocks only
	files     float64
	geometry  Geometry
}

// accessRates are the classes of a level table. For the levels j from the top
// (L0 as one level per sublevel):
//
//	found_j = share of Gets whose key lies in level j
//	reach_j = 1 - found above
//	touch_j = found_j + (reach_j - found_j) * coverage_j
//	pass_j  = (touch_j - found_j) * false positives of the filter, 1 without filter
//
// Every touch reads the top index and the filter, every found or passed Get an
// index and a data block. Pebble v1 opens the file behind a gap and reads its
// first blocks when the filter lets the Get pass; v2 sees the gap in the file's
// bounds.
func accessRates(levels []engine.Level, geometry []Geometry, version cachesim.PebbleVersion, absentShare float64) ([]class, error) {
	var keys float64
	for _, l := range levels {
		keys += float64(l.Keys)
	}
	if keys <= 0 {
		return nil, fmt.Errorf("the levels hold no keys")
	}
	last := Deepest(levels)
	var classes []class
	foundAbove := 0.0
	for i, l := range levels {
		if l.Files == 0 {
			continue
		}
		if err := checkLevel(l); err != nil {
			return nil, err
		}
		// Sublevels share the level's files and keys.
		for range max(1, l.Sublevels) {
			sublevels := float64(max(1, l.Sublevels))
			g := geometry[i]
			if i == last {
				g.Coverage = 1
			}
			found := (1 - absentShare) * float64(l.Keys) / sublevels / keys
			others := (1 - foundAbove - found) * g.Coverage // touches in vain
			if version == cachesim.PebbleV2 {
				others *= 1 - g.Gaps
				g.Gaps = 0
			}
			foundAbove += found
			pass := others
			if l.FilterConsulted {
				pass *= FalsePositives(l)
			}
			classes = append(classes, levelClasses(l, sublevels, float64(version.BlockCharge()), found+others, found, pass, g)...)
		}
	}
	return classes, nil
}

// checkLevel refuses levels whose blocks cannot be counted or sized.
func checkLevel(l engine.Level) error {
	switch {
	case !l.InCacheKnown:
		return fmt.Errorf("level %d: what its blocks take in a cache is not known", l.Level)
	case l.Files < 0 || l.Keys <= 0 || l.DataBlocks <= 0 || l.DataCacheBytes <= 0:
		return fmt.Errorf("level %d: %d files with %d keys in %d data blocks of %d bytes in a cache", l.Level, l.Files, l.Keys, l.DataBlocks, l.DataCacheBytes)
	case l.IndexBlocks+l.SingleIndexes <= 0:
		return fmt.Errorf("level %d: no index blocks", l.Level)
	}
	return nil
}

// levelClasses are the classes of one level (or sublevel) and its rates.
func levelClasses(l engine.Level, sublevels, charge, touch, found, pass float64, g Geometry) []class {
	files := float64(l.Files) / sublevels
	twoLevel := 1 - float64(l.SingleIndexes)/float64(l.Files) // share of files
	mean := func(bytes int64, blocks float64) float64 { return float64(bytes) / sublevels / max(blocks, 1) }
	level := class{level: l.Level, charge: charge, files: files, geometry: g}

	var classes []class
	add := func(kind engine.BlockType, perGet, blocks float64, bytes int64, perFile bool, firstRate float64) {
		if perGet <= 0 || blocks <= 0 {
			return
		}
		c := level
		c.kind, c.perGet, c.blocks, c.bytes, c.perFile, c.firstRate = kind, perGet, blocks, mean(bytes, blocks), perFile, firstRate
		classes = append(classes, c)
	}
	if l.FilterConsulted {
		add(engine.Filter, touch, files, l.FilterCacheBytes, true, 0)
	}
	add(engine.TopIndex, touch*twoLevel, files*twoLevel, l.TopIndexCacheBytes, true, 0)
	add(engine.SingleIndex, touch*(1-twoLevel), files*(1-twoLevel), l.SingleIndexCacheBytes, true, 0)
	add(engine.Index, (found+pass)*twoLevel, float64(l.IndexBlocks)/sublevels, l.IndexCacheBytes-l.SingleIndexCacheBytes, false, pass*g.Gaps*twoLevel)
	add(engine.Data, found+pass, float64(l.DataBlocks)/sublevels, l.DataCacheBytes, false, pass*g.Gaps)
	return classes
}
