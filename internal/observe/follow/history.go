// Package follow has what is common to those who follow a database while its owner writes into it, whatever engine it is: the records of
// its logs and manifests as they are written (Tail), when tables came and went (History), and what was in memory (Memory).
//
// Non-goals: what a record means (internal/observe/resolve and internal/observe/blocktable); which blocks a Get asks for.
package follow

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
)

const momentBytes = 8

// At appends the moment of a Get to its key.
func At(key []byte, at time.Duration) []byte {
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

// Change is what happened to the cache of the database's owner at a time: a table came or is gone, or memory was taken from it or
// given back.
type Change struct {
	At         time.Duration
	Came, Gone uint64 // file numbers; 0: none
	Held       int64  // bytes
}

// History is when tables came and went, by the changes of a database, in order.
type History struct {
	at    []time.Duration // when each was noticed
	lives map[uint64]life
}

// life is which changes brought a table and took it away; took -1: it is still there.
type life struct{ came, took int }

// Changed adds a change: the files that went, and those that came, of which some may be the same on another level.
func (h *History) Changed(at time.Duration, gone, came []uint64) {
	if h.lives == nil {
		h.lives = map[uint64]life{}
	}
	i := len(h.at)
	h.at = append(h.at, at)
	for _, file := range gone {
		h.lives[file] = life{h.lives[file].came, i}
	}
	for _, file := range came {
		if l, moved := h.lives[file]; moved {
			h.lives[file] = life{l.came, -1}
		} else {
			h.lives[file] = life{i, -1}
		}
	}
}

// At is when a change was made.
func (h *History) At(change int) time.Duration { return h.at[change] }

// Correct moves changes to when they were made, since they are noticed a little later or earlier: when a Get began that
// read a table, the change that brought it had been made, and the one that took it away had not.
func (h *History) Correct(all []Seen) {
	for _, s := range all {
		l, known := h.lives[s.File]
		if !known {
			continue
		}
		for i := l.came; i >= 0 && h.at[i] > s.At; i-- {
			h.at[i] = s.At
		}
		for i := l.took; i >= 0 && i < len(h.at) && h.at[i] <= s.At; i++ {
			h.at[i] = s.At + 1
		}
	}
}

// Came tells of tables that came while the database was followed.
func (h *History) Came() map[uint64]bool {
	came := map[uint64]bool{}
	for file, l := range h.lives {
		came[file] = h.at[l.came] > 0
	}
	return came
}

// Changes are the tables that came while the database was followed, and those that went, in the order of time.
func (h *History) Changes() (changes []Change) {
	for file, l := range h.lives {
		if h.at[l.came] > 0 {
			changes = append(changes, Change{At: h.at[l.came], Came: file})
		}
		if l.took >= 0 {
			changes = append(changes, Change{At: h.at[l.took], Gone: file})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Came, b.Came), cmp.Compare(a.Gone, b.Gone))
	})
	return changes
}
