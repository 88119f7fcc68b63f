package predict

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/statelab/statelab/engine"
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
	perLine := keys / lines
	rate, probability := 0.0, math.Exp(-perLine)
	for k := 1.0; k < 10*perLine+50; k++ {
		probability *= perLine / k
		rate += probability * math.Pow(1-math.Pow(1-1.0/lineBits, probes*k), probes)
	}
	return min(1, rate+dependent)
}
