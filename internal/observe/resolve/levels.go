package resolve

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

const lastLevel = 6

// level is a level, or a sublevel of L0: tables in key order that do not
// overlap.
type level struct {
	number  int
	tables  []*table
	largest lookuppath.SortedKeys // of the tables; of a level at a moment: none
}

// find returns the table that a Get of key looks into. Both versions take the
// first whose largest key is not below key; only v2 skips it where key lies in
// the gap before it.
func (l *level) find(key []byte, version cachesim.PebbleVersion) (at int, found bool) {
	at = l.seek(key)
	if at < len(l.tables) && l.tables[at].points.Exclusive &&
		bytes.Equal(l.tables[at].points.Largest, key) {
		at++
	}

	if at == len(l.tables) {
		return at, false
	}

	return at, version == cachesim.PebbleV1 || bytes.Compare(l.tables[at].points.Smallest, key) <= 0
}

// inGetOrder arranges tables as a Get looks at them: sublevels of L0 from the
// newest to the oldest, then the other levels.
func inGetOrder(tables []*table) []level {
	byLevel := make([][]*table, lastLevel+1)
	for _, t := range tables {
		byLevel[t.Level] = append(byLevel[t.Level], t)
	}

	var levels []level
	for number, of := range byLevel {
		some, _ := levelsOf(number, of)
		levels = append(levels, some...)
	}

	for i := range levels {
		l := &levels[i]
		for _, t := range l.tables {
			l.largest.Add(t.points.Largest)
		}
		l.largest.Finish()
	}

	return levels
}

// levelsOf are the levels that the tables of one are, which it may reorder. No Get sees tables
// without points.
func levelsOf(number int, tables []*table) (levels []level, _ error) {
	sortByKey(tables)
	parts := [][]*table{tables}
	if number == 0 {
		parts = sublevels(tables)
		slices.Reverse(parts)
	}

	for _, part := range parts {
		if len(part) > 0 {
			levels = append(levels, level{
				number: number,
				tables: slices.DeleteFunc(part, func(t *table) bool { return t.points == nil }),
			})
		}
	}

	return levels, nil
}

// sublevels divides L0 as Pebble does: oldest first, each table one above the
// highest that it overlaps.
func sublevels(tables []*table) [][]*table {
	byAge := slices.Clone(tables)
	slices.SortFunc(byAge, func(a, b *table) int {
		return cmp.Or(
			cmp.Compare(a.LargestSeqNum, b.LargestSeqNum),
			cmp.Compare(a.SmallestSeqNum, b.SmallestSeqNum),
			cmp.Compare(a.File, b.File),
		)
	})

	var divided [][]*table
	for _, t := range byAge {
		above := len(divided)
		for above > 0 && !slices.ContainsFunc(divided[above-1], t.overlaps) {
			above--
		}

		if above == len(divided) {
			divided = append(divided, nil)
		}

		divided[above] = append(divided[above], t)
	}

	for _, sublevel := range divided {
		sortByKey(sublevel)
	}

	return divided
}

func sortByKey(tables []*table) {
	slices.SortFunc(tables, func(a, b *table) int { return bytes.Compare(a.Smallest, b.Smallest) })
}

func (t *table) overlaps(u *table) bool { return !t.endsBefore(u) && !u.endsBefore(t) }

func (t *table) endsBefore(u *table) bool {
	c := bytes.Compare(t.Largest, u.Smallest)
	return c < 0 || c == 0 && t.Exclusive
}
