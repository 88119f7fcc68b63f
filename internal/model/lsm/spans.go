package lsm

import (
	"cmp"
	"math"
	"slices"

	"github.com/statelab/statelab/engine"
)

// span is a table: a part of the key space from 0 to 1, in which its keys lie evenly.
type span struct{ from, to, keys float64 }

// spans are the tables of the levels below L0, in key order. They are played where the sizes of levels are fixed: which tables a
// level gives to the next one decides how much of its keys the level spans.
type spans [engine.ModelLevels][]span

// add merges keys into a level, and cuts what they overlap into tables of so many keys.
func (all *spans) add(level int, s span, most float64) {
	tables := all[level]
	first, _ := slices.BinarySearchFunc(tables, s.from, func(t span, at float64) int { return cmp.Compare(t.to, at) })
	end := first
	for end < len(tables) && tables[end].from < s.to {
		end++
	}
	all[level] = slices.Replace(tables, first, end, merged(tables[first:end], s, most)...)
}

// merged are tables of at most so many keys in the place of some and of those that are added.
func merged(some []span, added span, most float64) (out []span) {
	if len(some) == 0 {
		return []span{added}
	}
	ends := []float64{added.from, added.to}
	for _, t := range some {
		ends = append(ends, t.from, t.to)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	var table span
	next := 0 // of some: the first that does not end before
	for i, from := range ends[:len(ends)-1] {
		to, keys := ends[i+1], 0.0
		for next < len(some) && some[next].to <= from {
			next++
		}
		if next < len(some) && some[next].from <= from {
			keys += some[next].keys * (to - from) / (some[next].to - some[next].from)
		}
		if added.from <= from && to <= added.to {
			keys += added.keys * (to - from) / (added.to - added.from)
		}
		const none = 1e-3 // of a key: what rounding leaves
		for at, left := from, keys; left > none; {
			if table.keys == 0 {
				table.from = at
			}
			took := math.Min(left, most-table.keys)
			at += (to - from) * took / keys
			left -= took
			table.to, table.keys = at, table.keys+took
			if table.keys >= most {
				out, table = append(out, table), span{}
			}
		}
	}
	if table.keys > 0 {
		out = append(out, table)
	}
	return out
}

// give takes from a level the table that overlaps the least of the next one for its size, as RocksDB's kMinOverlappingRatio does.
func (all *spans) give(level int) span {
	best, least := 0, math.Inf(1)
	for i, t := range all[level] {
		if ratio := all.keysIn(level+1, t) / t.keys; ratio < least {
			best, least = i, ratio
		}
	}
	given := all[level][best]
	all[level] = slices.Delete(all[level], best, best+1)
	return given
}

// keysIn are the keys of the tables of a level that a table overlaps.
func (all *spans) keysIn(level int, t span) (keys float64) {
	tables := all[level]
	i, _ := slices.BinarySearchFunc(tables, t.from, func(o span, at float64) int { return cmp.Compare(o.to, at) })
	for ; i < len(tables) && tables[i].from < t.to; i++ {
		keys += tables[i].keys
	}
	return keys
}

// outside is the share of the keys below a level that no table of the level spans.
func (all *spans) outside(level int) float64 {
	inside, below := 0.0, 0.0
	for deeper := level + 1; deeper < engine.ModelLevels; deeper++ {
		at := 0
		for _, t := range all[deeper] {
			below += t.keys
			for at < len(all[level]) && all[level][at].to <= t.from {
				at++
			}
			for i := at; i < len(all[level]) && all[level][i].from < t.to; i++ {
				s := all[level][i]
				inside += t.keys * (math.Min(s.to, t.to) - math.Max(s.from, t.from)) / (t.to - t.from)
			}
		}
	}
	if below == 0 {
		return 0
	}
	const spansAll = 1e-9 // not nothing, which would stand for not known
	return math.Max(spansAll, 1-inside/below)
}
