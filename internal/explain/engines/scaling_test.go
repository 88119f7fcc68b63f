package engines

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/model/scaling"
)

// A fit to every second number of threads predicts the others: as well as the law is
// that they follow, and a point that does not follow it is off by what it is off.
func TestScalingHoldsOutEverySecondNumberOfThreads(t *testing.T) {
	law := scaling.USL{Lambda: 1000, Sigma: .05, Kappa: .001}
	var all []setting
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		speed := law.At(float64(n))
		if n == 16 {
			speed *= 2
		}

		all = append(all, setting{
			engine:  "pebble1",
			threads: fmt.Sprint(n),
			speed:   speed,
			low:     speed,
			high:    speed,
			repeats: 1,
		})
	}

	sweep := read(t, enginesSweep(t, all...)).Sweeps[0]
	laws := sweep.laws()
	if len(laws) != 1 {
		t.Fatalf("%d laws", len(laws))
	}

	said := laws[0].sentences()
	i := slices.IndexFunc(said, func(s string) bool {
		return strings.HasPrefix(s, "A fit to 1, 2, 8, 32 threads alone predicts ")
	})
	if i < 0 || !strings.Contains(said[i], "at 4 (measured: 3.44k, off by +0.0%)") ||
		!strings.Contains(said[i], "off by -50.0%") {
		t.Errorf("%q", said)
	}

	few := read(t, enginesSweep(t, all[:3]...)).Sweeps[0]
	if said := few.laws()[0].heldOut("threads"); said != nil {
		t.Errorf("three points: %q", said)
	}
}
