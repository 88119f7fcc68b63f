// Package resolve computes which blocks a Get of Pebble asks for, without
// making the Get: from the tables' bounds, filters and indexes.
//
// The answer is exact, access for access and in order, for Pebble v1 and v2
// and for row and columnar blocks; the tests compare it with the engines
// themselves, opened with a cache that admits nothing. What Pebble does is read
// from its sources (get_iter.go, level_iter.go of v1, sstable/reader_iter_*);
// the comments here name the rules that matter.
//
// Data blocks are looked into only where filters and indexes cannot decide: a
// filter said yes above the last level, or a key may be absent.
//
// Goals: exactness, then speed (no allocation per Get, all cores). What it cannot resolve exactly
// it refuses to open: virtual or remote tables, values in blob files, comparers of the user's. A
// database that is written meanwhile is followed (following.go): each Get is then resolved on the
// tables and the memory of its own moment (moments.go). Non-goals: values.
//
// Read open.go for what is taken from a database, walk.go for one Get,
// record.go for whole traces.
package resolve

import (
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Resolver knows the tables of a database as they were at Open; they stay
// readable although their owner deletes them. It holds all indexes
// decompressed, and the filters that a Get asks for: about 45 bytes a data block.
// Data stay in the files. Safe for concurrent use through Walkers.
type Resolver struct {
	lookuppath.Tables[*table]
	version   cachesim.PebbleVersion
	levels    []level // in the order a Get looks
	kept      dbformat.KeptByPebble
	unflushed *lookuppath.Unflushed // what no table holds yet
	inLog     uint64                // entries of the logs
	iterates  bool                  // see AskLastFilters
	scanShare int                   // see Expect

	// Of a database that was followed, instead of levels and unflushed:
	states []lsmtail.State[level]
	memory *lsmtail.Memory
}

// Walk implements lookuppath.Source.
func (r *Resolver) Walk() lookuppath.PathResolver {
	w := r.Walker()
	if r.states == nil {
		return w
	}
	return lookuppath.AtMoments(w, &w.levels, &w.memory, r.states, r.memory)
}

// Numbers of a table's blocks, from its first on: the fixed ones, then index
// partitions, then data blocks.
const (
	rootNumber       = 0 // the top index, or the whole index
	filterNumber     = 1
	rangeDelNumber   = 2
	propertiesNumber = 3
	fixedNumbers     = 4
)

// Describe implements lookuppath.Described. It tells all of a block that does not need its content.
func (t *table) Describe(number uint32) (b cachesim.Block, h handle) {
	b = cachesim.Block{File: t.File, Level: uint8(t.Level)}
	switch at := number - t.First; {
	case at == rootNumber:
		b.Type, h = engine.SingleIndex, t.Root
		if t.twoLevels() {
			b.Type = engine.TopIndex
		}
	case at == filterNumber:
		b.Type, h = engine.Filter, t.filterAt
	case at == rangeDelNumber:
		b.Type, h = engine.Meta, t.rangeDelAt
	case at == propertiesNumber:
		b.Type, h = engine.Meta, t.propertiesAt
	case at < t.FirstData:
		b.Type, h = engine.Index, t.Partitions[at-fixedNumbers]
	default:
		b.Type, h = engine.Data, t.Data[at-t.FirstData]
	}

	return b, h
}
