package predict

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/statelab/statelab/engine"
)

// Geometry is how the files of a level lie in key space. Spreads are
// coefficients of variation over the level's files.
type Geometry struct {
	// Coverage is the share of key space below the level's largest key. A Get
	// above it finds no file.
	Coverage float64
	// Gaps is the share of the covered key space that lies between files.
	Gaps float64

	WidthSpread float64 // of files' widths in key space
	SizeSpread  float64 // of files' bytes
	Correlation float64 // of width and size
	GapSpread   float64 // of the gaps before files: many have none
}

// RandomLoad is the geometry that loading in random order leaves, by distance
// from the base level. A compaction takes a file out of a level and leaves a
// gap as wide: the base level is mostly gaps, levels below are denser, the last
// has none.
//
// The figures were measured on two loads with the published shapes scaled down
// 32 and 128 times; TestGeometryOfARandomLoad repeats the smaller one. No
// published read figure went into them.
func RandomLoad(levels []engine.Level) []Geometry {
	below := []Geometry{
		{Coverage: 0.94, Gaps: 0.85, WidthSpread: 0.72, SizeSpread: 0.40, Correlation: 0.17, GapSpread: 1.24},
		{Coverage: 1, Gaps: 0.59, WidthSpread: 0.94, SizeSpread: 0.45, Correlation: 0.37, GapSpread: 1.83},
		{Coverage: 1, Gaps: 0.25, WidthSpread: 0.68, SizeSpread: 0.65, Correlation: 0.63, GapSpread: 1.90},
		{Coverage: 1, Gaps: 0.16, WidthSpread: 0.66, SizeSpread: 0.62, Correlation: 0.65, GapSpread: 2.34},
	}
	last := Geometry{Coverage: 1, WidthSpread: 0.46, SizeSpread: 0.45, Correlation: 0.96}
	// What a flush leaves in L0 is like a base level, but ends anywhere.
	l0 := below[0]
	l0.Coverage = 0.5

	geometry := make([]Geometry, len(levels))
	depth := 0
	for i, l := range levels {
		switch {
		case i >= deepest(levels):
			geometry[i] = last
		case l.Level == 0:
			geometry[i] = l0
		case l.Files > 0:
			geometry[i] = below[min(depth, len(below)-1)]
			depth++
		}
	}
	return geometry
}

// deepest is the position of the last level with files, or -1.
func deepest(levels []engine.Level) int {
	for i := len(levels) - 1; i >= 0; i-- {
		if levels[i].Files > 0 {
			return i
		}
	}
	return -1
}

// file is a file's share in the widths, sizes and gaps of its level.
type file struct{ width, size, gap float64 }

// files draws the files of a level: gamma variates, those of width and size
// correlated by a common part.
func (g Geometry) files(n int, random *rand.Rand) []file {
	widthShape, sizeShape, gapShape := gammaShape(g.WidthSpread), gammaShape(g.SizeSpread), gammaShape(g.GapSpread)
	common := min(g.Correlation*math.Sqrt(widthShape*sizeShape), widthShape, sizeShape)
	gamma := func(shape float64) float64 {
		if shape <= 0 {
			return 0
		}
		return distuv.Gamma{Alpha: shape, Beta: 1, Src: random}.Rand()
	}
	n = max(1, n)
	widths, sizes, gaps := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		both := gamma(common)
		widths[i] = both + gamma(widthShape-common)
		sizes[i] = both + gamma(sizeShape-common)
		gaps[i] = gamma(gapShape)
	}
	files := make([]file, n)
	widthSum, sizeSum, gapSum := floats.Sum(widths), floats.Sum(sizes), floats.Sum(gaps)
	for i := range files {
		files[i] = file{widths[i] / widthSum, sizes[i] / sizeSum, gaps[i] / gapSum}
	}
	return files
}

// gammaShape is the shape of a gamma distribution with a coefficient of
// variation; none at all is a very small one.
func gammaShape(spread float64) float64 {
	spread = max(spread, 0.01)
	return 1 / (spread * spread)
}
