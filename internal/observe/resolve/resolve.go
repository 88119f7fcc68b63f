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
// Goals: exactness, then speed (no allocation per Get, all cores). What it
// cannot resolve exactly it refuses to open: range keys, virtual or remote
// tables, values in blob files, comparers of the user's.
// Non-goals: time; values; concurrent writes.
//
// Read open.go for what is taken from a database, walk.go for one Get,
// record.go for whole traces.
package resolve

import (
	"errors"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// Resolver knows the tables of a database as they were at Open; they stay
// readable although their owner deletes them. It holds all indexes
// decompressed (about 30 bytes a data block); filters and data stay in files
// mapped into memory. Safe for concurrent use through Walkers.
type Resolver struct {
	version   cachesim.PebbleVersion
	identity  string
	levels    []level  // in the order a Get looks
	tables    []*table // by the numbers of their blocks
	blocks    uint32
	unflushed map[string]entryKind // newest entries of keys that no table holds yet
}

// Identity identifies the database by its tables: their numbers, levels and
// sizes.
func (r *Resolver) Identity() string { return r.identity }

// Version is the version of Pebble that is resolved for.
func (r *Resolver) Version() cachesim.PebbleVersion { return r.version }

// Blocks is the number of block numbers: all are below it, not all are blocks.
func (r *Resolver) Blocks() uint32 { return r.blocks }

// Block describes the block of a number that a Walker returned. It reads the
// block's first and last bytes to learn its decompressed size.
func (r *Resolver) Block(number uint32) (cachesim.Block, error) {
	i := sort.Search(len(r.tables), func(i int) bool { return r.tables[i].first > number }) - 1
	return r.tables[i].describe(number)
}

// Close unmaps the tables. No Walker may be used afterwards.
func (r *Resolver) Close() error {
	var errs []error
	for _, t := range r.tables {
		errs = append(errs, unix.Munmap(t.mapped))
	}
	r.tables, r.levels = nil, nil
	return errors.Join(errs...)
}

// Numbers of a table's blocks, from its first on: the fixed ones, then index
// partitions, then data blocks.
const (
	rootNumber     = 0 // the top index, or the whole index
	filterNumber   = 1
	rangeDelNumber = 2
	fixedNumbers   = 3
)

func (t *table) describe(number uint32) (cachesim.Block, error) {
	b := cachesim.Block{File: t.file, Level: uint8(t.level)}
	var h handle
	switch at := number - t.first; {
	case at == rootNumber:
		b.Type, h = engine.SingleIndex, t.root
		if t.twoLevels() {
			b.Type = engine.TopIndex
		}
	case at == filterNumber:
		b.Type, h = engine.Filter, t.filterAt
	case at == rangeDelNumber:
		b.Type, h = engine.Meta, t.rangeDelAt
	case at < t.firstData:
		b.Type, h = engine.Index, t.partitions[at-fixedNumbers]
	default:
		b.Type, h = engine.Data, t.data[at-t.firstData]
	}
	stored, err := t.stored(h)
	if err != nil {
		return b, err
	}
	bytes, ok := blockio.DecodedBytes(stored)
	if !ok || bytes > maxBlockBytes {
		return b, t.corrupt(h, "unknown compression")
	}
	b.Offset, b.DiskBytes, b.Bytes = h.offset, int32(len(stored)), int32(bytes)
	return b, nil
}
