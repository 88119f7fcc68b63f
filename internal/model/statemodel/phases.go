package statemodel

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/statelab/statelab/internal/model/cachesim"
)

// LookupPhase is lookups of one kind, one after the other.
type LookupPhase struct {
	Kind    Kind
	Lookups float64
}

// After is how many requests a lookup of the last stretch makes below each memory,
// after the stretches before it, which found every memory empty.
//
// In a memory that is not full yet or has just held something else, the window that
// it reaches back is the one whose requests fill it:
//
//	SUM of bytes * units * (1 - exp(-requests within the window / units)) = memory
//
// which is Che's equation with the window's own requests for rate * time.
func After(memories []Memory, stretches []LookupPhase) (below []float64) {
	var pasts []past
	for _, m := range memories {
		pasts = append(pasts, newPast(m))
	}

	below = make([]float64, len(memories))
	for n, stretch := range stretches {
		step := stretch.Lookups / stepsOfStretch
		for range stepsOfStretch {
			asked := make([]float64, len(memories[0].Classes))
			for i, m := range memories {
				asked = m.ask(asked, stretch.Kind)
				missed := pasts[i].step(asked, step)
				if n == len(stretches)-1 {
					below[i] += sum(missed) / stepsOfStretch
				}

				asked = m.pass(missed)
			}
		}
	}

	return below
}

const stepsOfStretch = 200

// past is what a memory was asked for since it was empty.
type past interface {
	// step takes asked requests of a lookup, for some lookups, and returns how many
	// of a lookup miss.
	step(asked []float64, lookups float64) (missed []float64)
}

func newPast(m Memory) past {
	if m.Policy == ClockPro {
		return newPlayed(m)
	}
	return &window{
		memory: m,
		ends:   []float64{0},
		counts: [][]float64{make([]float64, len(m.Classes))},
	}
}

// window counts what was asked for (LRU) or brought in (FIFO) up to the end of each
// step.
type window struct {
	memory Memory
	ends   []float64 // lookups
	counts [][]float64
}

// step judges by the middle of the step, where half of its requests were made.
func (w *window) step(asked []float64, lookups float64) (missed []float64) {
	start, before := w.ends[len(w.ends)-1], w.counts[len(w.counts)-1]
	kept := func(i int, back float64) float64 {
		units := w.memory.Classes[i].Units
		now, earlier := asked[i]*min(back, lookups/2)/units, 0.0
		if rest := back - lookups/2; rest > 0 {
			earlier = (before[i] - w.at(i, start-rest)) / units
		}

		return w.memory.Policy.keptOf(earlier, now)
	}

	back := w.memory.reach(start+lookups/2, kept)
	missed, after := make([]float64, len(asked)), slices.Clone(before)
	for i := range asked {
		missed[i] = w.memory.Classes[i].missing(kept(i, back)) * asked[i]
		if w.memory.Policy == FIFO {
			after[i] += missed[i] * lookups
		} else {
			after[i] += asked[i] * lookups
		}
	}

	w.ends, w.counts = append(w.ends, start+lookups), append(w.counts, after)
	return missed
}

// at is the count of class i after so many lookups, on a line between steps.
func (w *window) at(i int, lookups float64) float64 {
	if len(w.ends) == 1 {
		return w.counts[0][i]
	}
	low := step(w.ends, lookups)
	share := (lookups - w.ends[low]) / (w.ends[low+1] - w.ends[low])
	return w.counts[low][i] + max(0, share)*(w.counts[low+1][i]-w.counts[low][i])
}

// played is a cache without a closed form: requests are drawn and played through a
// model of it, decision for decision.
type played struct {
	memory Memory
	shards []*cachesim.ClockPro
	random *rand.Rand
	owed   []float64 // parts of requests that were not drawn yet
	first  []uint32  // number of each class's first unit
}

func newPlayed(m Memory) *played {
	p := &played{
		memory: m,
		random: rand.New(rand.NewPCG(1, uint64(len(m.Classes)))),
		owed:   make([]float64, len(m.Classes)),
	}

	for range max(1, m.Shards) {
		p.shards = append(p.shards, cachesim.NewClockPro(int64(m.Bytes)/int64(max(1, m.Shards))))
	}

	next := uint32(0)
	for _, c := range m.Classes {
		p.first = append(p.first, next)
		next += units(c)
	}

	return p
}

func units(c Class) uint32 { return uint32(max(1, c.Units)) }

func (p *played) step(asked []float64, lookups float64) (missed []float64) {
	missed = make([]float64, len(asked))
	var draws []int
	for i, rate := range asked {
		p.owed[i] += rate * lookups
		for ; p.owed[i] >= 1; p.owed[i]-- {
			draws = append(draws, i)
		}
	}

	p.random.Shuffle(len(draws), func(a, b int) { draws[a], draws[b] = draws[b], draws[a] })
	for _, i := range draws {
		c := p.memory.Classes[i]
		id := p.first[i] + p.random.Uint32N(units(c))
		shard := p.shards[id*2654435769>>8%uint32(len(p.shards))]
		if !shard.Access(id, int32(c.UnitBytes)) {
			missed[i]++
		}

		for again := c.Again; again > 0 && p.random.Float64() < again; again-- {
			shard.Access(id, int32(c.UnitBytes))
		}
	}

	for i := range missed {
		missed[i] /= lookups
	}

	return missed
}

// Steady is how many requests a lookup of one kind makes below each memory, when
// nothing but such lookups has been made for long. A memory takes the misses of the
// one above as requests that come independently.
func Steady(memories []Memory, kind Kind) (below []float64) {
	var mix Mix
	mix[kind] = 1
	return SteadyAmong(memories, kind, mix)
}

// Mix is how many lookups of each kind there are among others.
type Mix [kinds]float64

// SteadyAmong is how many requests a lookup of one kind makes below each memory, when lookups of
// all kinds have been made for long, so many of each.
func SteadyAmong(memories []Memory, kind Kind, mix Mix) (below []float64) {
	classes, total := len(memories[0].Classes), sum(mix[:])
	all, own := make([]float64, classes), make([]float64, classes)
	for _, m := range memories {
		own = m.ask(own, kind)
		for of, lookups := range mix {
			for i, c := range m.Classes {
				all[i] += c.Visits[of] * lookups / total
			}
		}

		missed := m.steady(all)
		ownMissed := make([]float64, len(missed))
		for i := range missed {
			ownMissed[i] = own[i] // of what no others ask for, nothing is there
			if all[i] > 0 {
				ownMissed[i] *= missed[i] / all[i]
			}
		}

		below = append(below, sum(ownMissed))
		all, own = m.pass(missed), m.pass(ownMissed)
	}

	return below
}

// ask adds a lookup's own requests to those of the misses above.
func (m Memory) ask(above []float64, kind Kind) []float64 {
	asked := slices.Clone(above)
	for i, c := range m.Classes {
		asked[i] += c.Visits[kind]
	}
	return asked
}

// pass are the requests that misses make to the next memory.
func (m Memory) pass(missed []float64) (next []float64) {
	for i, c := range m.Classes {
		if next == nil {
			next = make([]float64, len(c.To))
		}

		for to, share := range c.To {
			next[to] += missed[i] * share
		}
	}

	return next
}

func (m Memory) steady(asked []float64) (missed []float64) {
	if m.Policy == ClockPro {
		return m.frozen(asked)
	}

	kept := func(i int, back float64) float64 {
		return m.Policy.keptOf(0, asked[i]*back/m.Classes[i].Units)
	}
	const ever = 1e18 // lookups
	back := m.reach(ever, kept)
	missed = make([]float64, len(asked))
	for i := range asked {
		missed[i] = m.Classes[i].missing(kept(i, back)) * asked[i]
	}

	return missed
}

// frozen is a cache that has learnt which units are asked for most, and keeps those:
// what CLOCK-Pro comes to with units whose rates do not change.
func (m Memory) frozen(asked []float64) (missed []float64) {
	order := make([]int, len(asked))
	for i := range order {
		order[i] = i
	}

	rate := func(i int) float64 { return asked[i] / m.Classes[i].Units }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rate(b), rate(a)) })
	missed = make([]float64, len(asked))
	left := m.Bytes
	for _, i := range order {
		all := m.Classes[i].Units * m.Classes[i].UnitBytes
		if all > 0 {
			missed[i] = asked[i] * (1 - math.Min(1, left/all))
		}
		left = math.Max(0, left-all)
	}

	return missed
}
