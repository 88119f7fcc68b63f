package predict

import (
	"math"
	"math/rand/v2"
	"sort"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// searched is how Gets meet the table of a level (or one of level 0) that may hold their key.
type searched struct {
	number  int     // in the order of the search, from 1
	found   float64 // share of all Gets whose key is there
	touched float64 // share of the Gets that look into it, of those that come to it in vain
	passed  float64 // share of these that its filter lets pass
}

// wholeGets plays Gets block by block to all simulated shards at once. Where a shard has room for
// only a few whole filters or indexes, their order decides: a Get asks for one filter per level,
// level after level, and for the index of the table whose filter it asked for. Independent accesses
// would ask for the same block twice in a row, and hit it, far more often.
type wholeGets struct {
	steps  []getStep
	shards []*cachesim.PooledLRU
	all    uint64 // shards, simulated or not
	salt   uint64 // of the draw which block is in which shard
}

// getStep is the search of a level.
type getStep struct {
	searched
	upTo   []float64 // for each table the sum of the widths up to its end
	blocks []getBlocks
}

// getBlocks are blocks of which a Get asks for one: that of its table, or any.
type getBlocks struct {
	class, first uint32
	bytes        []int32 // of each table's block; nil: one for any of n
	anyBytes     int32
	n            uint64
	filter, high bool
}

// fewBlocks is how many of the largest blocks fit into a shard at most for their order to matter.
const fewBlocks = 32

// inOrder reports whether the order of a Get's accesses matters.
func inOrder(classes []class, shardBytes int64) bool {
	for _, c := range classes {
		if c.searched.number > 0 && c.perFile && fewBlocks*c.bytes > float64(shardBytes) {
			return true
		}
	}
	return false
}

// planGets gives out numbers to all blocks, and draws the tables of each level.
func planGets(classes []class, l layout, seed uint64) *wholeGets {
	random := rand.New(rand.NewPCG(seed, 0))
	w := &wholeGets{all: uint64(l.shards), salt: random.Uint64()}
	for range l.simulated {
		w.shards = append(w.shards, cachesim.NewPooledLRU(l.shardBytes-l.reservedBytes,
			cachesim.DefaultHighShare))
	}

	var files []File
	first := uint32(0)
	for i, c := range classes {
		b := getBlocks{
			class:    uint32(i),
			first:    first,
			n:        uint64(max(1, math.Round(min(c.blocks, maxClassBlocks)))),
			anyBytes: int32(c.bytes),
			filter:   c.kind == engine.Filter,
			high:     c.high,
		}

		first += uint32(b.n)
		if n := len(w.steps); n == 0 || w.steps[n-1].number != c.searched.number {
			w.steps = append(w.steps, getStep{searched: c.searched})
			files = nil
		}

		step := &w.steps[len(w.steps)-1]
		if c.perFile {
			if files == nil {
				files = c.geometry.draw(int(b.n), random)
				sum := 0.0
				for _, f := range files {
					sum += f.Width
					step.upTo = append(step.upTo, sum)
				}
			}

			for _, f := range files {
				b.bytes = append(b.bytes,
					int32(c.charge+max(0, c.bytes-c.charge)*f.Bytes*float64(len(files))))
			}
		}

		step.blocks = append(step.blocks, b)
	}

	return w
}

// play makes Gets and counts their accesses to the simulated shards.
func (w *wholeGets) play(gets int64, source *rand.PCG, count tally) {
	random := rand.New(source)
	for range gets {
		at := random.Float64()
		for i := range w.steps {
			s := &w.steps[i]
			here := at < s.found
			at -= s.found
			reached := here
			if !here {
				vain := random.Float64()
				if vain >= s.touched {
					continue
				}
				reached = vain < s.touched*s.passed
			}

			table := 0
			if len(s.upTo) > 1 {
				table = min(sort.SearchFloat64s(s.upTo, random.Float64()), len(s.upTo)-1)
			}

			for j := range s.blocks {
				if b := &s.blocks[j]; reached || b.filter {
					w.ask(b, table, random, count)
				}
			}

			if here {
				break
			}
		}
	}
}

// ask asks the cache for a block of a table.
func (w *wholeGets) ask(b *getBlocks, table int, random *rand.Rand, count tally) {
	id, bytes := b.first, b.anyBytes
	if b.bytes != nil {
		id, bytes = id+uint32(table), b.bytes[table]
	} else {
		id += uint32(random.Uint64N(b.n))
	}

	hash := (uint64(id) ^ w.salt) * 0x9E3779B97F4A7C15
	hash = (hash ^ hash>>32) * 0xD6E8FEB86659FD93
	shard := hash >> 32 % w.all
	if shard >= uint64(len(w.shards)) {
		return
	}

	of := &count[b.class]
	of.accesses++
	if !w.shards[shard].AccessAs(id, bytes, b.high) {
		of.misses++
	}
}
