package statemodel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/statelab/statelab/internal/model/cachesim"
)

// trie is a real one of random keys: every branch by the prefix that leads to it.
type trie struct {
	keys  []uint64
	paths [][]uint32 // of each key: its nodes, the leaf last
	bytes []int32    // of each node
	depth []int      // of each node; -1 for a leaf
}

const branchHead, perChild, leafBytes = 20, 58, 100

// randomTrie knows no formula: a branch stands where children of a prefix are two.
func randomTrie(n int, r *rand.Rand) (t trie) {
	t.keys = make([]uint64, n)
	for i := range t.keys {
		t.keys[i] = r.Uint64()
	}

	t.paths = make([][]uint32, n)
	for d := range 16 {
		children := map[uint64]uint16{}
		prefix := func(k uint64) uint64 { return k >> 1 >> (63 - 4*d) } // the first d nibbles
		for _, k := range t.keys {
			children[prefix(k)] |= 1 << (k >> (60 - 4*d) & 15)
		}

		ids := map[uint64]uint32{}
		for i, k := range t.keys {
			count := 0
			for mask := children[prefix(k)]; mask > 0; mask &= mask - 1 {
				count++
			}

			if count < 2 {
				continue
			}

			id, known := ids[prefix(k)]
			if !known {
				id = t.add(branchHead+perChild*count, d)
				ids[prefix(k)] = id
			}

			t.paths[i] = append(t.paths[i], id)
		}
	}

	for i := range t.paths {
		t.paths[i] = append(t.paths[i], t.add(leafBytes, -1))
	}

	return t
}

func (t *trie) add(bytes, depth int) uint32 {
	t.bytes, t.depth = append(t.bytes, int32(bytes)), append(t.depth, depth)
	return uint32(len(t.bytes) - 1)
}

func (t *trie) misses(cache cachesim.Cache, lookups int, r *rand.Rand) float64 {
	missed := 0
	for range lookups {
		for _, node := range t.paths[r.IntN(len(t.keys))] {
			if !cache.Access(node, t.bytes[node]) {
				missed++
			}
		}
	}

	return float64(missed) / float64(lookups)
}

// classesOf are the formula's classes of such a trie.
func classesOf(n float64) (classes []Class) {
	for _, at := range (State{Accounts: n}).depths() {
		classes = append(classes, Class{
			Units:     at.Branches,
			UnitBytes: branchHead + perChild*at.Children,
			Visits:    [kinds]float64{Account: at.OnPath},
		})
	}

	return append(classes,
		Class{Units: n, UnitBytes: leafBytes, Visits: [kinds]float64{Account: 1}})
}

// The formula for lookups that have gone on for long, against an LRU that plays
// every access of every lookup.
func TestSteadyAgainstLRU(t *testing.T) {
	const keys = 20_000
	r := rand.New(rand.NewPCG(1, 2))
	real := randomTrie(keys, r)
	all := 0.0
	for _, b := range real.bytes {
		all += float64(b)
	}

	for _, share := range []float64{.02, .1, .3, .6, .9} {
		cache := cachesim.NewLRU(int64(share * all))
		real.misses(cache, 5*keys, r)
		played := real.misses(cache, 5*keys, r)
		got := Steady([]Memory{{Bytes: share * all, Classes: classesOf(keys)}}, Account)[0]
		if math.Abs(got-played) > .02*played+.005 {
			t.Errorf("memory for %.0f %%: %.4f misses a lookup, played %.4f", 100*share, got,
				played)
		}
	}
}

// The same from an empty memory on, and after lookups of something else.
func TestAfterAgainstLRU(t *testing.T) {
	const keys, others, otherBytes = 20_000, 5_000, 1000
	r := rand.New(rand.NewPCG(3, 4))
	real := randomTrie(keys, r)
	first := uint32(len(real.bytes))
	for _, memory := range []float64{1e5, 1e6, 3e6, 5e6} {
		for _, warm := range []int{0, 500, 30_000} {
			for _, lookups := range []int{200, 5_000, 40_000} {
				cache := cachesim.NewLRU(int64(memory))
				for range warm {
					cache.Access(first+r.Uint32N(others), otherBytes)
				}

				played := real.misses(cache, lookups, r)
				classes := append(classesOf(keys), Class{
					Units:     others,
					UnitBytes: otherBytes,
					Visits:    [kinds]float64{Slot: 1},
				})

				got := After(
					[]Memory{{Bytes: memory, Classes: classes}},
					[]LookupPhase{{Slot, float64(warm)}, {Account, float64(lookups)}},
				)[0]

				if math.Abs(got-played) > .03*played+.02 {
					t.Errorf("%g bytes, %d others before, %d lookups: %.4f misses, played %.4f",
						memory, warm, lookups, got, played)
				}
			}
		}
	}
}

// ring keeps what was brought in last, whatever is asked for.
type ring struct {
	maxBytes, bytes int64
	in              map[uint32]bool
	order           []uint32
	sizes           []int32
}

func (c *ring) UsedBytes() int64 { return c.bytes }

func (c *ring) Access(id uint32, bytes int32) bool {
	if c.in[id] {
		return true
	}

	for c.bytes+int64(bytes) > c.maxBytes {
		c.bytes -= int64(c.sizes[0])
		delete(c.in, c.order[0])
		c.order, c.sizes = c.order[1:], c.sizes[1:]
	}

	c.in[id] = true
	c.order, c.sizes, c.bytes = append(c.order, id), append(c.sizes, bytes), c.bytes+int64(bytes)
	return false
}

func TestFIFOAgainstARing(t *testing.T) {
	const keys = 20_000
	r := rand.New(rand.NewPCG(5, 6))
	real := randomTrie(keys, r)
	for _, memory := range []float64{2e5, 1e6, 3e6} {
		of := []Memory{{Bytes: memory, Policy: FIFO, Classes: classesOf(keys)}}
		cache := &ring{maxBytes: int64(memory), in: map[uint32]bool{}}
		early := real.misses(cache, 10_000, r)
		if got := After(of, []LookupPhase{{Account, 10_000}})[0]; math.Abs(got-early) > .03*early {
			t.Errorf("%g bytes: the first lookups %.4f misses, played %.4f", memory, got, early)
		}

		real.misses(cache, 5*keys, r)
		late := real.misses(cache, 5*keys, r)
		if got := Steady(of, Account)[0]; math.Abs(got-late) > .02*late {
			t.Errorf("%g bytes: %.4f misses, played %.4f", memory, got, late)
		}
	}
}

// Units end to end share pages with their neighbours: against an LRU of the pages.
func TestEndToEndAgainstPages(t *testing.T) {
	const units = 4000
	r := rand.New(rand.NewPCG(7, 8))
	for _, unitBytes := range []int{2500, 4096} {
		for _, share := range []float64{.2, .6} {
			memory := share * units * float64(unitBytes)
			cache := cachesim.NewLRU(int64(memory))
			missed := 0
			const lookups = 100_000
			for n := range 2 * lookups {
				at := r.IntN(units)*unitBytes + 1000
				read := false
				for page := at / pageBytes; page <= (at+unitBytes-1)/pageBytes; page++ {
					read = !cache.Access(uint32(page), pageBytes) || read
				}

				if read && n >= lookups {
					missed++
				}
			}

			played := float64(missed) / lookups
			got := Steady([]Memory{{
				Bytes: memory,
				Classes: []Class{{
					Units:     units,
					UnitBytes: float64(unitBytes),
					EndToEnd:  true,
					Visits:    [kinds]float64{1},
				}},
			}},
				Account)[0]

			if math.Abs(got-played) > .06*played {
				t.Errorf("%d bytes, memory for %.0f %%: %.4f reads, played %.4f", unitBytes,
					100*share, got, played)
			}
		}
	}
}

// Pebble's cache, played for long, keeps what is asked for most.
func TestClockProComesToWhatIsAskedMost(t *testing.T) {
	m := Memory{Bytes: 4e6, Policy: ClockPro, Shards: 1, Classes: []Class{
		{Units: 200, UnitBytes: 4000, Visits: [kinds]float64{1}},
		{Units: 2000, UnitBytes: 4000, Visits: [kinds]float64{1}},
	}}
	played := After([]Memory{m}, []LookupPhase{{Account, 2e5}, {Account, 5e4}})[0]
	if got := Steady([]Memory{m}, Account)[0]; math.Abs(got-played) > .03*played {
		t.Errorf("%.4f misses, played %.4f", got, played)
	}
}
