package lsm

import (
	"math"
	"testing"

	"github.com/statelab/statelab/engine"
)

// growthOf is how the databases of BenchKVDB grow.
func growthOf(spec SteadyStateSpec) Growth {
	return Growth{spec.LBaseMaxBytes, spec.TargetFileBytes}
}

// TestGrowthOfPublishedLoads: a load of twice, or five times, the keys has the levels that the
// smaller one grows to, also where a level more begins.
func TestGrowthOfPublishedLoads(t *testing.T) {
	for _, c := range []struct {
		keys   uint64
		factor float64
	}{{2e6, 2}, {20e6, 2}, {200e6, 2}, {200e6, 5}, {2e9, 2}, {20e6, 1}} {
		spec := BenchKVDB(c.keys)
		grown := growthOf(spec).Levels(SteadyStateLevels(spec), c.factor)
		spec.Keys = uint64(float64(c.keys) * c.factor)
		loaded := SteadyStateLevels(spec)
		within := func(what string, level int, have, want int64, off float64) {
			t.Helper()
			if math.Abs(float64(have-want)) > off*float64(want)+1 {
				t.Errorf("%d keys x %v, L%d: %s %d, a load has %d", c.keys, c.factor, level, what,
					have, want)
			}
		}

		var all, allLoaded engine.Level
		of := map[int]engine.Level{}
		for _, l := range grown {
			of[l.Level], all = l, all.Plus(l)
		}

		for _, l := range loaded {
			allLoaded = allLoaded.Plus(l)
			within("keys", l.Level, of[l.Level].Keys, l.Keys, 0.05)
			within("bytes of filters", l.Level, of[l.Level].FilterCacheBytes, l.FilterCacheBytes,
				0.06)
			if l.Keys > 0 && of[l.Level].FilterConsulted != l.FilterConsulted {
				t.Errorf("%d keys x %v, L%d: filters consulted %v", c.keys, c.factor, l.Level,
					of[l.Level].FilterConsulted)
			}
		}

		within("keys in all", -1, all.Keys, allLoaded.Keys, 0.001)
		within("bytes in all", -1, all.Bytes, allLoaded.Bytes, 0.02)
		within("bytes of indexes in a cache", -1, all.IndexCacheBytes, allLoaded.IndexCacheBytes,
			0.05)
	}
}

// TestGrowthFromOneLevel: a database of the last level alone gets a level above, whose filters are
// asked, and L0 stays as it is.
func TestGrowthFromOneLevel(t *testing.T) {
	spec := BenchKVDB(400e3)
	present := SteadyStateLevels(spec)
	present[0] = engine.Level{Sublevels: 2, Files: 3, Keys: 10, Bytes: 1000, InCacheKnown: true}
	grown := growthOf(spec).Levels(present, 4)
	if len(grown) != 3 || grown[0] != present[0] || grown[1].Level != lastLevel-1 ||
		!grown[1].FilterConsulted || grown[2].FilterConsulted || grown[1].Keys == 0 {
		t.Errorf("%+v", grown)
	}

	for _, inL0 := range []int64{0, 10, 200e3} {
		present[0].Keys = inL0
		all := int64(0)
		for _, l := range growthOf(spec).Levels(present, 4) {
			all += l.Keys
		}

		if want := 4 * (400e3 + inL0); math.Abs(float64(all-want)) > 3 {
			t.Errorf("%d keys in L0: %d keys grown to 4x, want %d", inL0, all, want)
		}
	}
}
