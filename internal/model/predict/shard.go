package predict

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

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
		d.add(draw{first: d.nextID, n: 1, bytes: int32(bytes), class: number}, c.perGet*popularity)
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
		d.add(draw{first: firstID[s], n: n, bytes: int32(c.bytes), class: number}, (c.perGet-c.firstRate)*blocks/c.blocks)
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
		deals[s].add(draw{first: firstID[s] + taken[s], n: 1, bytes: int32(c.bytes), class: number}, c.firstRate*f.Gap)
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
