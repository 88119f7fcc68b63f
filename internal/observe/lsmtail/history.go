// Package lsmtail has what manifests and logs of databases say, whatever engine it is: the edits of
// a manifest (Edit), and, of a database that is followed while its owner writes into it, records as
// they are written (Tail), when tables came and went (Database), and what was in memory at each
// time (Memory).
//
// Non-goals: what is in a table (internal/observe/resolve and internal/observe/blockbased); which
// blocks a Get asks for.
package lsmtail

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sort"
	"time"
)

const momentBytes = 8

// AppendTime appends the moment of a Get to its key.
func AppendTime(key []byte, at time.Duration) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(key), uint64(at))
}

// Moment takes it off again.
func Moment(key []byte) (user []byte, at time.Duration) {
	n := len(key) - momentBytes
	return key[:n], time.Duration(binary.BigEndian.Uint64(key[n:]))
}

// Seen is a Get that began at a time and read a table.
type Seen struct {
	File uint64
	At   time.Duration
}

// Change is what happened to the cache of the database's owner at a time: a table came or is gone,
// or memory was taken from it or given back.
type Change struct {
	At                       time.Duration
	TableAdded, TableDeleted uint64 // file numbers; 0: none
	Held                     int64  // bytes
}

// Unresolved are the errors of tables that cannot be opened here.
func (d *Database) Unresolved() error {
	var errs []error
	for _, c := range d.changes {
		errs = append(errs, c.Unresolved)
	}
	return errors.Join(errs...)
}

// life is which changes brought a table and took it away; took -1: it is still there.
type life struct{ came, took int }

// lives are those of all tables. A table can go and come in one change, when it gets to another
// level.
func (d *Database) lives() map[uint64]life {
	lives := map[uint64]life{}
	for i, c := range d.changes {
		for _, t := range c.Removed {
			lives[t.File] = life{lives[t.File].came, i}
		}

		for _, t := range c.Added {
			if l, moved := lives[t.File]; moved {
				lives[t.File] = life{l.came, -1}
			} else {
				lives[t.File] = life{i, -1}
			}
		}
	}

	return lives
}

// Correct moves changes to when they were made, since they are noticed a little later or earlier:
// when a Get began that read a table, the change that brought it had been made, and the one that
// took it away had not.
func (d *Database) Correct(all []Seen) {
	lives := d.lives()
	for _, s := range all {
		l, known := lives[s.File]
		if !known {
			continue
		}

		for i := l.came; i >= 0 && d.changes[i].at > s.At; i-- {
			d.changes[i].at = s.At
		}

		for i := l.took; i >= 0 && i < len(d.changes) && d.changes[i].at <= s.At; i++ {
			d.changes[i].at = s.At + 1
		}
	}
}

// TablesAdded tells of tables that came while the database was followed.
func (d *Database) TablesAdded() map[uint64]bool {
	came := map[uint64]bool{}
	for file, l := range d.lives() {
		came[file] = d.changes[l.came].at > 0
	}
	return came
}

// Level is that of a table, the last one if it is gone.
func (d *Database) Level(file uint64) (level int, known bool) {
	level, known = d.levels[file]
	return level, known
}

// Changes are the tables that came while the database was followed, and those that went, in the
// order of time.
func (d *Database) Changes() (changes []Change) {
	for file, l := range d.lives() {
		if came := d.changes[l.came].at; came > 0 {
			changes = append(changes, Change{At: came, TableAdded: file})
		}

		if l.took >= 0 {
			changes = append(changes, Change{At: d.changes[l.took].at, TableDeleted: file})
		}
	}

	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.TableAdded, b.TableAdded),
			cmp.Compare(a.TableDeleted, b.TableDeleted))
	})

	return changes
}

// State is what there was from a time on: levels, in the order in which a Get asks them.
type State[L any] struct {
	from   time.Duration
	levels []L
}

// States are those of a family, whose tables were opened, by their numbers. of makes what a Get
// asks of the tables of a level.
func States[T, L any](
	d *Database, family uint32, opened map[uint64]T, of func(number int, tables []T) ([]L, error),
) (states []State[L], err error) {
	tables, levels := map[int]map[uint64]T{}, map[int][]L{}
	for _, c := range d.changes {
		touched := map[int]bool{}
		for _, t := range c.Removed {
			if t.Family == family {
				touched[t.Level] = true
				delete(tables[t.Level], t.File)
			}
		}

		for _, t := range c.Added {
			if table, is := opened[t.File]; is && t.Family == family {
				if touched[t.Level] = true; tables[t.Level] == nil {
					tables[t.Level] = map[uint64]T{}
				}
				tables[t.Level][t.File] = table
			}
		}

		if len(touched) == 0 && len(states) > 0 {
			continue
		}

		for number := range touched {
			var present []T
			for _, file := range slices.Sorted(maps.Keys(tables[number])) {
				present = append(present, tables[number][file])
			}

			if levels[number], err = of(number, present); err != nil {
				return nil, err
			}
		}

		s := State[L]{from: c.at}
		for _, number := range slices.Sorted(maps.Keys(levels)) {
			s.levels = append(s.levels, levels[number]...)
		}

		states = append(states, s)
	}

	return states, nil
}

// LevelsAt are the levels that there were at a time.
func LevelsAt[L any](states []State[L], when time.Duration) []L {
	after := sort.Search(len(states), func(i int) bool { return states[i].from > when })
	return states[max(after-1, 0)].levels
}
