package predict

import (
	"math"

	"github.com/statelab/statelab/engine"
)

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
