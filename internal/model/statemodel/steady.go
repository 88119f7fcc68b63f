package statemodel

import (
	"cmp"
	"math"
	"slices"
)

// Steady is how many requests a lookup of one kind makes below each memory, when
// nothing but such lookups has been made for long. A memory takes the misses of the
// one above as requests that come independently.
func Steady(memories []Memory, kind Kind) (below []float64) {
	asked := make([]float64, len(memories[0].Classes))
	for _, m := range memories {
		missed := m.steady(m.ask(asked, kind))
		below = append(below, sum(missed))
		asked = m.pass(missed)
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
	kept := func(i int, back float64) float64 { return m.Policy.keptOf(0, asked[i]*back/m.Classes[i].Units) }
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
