package predict

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// simulation plays accesses to one shard's cache, or whole Gets to those of all.
type simulation struct {
	draw      func(n int64, random *rand.PCG, count tally)
	perGet    float64 // how many of them are a Get of the whole database
	classes   int
	steps     func() int64 // of the cache's hands
	random    *rand.PCG
	stepsLeft int64
	// minStretch is how many accesses a stretch needs at least to show whether the
	// cache still fills.
	minStretch float64
}

// shardCache is a shard of Pebble's cache or of RocksDB's: one of both.
type shardCache struct {
	clock  *cachesim.ClockPro
	pooled *cachesim.PooledLRU
}

// steps are those of a clock's hands.
func (c shardCache) steps() int64 {
	if c.clock == nil {
		return 0
	}
	return c.clock.Steps
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
func (s *simulation) run(
	ctx context.Context, warmupGets, gets float64, toSteadyState bool,
) (outcome, error) {
	out := outcome{measured: newTally(s.classes), steady: newTally(s.classes)}
	if err := s.play(ctx, warmupGets*s.perGet, newTally(s.classes)); err != nil {
		return out, err
	}

	stretch := math.Max(1, gets*s.perGet/stretches)
	var last tally
	var missRates []float64 // of the stretches
	for i := range stretches {
		last = newTally(s.classes)
		if err := s.play(ctx, stretch, last); err != nil {
			return out, err
		}

		out.measured.add(last)
		missRates = append(missRates, last.allMissRate())
		spinning := s.steps() > s.stepsLeft
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
	stretch = min(max(gets*s.perGet, s.minStretch), maxSteadyAccesses/2)
	for played := 0.0; ; stretch *= 2 {
		last = newTally(s.classes)
		if err := s.play(ctx, stretch, last); err != nil {
			return out, err
		}

		played += stretch
		now := last.allMissRate()
		if math.Abs(now-before) <= steadyChange*now || played >= maxSteadyAccesses ||
			s.steps() > s.stepsLeft {
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

// play draws n times and counts the accesses.
func (s *simulation) play(ctx context.Context, n float64, count tally) error {
	const unit = 1 << 20
	for left := int64(math.Round(n)); left > 0; left -= unit {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.draw(min(left, unit), s.random, count)
	}
	return nil
}

// play is the inner loop: draw a block, ask the cache for it.
func (p *shardPlan) play(cache shardCache, n int64, random *rand.PCG, count tally) {
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
		hit := false
		if cache.clock != nil {
			hit = cache.clock.Access(id, row.bytes)
		} else {
			hit = cache.pooled.AccessAs(id, row.bytes, row.high)
		}

		if !hit {
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

// shardPlan is what one shard is asked for: a stream of independent block
// accesses, drawn from an alias table.
type shardPlan struct {
	draws  []draw
	perGet float64 // accesses of the shard per Get of the whole database
}

// draw is a row of the alias table: a block, or blocks first <= id < first+n
// that are asked for alike.
type draw struct {
	threshold uint32 // keep this row below, else take the alias
	alias     int32
	first     uint32
	n         uint32
	bytes     int32
	class     int32
	high      bool
}

// maxClassBlocks bounds the ids of one class in one shard. A class that large
// is never hit: counting further changes nothing.
const maxClassBlocks = 1 << 26

// deal collects what a shard gets.
type deal struct {
	draws  []draw
	rates  []float64
	nextID uint32
}

func (d *deal) add(row draw, rate float64) {
	if rate > 0 {
		d.draws = append(d.draws, row)
		d.rates = append(d.rates, rate)
	}
}

// planShards deals the blocks of the classes out to all shards, at random as
// Pebble's hash does, and returns the plans of the first of them.
func planShards(classes []class, all, simulated int, random *rand.Rand) []shardPlan {
	deals := make([]deal, simulated)
	for number, c := range classes {
		if c.perFile {
			dealFiles(deals, all, int32(number), c, random)
		} else {
			dealBlocks(deals, all, int32(number), c, random)
		}
	}

	plans := make([]shardPlan, simulated)
	for s, d := range deals {
		plans[s] = shardPlan{draws: d.draws, perGet: fillAliases(d.draws, d.rates)}
	}

	return plans
}

// dealFiles deals out a class of one block per file.
func dealFiles(deals []deal, all int, number int32, c class, random *rand.Rand) {
	files := c.geometry.draw(int(math.Round(c.blocks)), random)
	bytes := func(f File) float64 { return f.Bytes }
	for _, f := range sample(files, bytes, len(deals), all, random) {
		d := &deals[random.IntN(len(deals))]
		popularity := (1-c.geometry.Gaps)*f.Width + c.geometry.Gaps*f.Gap
		bytes := c.charge + max(0, c.bytes-c.charge)*f.Bytes*float64(len(files))
		d.add(draw{first: d.nextID, n: 1, bytes: int32(bytes), class: number, high: c.high},
			c.perGet*popularity)
		d.nextID++
	}
}

// sample picks the share of the files that falls to the simulated among all
// shards, evenly by size: a few large files more or less would matter. It picks
// one at least, since a class nobody asks for has no hit rate.
func sample(files []File, size func(File) float64, simulated, all int, random *rand.Rand) []File {
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(size(a), size(b)) })
	step := float64(all) / float64(simulated)
	var picked []File
	for at := step * random.Float64(); int(at) < len(files); at += step {
		picked = append(picked, files[int(at)])
	}

	if len(picked) == 0 {
		picked = append(picked, files[random.IntN(len(files))])
	}

	return picked
}

// dealBlocks deals out a class of blocks that are asked for alike, but for the
// first ones of files behind a gap.
func dealBlocks(deals []deal, all int, number int32, c class, random *rand.Rand) {
	firstID := make([]uint32, len(deals))
	for s, blocks := range dealCounts(len(deals), all, c.blocks, random) {
		n := uint32(min(blocks, maxClassBlocks))
		d := &deals[s]
		firstID[s] = d.nextID
		d.nextID += n
		d.add(draw{first: firstID[s], n: n, bytes: int32(c.bytes), class: number, high: c.high},
			(c.perGet-c.firstRate)*blocks/c.blocks)
	}

	if c.firstRate == 0 {
		return
	}

	taken := make([]uint32, len(deals))
	files := c.geometry.draw(int(math.Round(c.files)), random)
	gap := func(f File) float64 { return f.Gap }
	for _, f := range sample(files, gap, len(deals), all, random) {
		s := random.IntN(len(deals))
		if taken[s] >= deals[s].nextID-firstID[s] {
			continue
		}

		deals[s].add(draw{
			first: firstID[s] + taken[s],
			n:     1,
			bytes: int32(c.bytes),
			class: number,
			high:  c.high,
		}, c.firstRate*f.Gap)

		taken[s]++
	}
}

// dealCounts is how many of the blocks each of the simulated shards gets: a
// Poisson number, but one block at least among all.
func dealCounts(simulated, all int, blocks float64, random *rand.Rand) []float64 {
	const many = 64 // a shard, for the normal distribution to do
	counts := make([]float64, simulated)
	mean := blocks / float64(all)
	if mean >= many {
		deviation := 0.0
		for s := range counts {
			// Neighbours deviate in opposite directions, so that a few shards
			// have the right mean.
			if s%2 == 0 {
				deviation = math.Sqrt(mean) * random.NormFloat64()
			} else {
				deviation = -deviation
			}

			counts[s] = math.Round(mean + deviation)
		}

		return counts
	}

	dealt := false
	for range int(math.Round(blocks)) {
		if s := random.IntN(all); s < simulated {
			counts[s]++
			dealt = true
		}
	}

	if !dealt {
		counts[random.IntN(simulated)] = 1
	}

	return counts
}

// fillAliases sets thresholds and aliases (Vose's method) so that rows are
// drawn in proportion to rates, and returns the rates' sum.
func fillAliases(draws []draw, rates []float64) (sum float64) {
	for _, rate := range rates {
		sum += rate
	}

	scaled := make([]float64, len(rates))
	var small, large []int
	for i, rate := range rates {
		scaled[i] = rate / sum * float64(len(rates))
		if scaled[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}

	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		draws[s].threshold, draws[s].alias = uint32(scaled[s]*math.MaxUint32), int32(l)
		if scaled[l] -= 1 - scaled[s]; scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}

	for _, i := range append(small, large...) {
		draws[i].threshold, draws[i].alias = math.MaxUint32, int32(i)
	}

	return sum
}
