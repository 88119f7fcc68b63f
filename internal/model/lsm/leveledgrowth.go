package lsm

import (
	"math"

	"github.com/statelab/statelab/engine"
)

// maxGrowthSteps bounds how often levels are brought to rest while they grow.
const maxGrowthSteps = 100_000

// Grow are the levels of a database of factor times the entries of the present levels, which has
// been written to until then: flushes of new keys, and the compactions that they cause, played in
// sizes from the present levels on. Of s it needs the options alone. L0 is what compactions have
// not come to, and stays. Entries stay as long and as alike as they are: a level has blocks,
// filters and indexes like its present ones; one that is new has those of the other upper levels.
func (s *Leveled) Grow(present []engine.Level, factor float64) []engine.Level {
	var grown []engine.Level
	var keys [ModelLevels]float64 // below L0
	var byNumber [ModelLevels]engine.Level
	var all, last engine.Level
	for _, l := range present {
		if l.Keys == 0 {
			continue
		}

		all = all.Plus(l)
		if l.Level == 0 {
			grown = append(grown, l)
			continue
		}

		keys[l.Level] = float64(l.Keys)
		byNumber[l.Level], last = l, l
	}

	if last.Keys == 0 {
		return present
	}

	like := s.alike(byNumber, last, float64(all.Keys))
	perKey := func(level int) float64 {
		l := like(level, lastLevelWith(keys))
		return float64(l.Bytes) / float64(l.Keys)
	}
	bytes := func(level int) float64 { return keys[level] * perKey(level) }

	// What no table of a level spans depends on how far the level is below the base level.
	was, _ := s.limits(bytes)
	var outside [ModelLevels]float64
	for _, l := range byNumber {
		if depth := l.Level - was; l.Level < last.Level && depth >= 0 && l.Keys > 0 {
			outside[depth] = l.Outside
		}
	}

	entry := float64(all.RawKeyBytes+all.RawValueBytes) / float64(all.Keys)
	added := (factor - 1) * float64(all.Keys)
	batch := math.Max(added/maxGrowthSteps, float64(max(1, s.L0Tables))*
		s.perFlush(entry, int(all.RawValueBytes/all.Keys)))
	for left := added; left > 0; left -= batch {
		base, _ := s.limits(bytes)
		keys[base] += math.Min(left, batch)
		s.rest(&keys, perKey)
	}

	base, _ := s.limits(bytes)
	deepest := lastLevelWith(keys)
	for level := 1; level < ModelLevels; level++ {
		if keys[level] < 1 {
			continue
		}

		l := scaled(like(level, deepest), keys[level])
		l.Level, l.Sublevels = level, 1
		l.Files = int(math.Max(1, math.Ceil(float64(l.DataBytes)/s.fileBytes(level, base)/
			s.fill(level, keys))))
		if l.SingleIndexes > 0 {
			l.SingleIndexes = int64(l.Files)
		}

		l.Outside = 0
		if depth := level - base; level < deepest && depth >= 0 {
			l.Outside = outside[depth]
		}

		grown = append(grown, l)
	}

	return grown
}

// alike tells which present tables those of a level will be like, where a level is the last.
func (s *Leveled) alike(
	byNumber [ModelLevels]engine.Level, last engine.Level, keys float64,
) func(level, deepest int) engine.Level {
	upper := upperLevels(byNumber, last)
	if upper.FilterBytes == 0 && s.ForHits && s.filterBits(last.Level, -1) > 0 {
		// the last level alone lacks them
		upper.FilterKeys, upper.FilterConsulted = upper.Keys, true
		upper.FilterBytes = int64(float64(upper.Keys) * s.filterBits(last.Level, -1) / 8)
		upper.FilterCacheBytes = upper.FilterBytes
		upper.Bytes += upper.FilterBytes
	}

	return func(level, deepest int) engine.Level {
		if level == deepest {
			return last
		}

		const enough = 0.01 // of a level that holds next to nothing, the tables say little
		if l := byNumber[level]; l.Level != last.Level && float64(l.Keys) >= enough*keys {
			return l
		}

		return upper
	}
}
