package predict

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// simulation plays one shard's accesses to its cache.
type simulation struct {
	plan      *shardPlan
	classes   int
	cache     *cachesim.ClockPro
	random    *rand.PCG
	stepsLeft int64 // of the cache's hands
	// leastStretch is how many accesses a stretch needs at least to show whether the
	// cache still fills.
	leastStretch float64
}

// outcome is what a shard's accesses came to.
type outcome struct {
	measured     tally
	steady       tally // the last stretch, where it was asked for
	extrapolated bool
}

const (
	// A run is played in so many stretches; between them we look whether to go
	// on.
	stretches = 32
	// maxSteps bounds the hands' steps of all shards of a point, and with them
	// its time: about 3 ns each.
	maxSteps = 4e9
	// Steady state is reached when the miss rate of a stretch differs by less
	// than this from that of the one before, half as long; or taken to be
	// after so many accesses.
	steadyChange      = 0.002
	maxSteadyAccesses = 16e6
	// With a tenth of the accesses missing, so many for each block that fits bring in as many
	// blocks as the cache holds, or more. In a shorter stretch the miss rate of a large cache
	// hardly changes even while it fills.
	accessesPerBlock = 16
	usualBlockBytes  = 4096
)

// run plays warm-up and measured Gets, and goes on to the steady state if told
// to.
func (s *simulation) run(ctx context.Context, warmupGets, gets float64, toSteadyState bool) (outcome, error) {
	out := outcome{measured: newTally(s.classes), steady: newTally(s.classes)}
	if err := s.play(ctx, warmupGets*s.plan.perGet, newTally(s.classes)); err != nil {
		return out, err
	}
	stretch := math.Max(1, gets*s.plan.perGet/stretches)
	var last tally
	var missRates []float64 // of the stretches
	for i := range stretches {
		last = newTally(s.classes)
		if err := s.play(ctx, stretch, last); err != nil {
			return out, err
		}
		out.measured.add(last)
		missRates = append(missRates, last.allMissRate())
		spinning := s.cache.Steps > s.stepsLeft
		if rest := stretches - 1 - i; rest > 0 && (spinning || settled(missRates, stretch)) {
			out.measured.addTimes(last, float64(rest))
			out.steady, out.extrapolated = last, spinning
			return out, nil
		}
	}
	if !toSteadyState {
		return out, nil
	}
	before := math.Inf(1)
	stretch = min(max(gets*s.plan.perGet, s.leastStretch), maxSteadyAccesses/2)
	for played := 0.0; ; stretch *= 2 {
		last = newTally(s.classes)
		if err := s.play(ctx, stretch, last); err != nil {
			return out, err
		}
		played += stretch
		now := last.allMissRate()
		if math.Abs(now-before) <= steadyChange*now || played >= maxSteadyAccesses || s.cache.Steps > s.stepsLeft {
			out.steady = last
			return out, nil
		}
		before = now
	}
}

// settled reports whether the miss rates of the last stretches, of so many
// accesses each, differ by no more than chance and a thousandth.
func settled(missRates []float64, stretch float64) bool {
	const few, window = 250_000, 4
	if stretch < few || len(missRates) < 2*window {
		return false
	}
	before := floats.Sum(missRates[len(missRates)-2*window:len(missRates)-window]) / window
	now := floats.Sum(missRates[len(missRates)-window:]) / window
	return math.Abs(now-before) < 0.001*now
}

// play makes n accesses and counts them.
func (s *simulation) play(ctx context.Context, n float64, count tally) error {
	const unit = 1 << 20
	for left := int64(math.Round(n)); left > 0; left -= unit {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.plan.play(s.cache, min(left, unit), s.random, count)
	}
	return nil
}

// play is the inner loop: draw a block, ask the cache for it.
func (p *shardPlan) play(cache *cachesim.ClockPro, n int64, random *rand.PCG, count tally) {
	rows := uint64(len(p.draws))
	if rows == 0 {
		return
	}
	for range n {
		r := random.Uint64()
		row := &p.draws[r>>32*rows>>32]
		if uint32(r) > row.threshold {
			row = &p.draws[row.alias]
		}
		id := row.first
		if row.n > 1 {
			id += uint32(random.Uint64() >> 32 * uint64(row.n) >> 32)
		}
		of := &count[row.class]
		of.accesses++
		if !cache.Access(id, row.bytes) {
			of.misses++
		}
	}
}

// tally counts accesses and misses of each class.
type tally []struct{ accesses, misses int64 }

func newTally(classes int) tally { return make(tally, classes) }

func (t tally) add(u tally) { t.addTimes(u, 1) }

func (t tally) addTimes(u tally, times float64) {
	for i := range t {
		t[i].accesses += int64(math.Round(float64(u[i].accesses) * times))
		t[i].misses += int64(math.Round(float64(u[i].misses) * times))
	}
}

func (t tally) accesses() (n int64) {
	for _, c := range t {
		n += c.accesses
	}
	return n
}

// missRates are those of the classes. A class that no simulated shard was asked
// for has that of its block type; 1 if the type was not asked for either.
func (t tally) missRates(classes []class) []float64 {
	var ofType [engine.NumBlockTypes]struct{ accesses, misses int64 }
	for i, c := range t {
		ofType[classes[i].kind].accesses += c.accesses
		ofType[classes[i].kind].misses += c.misses
	}
	rates := make([]float64, len(t))
	for i, c := range t {
		if c.accesses == 0 {
			c = ofType[classes[i].kind]
		}
		rates[i] = 1
		if c.accesses > 0 {
			rates[i] = float64(c.misses) / float64(c.accesses)
		}
	}
	return rates
}

func (t tally) allMissRate() float64 {
	var misses int64
	for _, c := range t {
		misses += c.misses
	}
	return float64(misses) / float64(max(t.accesses(), 1))
}
