package workload

import (
	"math"
	"testing"
)

func TestUniformCoversAllKeysEvenly(t *testing.T) {
	const keys, draws = 10, 100_000
	s := Choice{Keys: keys, Seed: 7}.Stream(MeasurePhase, 0)
	var seen [keys]int
	for range draws {
		index, absent := s.Next()
		if absent {
			t.Fatal("an absent key without a missing share")
		}
		seen[index]++
	}

	for key, n := range seen {
		// 5 standard deviations of a binomial count
		if mean := draws / keys; math.Abs(float64(n-mean)) > 5*math.Sqrt(draws*0.1*0.9) {
			t.Errorf("key %d drawn %d times, expected about %d", key, n, mean)
		}
	}
}

func TestMissingShareAndAbsentIndexes(t *testing.T) {
	const keys, draws = 1000, 100_000
	for _, share := range []float64{0, 0.2, 1} {
		s := Choice{Keys: keys, MissingShare: share, Seed: 1}.Stream(MeasurePhase, 3)
		missing := 0
		last := uint64(0)
		for range draws {
			index, absent := s.Next()
			if absent != (index >= keys) {
				t.Fatalf("index %d of %d keys called absent=%v", index, keys, absent)
			}

			if absent {
				if index <= last {
					t.Fatalf("absent index %d asked for after %d", index, last)
				}
				last = index
				missing++
			}
		}

		if got := float64(missing) / draws; math.Abs(got-share) > 0.005 {
			t.Errorf("missing share %v: drew %v", share, got)
		}
	}
}

func TestStreamsRepeatAndDiffer(t *testing.T) {
	c := Choice{Keys: 1 << 40, Seed: 42}
	first, _ := c.Stream(MeasurePhase, 0).Next()
	again, _ := c.Stream(MeasurePhase, 0).Next()
	other, _ := c.Stream(MeasurePhase, 1).Next()
	warm, _ := c.Stream(WarmPhase, 0).Next()
	if first != again {
		t.Errorf("same seed, phase and worker gave %d and %d", first, again)
	}

	if first == other || first == warm {
		t.Errorf("worker 1 or the warm phase repeats worker 0's choices (%d)", first)
	}
}

// The oracle is the definition: P(rank) = (rank+1)^-theta / H(n, theta).
func TestZipfMatchesItsDefinition(t *testing.T) {
	const n, draws = 1000, 400_000
	for _, theta := range []float64{0.5, 0.99, 1, 1.2} {
		z := newZipf(n, theta)
		r := &rng{1}
		var seen [n]int
		for range draws {
			seen[z.next(r)]++
		}

		harmonic := 0.0
		for k := 1; k <= n; k++ {
			harmonic += math.Pow(float64(k), -theta)
		}

		for _, rank := range []int{0, 1, 2, 9, 99} {
			p := math.Pow(float64(rank+1), -theta) / harmonic
			want, sd := p*draws, math.Sqrt(p*(1-p)*draws)
			if math.Abs(float64(seen[rank])-want) > 5*sd+1 {
				t.Errorf("theta %v rank %d: drawn %d times, expected %.0f +- %.0f", theta, rank,
					seen[rank], want, sd)
			}
		}
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	s := Choice{Keys: 1e6, MissingShare: 0.1, ZipfTheta: 0.99, Seed: 1}.Stream(MeasurePhase, 0)
	if n := testing.AllocsPerRun(1000, func() { s.Next() }); n != 0 {
		t.Errorf("Next allocates %v times", n)
	}
}
