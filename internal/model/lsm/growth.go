package lsm

import (
	"math"

	"github.com/statelab/statelab/engine"
)

// Growth says how a Pebble database whose state grows is compacted, by its options.
type Growth struct {
	LBaseMaxBytes   int64
	TargetFileBytes [ModelLevels]int64 // from L0 and the base level on
}

// Levels are those of a database of factor times the keys of the present levels, after a node has
// written for long: Pebble's dynamic level sizes, a base level more where the size says so, and in
// each level tables like those that it has now, or like the last level's. L0 is what compactions
// have not come to, and stays; the levels below hold all other keys. Keys stay as alike as they
// are: how many bytes they share with their neighbours hardly changes.
func (g Growth) Levels(present []engine.Level, factor float64) []engine.Level {
	keys, inL0 := 0.0, 0.0
	last := engine.Level{}
	byNumber := [ModelLevels]engine.Level{}
	var grown []engine.Level
	for _, l := range present {
		if l.Level == 0 {
			grown = append(grown, l)
			inL0 += float64(l.Keys)
			continue
		}

		if l.Keys == 0 {
			continue
		}

		keys += float64(l.Keys)
		byNumber[l.Level] = l
		last = l
	}

	if keys == 0 {
		return present
	}

	upper := upperLevels(byNumber, last)
	like := func(level int) engine.Level {
		if level == lastLevel {
			return last
		}

		// Of a level that holds next to nothing, the tables say little.
		const enough = 0.01
		if l := byNumber[level]; l.Level != last.Level && float64(l.Keys) >= enough*keys {
			return l
		}

		return upper
	}

	below := max(0, (inL0+keys)*factor-inL0)
	rest := Settle(uint64(math.Round(below)), g.LBaseMaxBytes, g.TargetFileBytes,
		func(level int, _ float64) float64 {
			l := like(level)
			return float64(l.Bytes) / float64(l.Keys)
		})

	for level, n := range rest.Keys {
		if n < 1 {
			continue
		}

		l := scaled(like(level), n)
		l.Level, l.Sublevels = level, 1
		if rest.FileBytes[level] > 0 {
			l.Files = max(1, int(math.Round(float64(l.Bytes)/rest.FileBytes[level])))
		}
		grown = append(grown, l)
	}

	return grown
}

// upperLevels is what a level above the last is like where there is none yet: like all that there
// are, or the last, with its filters, if it has any, in use.
func upperLevels(byNumber [ModelLevels]engine.Level, last engine.Level) engine.Level {
	upper := engine.Level{InCacheKnown: true}
	for _, l := range byNumber {
		if l.Keys > 0 && l.Level != last.Level {
			upper = upper.Plus(l)
			upper.FilterConsulted = upper.FilterConsulted || l.FilterConsulted
		}
	}

	if upper.Keys == 0 {
		upper = last
		upper.FilterConsulted = last.FilterBytes > 0
	}

	return upper
}

// scaled is a level of so many keys, all else in proportion.
func scaled(l engine.Level, keys float64) engine.Level {
	factor := keys / float64(l.Keys)
	for _, n := range l.Sums() {
		if *n > 0 {
			*n = max(1, int64(math.Round(float64(*n)*factor)))
		}
	}
	l.Files = max(1, int(math.Round(float64(l.Files)*factor)))
	return l
}
