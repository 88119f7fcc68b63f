package pebbledb

import (
	"math"
	"slices"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/lsm"
)

func planOf(keys, seed uint64) (buildPlan, lsm.LevelShape) {
	const storedBytes = 153.6
	var bytesPerKey [Levels]float64
	var target [Levels]int64
	for i := range target {
		bytesPerKey[i], target[i] = storedBytes, 2<<20<<i
	}

	rest := lsm.Settle(keys, 64<<20, target, func(int, float64) float64 { return storedBytes })
	return newBuildPlan(engine.SortedSpec{Keys: keys, Seed: seed}, rest, bytesPerKey, 700_000,
		true), rest
}

// Every key goes to one range of one level, and each level gets its number.
func TestPlanPlacesEveryKeyOnce(t *testing.T) {
	for seed, keys := range []uint64{1, 1000, 400_000, 1_000_000, 5_000_000} {
		plan, rest := planOf(keys, uint64(seed))
		placed := make([]uint8, keys)
		var held [Levels]float64
		for _, r := range slices.Concat(plan.tables, plan.recent) {
			place := plan.placer(min(r.from, keys-1))
			for i := r.from; i < r.to; i++ {
				if _, is := place.holds(r.level, i); is {
					placed[i]++
					held[r.level]++
				}
			}
		}

		for i, n := range placed {
			if n != 1 {
				t.Fatalf("%d keys: key %d is placed %d times", keys, i, n)
			}
		}

		for level := 1; level < lastLevel; level++ {
			if want := rest.Keys[level]; math.Abs(held[level]-want) > 0.01*want+10 {
				t.Errorf("%d keys: L%d holds %.0f, not %.0f", keys, level, held[level], want)
			}
		}
	}
}

// Otherwise ingestion would let a table sink below its level.
func TestPlanLaysEachTableOverKeysOfTheLevelBelow(t *testing.T) {
	for _, keys := range []uint64{600_000, 1_000_000, 5_000_000, 30_000_000} {
		for seed := range uint64(200) {
			plan, _ := planOf(keys, seed)
			for _, upper := range plan.tables {
				if upper.level == lastLevel {
					continue
				}

				if n := plan.expect(upper.level+1, upper.from, upper.to); n < 50 {
					t.Errorf("%d keys, seed %d: %+v lies over %.1f keys of the level below", keys,
						seed, upper, n)
				}
			}
		}
	}
}

// expect is how many keys of a level lie in a range, on average.
func (p *buildPlan) expect(level int, from, to uint64) (n float64) {
	at := uint64(0)
	for _, piece := range p.pieces {
		first, end := max(at, from), min(piece.to, to)
		at = piece.to
		if first >= end {
			continue
		}

		share := 1.0
		if level != lastLevel {
			share = float64(piece.ends[level]) / math.MaxUint64
		}

		share -= float64(piece.ends[level-1]) / math.MaxUint64
		n += share * float64(end-first)
	}

	return n
}

func TestPlanKeepsRangesOfALevelApart(t *testing.T) {
	for seed := range uint64(50) {
		plan, _ := planOf(30_000_000, seed)
		var end [Levels]uint64
		for _, r := range plan.tables {
			if r.from < end[r.level] || r.to > 30_000_000 {
				t.Fatalf("seed %d: %+v begins before %d", seed, r, end[r.level])
			}
			end[r.level] = r.to
		}

		if end[lastLevel] != 30_000_000 {
			t.Errorf("seed %d: the last level ends at %d", seed, end[lastLevel])
		}
	}
}
