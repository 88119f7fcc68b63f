package lookuppath

import (
	"bytes"
	"maps"
	"slices"

	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Unflushed is what logs hold that are read at one moment: what an engine replays into memory when
// it opens a database. Entries are added from the oldest to the newest; then comes Finish, and then
// Find.
type Unflushed struct {
	newest     map[string]logged
	tombstones []Tombstone // in the order written, then disjoint; numbered by entry
	entries    uint64      // so far
}

// logged is the newest entry of a key, and under a merge operand the older ones.
type logged struct {
	entry  lsmtail.Entry
	number uint64 // among the entries of the logs
	older  *logged
}

// Wrote adds an entry. A deleted range begins with key, and end is behind it.
func (u *Unflushed) Wrote(entry lsmtail.Entry, key, end []byte) {
	u.entries++
	if entry == lsmtail.Range {
		u.tombstones = append(u.tombstones, Tombstone{
			Start:  bytes.Clone(key),
			End:    bytes.Clone(end),
			SeqNum: u.entries,
		})

		return
	}

	e := logged{entry: entry, number: u.entries}
	if before, is := u.newest[string(key)]; is && entry == lsmtail.Merge {
		e.older = &before
	}

	if u.newest == nil {
		u.newest = map[string]logged{}
	}

	u.newest[string(key)] = e
}

// Finish has to be called before Find.
func (u *Unflushed) Finish() { u.tombstones = Disjoint(u.tombstones) }

// Keys are those that have an entry of their own, deletions included, in order.
func (u *Unflushed) Keys() []string { return slices.Sorted(maps.Keys(u.newest)) }

// DeletesRanges tells whether ranges of keys are deleted.
func (u *Unflushed) DeletesRanges() bool { return len(u.tombstones) > 0 }

// Find tells what a Get meets in memory: the newest entry that counts, a merge operand only where
// everything older is in the tables. gone: a range deletion hides what lies below.
func (u *Unflushed) Find(key []byte) (entry lsmtail.Entry, gone bool) {
	if u.entries == 0 {
		return lsmtail.None, false
	}

	deletedAt, gone := CoveredBy(u.tombstones, key)
	newest, is := u.newest[string(key)]
	if !is || gone && newest.number < deletedAt {
		return lsmtail.None, gone
	}

	if newest.entry != lsmtail.Merge {
		return newest.entry, gone
	}

	for e := newest.older; e != nil; e = e.older {
		if gone && e.number < deletedAt || e.entry != lsmtail.Merge {
			return lsmtail.Set, gone // a merge ends at what is not one
		}
	}

	if gone {
		return lsmtail.Set, gone
	}

	return lsmtail.Merge, gone
}

// Memory is what a Get looks into before the tables: what the newest entry of the key says, if it
// counts, and whether a range deletion hides what lies below.
type Memory interface {
	Find(key []byte) (entry lsmtail.Entry, gone bool)
}

// atMoment resolves each Get on the levels, and with the keys in memory, of its own moment, which
// follows its key (lsmtail.AppendTime).
type atMoment[L any] struct {
	PathResolver
	levels *[]L
	states []lsmtail.State[L]
	then   lsmtail.MemoryAt
}

// AtMoments is a Walker whose Gets have a moment each. levels and memory are what w looks into.
func AtMoments[L any](
	w PathResolver, levels *[]L, memory *Memory, states []lsmtail.State[L], then *lsmtail.Memory,
) PathResolver {
	m := &atMoment[L]{
		PathResolver: w,
		levels:       levels,
		states:       states,
		then:         lsmtail.MemoryAt{Memory: then},
	}
	*memory = &m.then
	return m
}

// Get implements Walker.
func (m *atMoment[L]) Get(
	key []byte, known bool, dst []uint32,
) (numbers []uint32, found bool, err error) {
	key, m.then.At = lsmtail.Moment(key)
	*m.levels = lsmtail.LevelsAt(m.states, m.then.At)
	return m.PathResolver.Get(key, known, dst)
}

// GetMany implements BatchPathResolver, of Gets of one moment.
func (m *atMoment[L]) GetMany(
	keys [][]byte, known, found []bool, numbers []uint32,
) ([]uint32, error) {
	for i, key := range keys {
		keys[i], m.then.At = lsmtail.Moment(key)
	}
	*m.levels = lsmtail.LevelsAt(m.states, m.then.At)
	return m.PathResolver.(BatchPathResolver).GetMany(keys, known, found, numbers)
}
