package fidelity

import (
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
)

// withFilters are the levels with filters of so many bits in every table, but not on the last
// level: a Get of a key that exists finds it there, whatever its filter says.
func withFilters(levels []engine.Level, bits float64) []engine.Level {
	levels = slices.Clone(levels)
	last := predict.Deepest(levels)
	for i := range levels {
		if l := &levels[i]; l.Files > 0 && i != last && filtered(*l) < 1 {
			l.FilterBytes, l.FilterKeys, l.FilterConsulted = int64(float64(l.Keys)*bits/8), l.Keys,
				true
			l.FilterCacheBytes = l.FilterBytes
		}
	}

	return levels
}

// Mixed makes a price for levels whose tables all have filters, or none, one for levels where
// some have: by the share of their keys.
func Mixed(price Price) Price {
	return func(levels []engine.Level) (float64, error) {
		with, without := slices.Clone(levels), slices.Clone(levels)
		keys, inFilters := 0.0, 0.0 // of the levels where some tables have one
		for i, l := range levels {
			share := filtered(l)
			if share == 0 {
				for _, all := range [][]engine.Level{with, without} {
					all[i].FilterConsulted = all[i].FilterConsulted && l.FilterBytes > 0
				}
			}

			if share == 0 || share >= nearlyAll {
				continue
			}

			keys += float64(l.Keys)
			inFilters += share * float64(l.Keys)
			with[i].FilterBytes, with[i].FilterCacheBytes = int64(float64(l.FilterBytes)/share),
				int64(float64(l.FilterCacheBytes)/share)
			without[i].FilterBytes, without[i].FilterCacheBytes, without[i].FilterConsulted = 0, 0,
				false
		}

		maximum, err := price(with)
		if err != nil || keys == 0 {
			return maximum, err
		}

		minimum, err := price(without)
		return inFilters/keys*maximum + (1-inFilters/keys)*minimum, err
	}
}

// lacking are the levels, but for the last one, some of whose tables have no filter.
func lacking(levels []engine.Level) (which []engine.Level) {
	last := predict.Deepest(levels)
	for i, l := range levels {
		if l.Files > 0 && i != last && filtered(l) < nearlyAll {
			which = append(which, l)
		}
	}
	return which
}

const nearlyAll = 0.99

// withoutL0 are the levels after the tables of L0 were compacted into the next one.
func withoutL0(levels []engine.Level) []engine.Level {
	var l0 engine.Level
	var rest []engine.Level
	for _, l := range levels {
		if l.Level == 0 {
			l0 = l
		} else if l.Files > 0 {
			rest = append(rest, l)
		}
	}

	if l0.Files == 0 {
		return levels
	}

	l0.Sublevels, l0.Outside = 1, 0
	if len(rest) == 0 {
		l0.Level = lsm.ModelLevels - 1
		return []engine.Level{l0}
	}

	next := rest[0].Plus(l0)
	next.Level, next.Outside, next.FilterConsulted = rest[0].Level, 0,
		rest[0].FilterConsulted || l0.FilterConsulted
	rest[0] = next
	return rest
}

// mostInL0 says that most keys were never compacted.
func mostInL0(levels []engine.Level) bool {
	inL0 := int64(0)
	for _, l := range levels {
		if l.Level == 0 {
			inL0 += l.Keys
		}
	}
	return 2*inL0 > total(levels).Keys
}

// settled are the levels that the same keys would have on a node that has written for long:
// each level holds a multiplier's part of the next one, down to the base size, beside L0 as it
// is. All are like the level that holds most keys now.
func settled(levels []engine.Level, baseBytes int64, multiplier float64) []engine.Level {
	var sum, model engine.Level
	var out []engine.Level
	unsorted := mostInL0(levels)
	for _, l := range levels {
		if l.Level == 0 && !unsorted {
			out = append(out, l)
			continue
		}

		sum = sum.Plus(l)
		if l.Keys > model.Keys {
			model = l
		}
	}

	if sum.Bytes == 0 || model.Keys == 0 {
		return levels
	}

	parts, whole := []float64{1}, 1.0
	for size := 1.0; ; {
		size /= multiplier
		// The level above would be smaller than a base level is allowed to stay.
		largest := float64(sum.Bytes) / whole
		if largest*parts[len(parts)-1] <= float64(baseBytes) ||
			len(parts) == lsm.ModelLevels-1 {
			break
		}

		parts, whole = append(parts, size), whole+size
	}

	for i := len(parts) - 1; i >= 0; i-- {
		l := scaled(model, float64(sum.Keys)*parts[i]/whole/float64(model.Keys))
		l.Level, l.Sublevels, l.Outside = lsm.ModelLevels-1-i, 1, 0
		out = append(out, l)
	}

	for i, g := range predict.RandomLoad(out) {
		if i != len(out)-1 && out[i].Level > 0 {
			out[i].Outside = 1 - g.Coverage*(1-g.Gaps)
		}
	}

	filterAs(out, levels)
	return out
}

// filterAs gives all levels but the last one the filters that levels have there, in the same
// share of their tables.
func filterAs(out, levels []engine.Level) {
	var upper engine.Level
	for i, l := range levels {
		if i != predict.Deepest(levels) || len(levels) == 1 {
			upper.Keys += l.Keys
			upper.FilterBytes += l.FilterBytes
			upper.FilterCacheBytes += l.FilterCacheBytes
			upper.FilterKeys += int64(filtered(l) * float64(l.Keys))
			upper.FilterConsulted = upper.FilterConsulted || l.FilterConsulted && l.FilterBytes > 0
		}
	}

	if upper.Keys == 0 {
		return
	}

	for i := range out {
		if i == predict.Deepest(out) {
			continue
		}

		l, part := &out[i], float64(out[i].Keys)/float64(upper.Keys)
		l.FilterBytes, l.FilterCacheBytes = int64(float64(upper.FilterBytes)*part),
			int64(float64(upper.FilterCacheBytes)*part)
		l.FilterKeys, l.FilterConsulted = int64(float64(upper.FilterKeys)*part),
			upper.FilterConsulted
	}
}

// scaled is a level of factor times as many keys, all else in proportion.
func scaled(l engine.Level, factor float64) engine.Level {
	for _, n := range l.Sums() {
		if *n > 0 {
			*n = max(1, int64(float64(*n)*factor))
		}
	}
	l.Files = max(1, int(float64(l.Files)*factor))
	return l
}

// withBlocks are the levels with so many keys in a data block, and so many bytes of each in a
// cache.
func withBlocks(levels []engine.Level, keysPerBlock, bytesPerKey float64) []engine.Level {
	levels = slices.Clone(levels)
	for i := range levels {
		l := &levels[i]
		if l.Keys == 0 {
			continue
		}

		l.DataBlocks = max(1, int64(float64(l.Keys)/keysPerBlock))
		l.DataCacheBytes = int64(float64(l.Keys) * bytesPerKey)
	}

	return levels
}

// like are as many keys as levels have, in the proportions and runs of others.
func like(levels, others []engine.Level) []engine.Level {
	have, want := total(levels), total(others)
	if have.Keys == 0 || want.Keys == 0 {
		return levels
	}

	var out []engine.Level
	for _, l := range others {
		if l.Files == 0 {
			continue
		}

		o := scaled(have, float64(l.Keys)/float64(want.Keys))
		o.Level, o.Sublevels, o.Outside, o.FilterConsulted = l.Level, l.Sublevels, l.Outside,
			l.FilterConsulted
		out = append(out, o)
	}

	filterAs(out, levels)
	return out
}

func total(levels []engine.Level) (sum engine.Level) {
	sum.InCacheKnown = true
	for _, l := range levels {
		sum = sum.Plus(l)
		sum.FilterConsulted = sum.FilterConsulted || l.FilterConsulted && l.FilterBytes > 0
	}
	return sum
}
