package predict

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// Geometry is how the files of a level lie in key space.
type Geometry struct {
	// Coverage is the share of key space below the level's largest key. A Get
	// above it finds no file.
	Coverage float64
	// Gaps is the share of the covered key space that lies between files.
	Gaps float64
	// Files are the level's files, or a sample of files like them.
	Files []File
}

// File is a file among those of its level. The unit of each figure is free: only
// shares of the level's sum matter.
type File struct {
	Bytes float64
	Width float64 // in key space
	Gap   float64 // before the file
}

// loadedFiles was measured on five random loads with the published level sizes
// scaled down 32 or 128 times. No read figure went into it.
//
//go:embed files.csv
var loadedFiles string

// RandomLoad is the geometry that loading in random order leaves. A compaction
// takes a file out of a level and leaves a gap as wide: the base level is mostly
// gaps, levels below are denser, the last has none.
//
// Shares are means of nine scaled loads, among which the upper levels differ
// widely (gaps 0.26 to 0.94 in the base level, 0.31 to 0.66 in the next, 0.18 to
// 0.29 in the third); TestPredictionOfRealPebble makes one of them.
func RandomLoad(levels []engine.Level) []Geometry {
	files := parseFiles(loadedFiles)
	below := []Geometry{
		{Coverage: 0.85, Gaps: 0.71, Files: files["0"]},
		{Coverage: 1, Gaps: 0.52, Files: files["1"]},
		{Coverage: 1, Gaps: 0.22, Files: files["2"]},
		{Coverage: 1, Gaps: 0.16, Files: files["3"]},
	}

	// What compactions leave of a flush in L0 ends anywhere.
	l0 := Geometry{Coverage: 0.7, Gaps: 0.5, Files: files["0"]}

	geometry := make([]Geometry, len(levels))
	depth := 0
	for i, l := range levels {
		switch {
		case i >= Deepest(levels):
			geometry[i] = Geometry{Coverage: 1, Files: files["last"]}
		case l.Level == 0:
			geometry[i] = l0
		case l.Files > 0:
			geometry[i] = below[min(depth, len(below)-1)]
			depth++
		}
	}

	return geometry
}

// parseFiles reads lines "depth,bytes,width,gap" of the embedded table, which a
// test has read before.
func parseFiles(table string) map[string][]File {
	files := make(map[string][]File)
	for line := range strings.Lines(table) {
		depth, figures, found := strings.Cut(strings.TrimSpace(line), ",")
		if !found || strings.HasPrefix(depth, "#") {
			continue
		}

		var f File
		if _, err := fmt.Sscanf(figures, "%g,%g,%g", &f.Bytes, &f.Width, &f.Gap); err != nil {
			panic("predict: embedded files.csv: " + err.Error())
		}

		files[depth] = append(files[depth], f)
	}

	return files
}

// Deepest is the position of the last level with files, or -1.
func Deepest(levels []engine.Level) int {
	for i := len(levels) - 1; i >= 0; i-- {
		if levels[i].Files > 0 {
			return i
		}
	}
	return -1
}

// draw returns n files as shares of their sums: the files of the geometry where
// it has as many, else a sample of them.
func (g Geometry) draw(n int, random *rand.Rand) []File {
	n = max(1, n)
	files := make([]File, n)
	var sum File
	for i := range files {
		f := File{1, 1, 1}
		switch len(g.Files) {
		case 0:
		case n:
			f = g.Files[i]
		default:
			f = g.Files[random.IntN(len(g.Files))]
		}

		files[i] = f
		sum = File{sum.Bytes + f.Bytes, sum.Width + f.Width, sum.Gap + f.Gap}
	}

	share := func(part, sum float64) float64 {
		if sum <= 0 {
			return 1 / float64(n)
		}
		return part / sum
	}

	for i, f := range files {
		files[i] = File{share(f.Bytes, sum.Bytes), share(f.Width, sum.Width), share(f.Gap, sum.Gap)}
	}

	return files
}

// FalsePositives is the share of absent keys that a level's filters let pass.
//
// Pebble's filter keeps the bits of a key within one line of 512, so lines are
// full by chance: the rate is the mean over a Poisson number of keys per line.
// That its six probes are not independent adds as much again as measured below.
// The number of lines is rounded up to an odd one: small tables have room to
// spare and pass fewer.
//
// Measured with the library's filter of 10 bits a key (TestFalsePositives); the
// textbook's 0.84 % knows neither lines nor dependent probes.
func FalsePositives(l engine.Level) float64 {
	const (
		lineBits, lineBytes, parameterBytes = 512, 64, 5

		probes    = 6
		dependent = 0.0020
	)

	lines := (float64(l.FilterBytes)/float64(l.Files) - parameterBytes) / lineBytes
	keys := float64(l.Keys) / float64(l.Files)
	if lines < 1 || keys <= 0 {
		return 1
	}

	return min(1, passesLines(keys/lines, lineBits, probes)+dependent)
}

// passesLines is the share of absent keys whose probes all meet bits in a line that holds the bits
// of perLine keys on average.
func passesLines(perLine, lineBits, probes float64) (rate float64) {
	probability := math.Exp(-perLine)
	for k := 1.0; k < 10*perLine+50; k++ {
		probability *= perLine / k
		rate += probability * math.Pow(1-math.Pow(1-1/lineBits, probes*k), probes)
	}
	return rate
}

// class is a set of blocks that a Get asks for alike.
type class struct {
	kind      engine.BlockType
	level     int
	perGet    float64 // accesses per Get
	blocks    float64
	bytes     float64 // mean, in the cache
	charge    float64 // of bytes: what the cache adds to each block, however small
	high      bool    // it enters the cache with high priority
	perFile   bool    // one block per file, as the file is wide and large
	firstRate float64 // accesses per Get, of perGet, to files' first blocks only
	files     float64
	geometry  Geometry
	searched  searched // of block-based tables
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
func (in *Input) accessRates(geometry []Geometry) ([]class, error) {
	levels, version, absentShare := in.Levels, in.Version, in.AbsentShare
	var keys float64
	for _, l := range levels {
		keys += float64(l.Keys)
	}

	if keys <= 0 {
		return nil, fmt.Errorf("the levels hold no keys")
	}

	last := Deepest(levels)
	var classes []class
	foundAbove, steps := 0.0, 0
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
			touched := g.Coverage
			others := (1 - foundAbove - found) * touched // in vain
			if version == cachesim.PebbleV2 || in.Blocks != nil {
				others *= 1 - g.Gaps
				touched *= 1 - g.Gaps
				g.Gaps = 0
			}

			if !in.NoEarlyExit {
				foundAbove += found
			}

			pass := others
			if in.Blocks != nil {
				steps++
				step := searched{
					number:  steps,
					found:   found,
					touched: touched,
					passed:  in.Blocks.falsePositives(l),
				}

				pass *= step.passed
				for _, c := range in.Blocks.classes(l, sublevels, found+others, found+pass, g) {
					c.searched = step
					classes = append(classes, c)
				}

				continue
			}

			switch {
			case l.FilterConsulted && in.FilterRate != nil:
				pass *= in.FilterRate(l)
			case l.FilterConsulted:
				pass *= FalsePositives(l)
			}

			classes = append(classes,
				levelClasses(l, sublevels, float64(version.BlockCharge()), found+others, found,
					pass, g)...)
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
		return fmt.Errorf(
			"level %d: %d files with %d keys in %d data blocks of %d bytes in a cache",
			l.Level,
			l.Files,
			l.Keys,
			l.DataBlocks,
			l.DataCacheBytes,
		)
	case l.IndexBlocks+l.SingleIndexes <= 0:
		return fmt.Errorf("level %d: no index blocks", l.Level)
	}

	return nil
}

// levelClasses are the classes of one level (or sublevel) and its rates.
func levelClasses(
	l engine.Level, sublevels, charge, touch, found, pass float64, g Geometry,
) []class {
	files := float64(l.Files) / sublevels
	twoLevel := 1 - float64(l.SingleIndexes)/float64(l.Files) // share of files
	mean := func(bytes int64, blocks float64) float64 {
		return float64(bytes) / sublevels / max(blocks, 1)
	}
	level := class{level: l.Level, charge: charge, files: files, geometry: g}

	var classes []class
	add := func(
		kind engine.BlockType, perGet, blocks float64, bytes int64, perFile bool, firstRate float64,
	) {
		if perGet <= 0 || blocks <= 0 {
			return
		}

		c := level
		c.kind, c.perGet, c.blocks, c.bytes, c.perFile, c.firstRate = kind, perGet, blocks,
			mean(bytes, blocks), perFile, firstRate
		classes = append(classes, c)
	}

	if l.FilterConsulted {
		add(engine.Filter, touch, files, l.FilterCacheBytes, true, 0)
	}

	add(engine.TopIndex, touch*twoLevel, files*twoLevel, l.TopIndexCacheBytes, true, 0)
	add(engine.SingleIndex, touch*(1-twoLevel), files*(1-twoLevel), l.SingleIndexCacheBytes, true,
		0)
	add(engine.Index, (found+pass)*twoLevel, float64(l.IndexBlocks)/sublevels,
		l.IndexCacheBytes-l.SingleIndexCacheBytes, false, pass*g.Gaps*twoLevel)
	add(engine.Data, found+pass, float64(l.DataBlocks)/sublevels, l.DataCacheBytes, false,
		pass*g.Gaps)
	return classes
}
