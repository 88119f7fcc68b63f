// Package blocktable computes which blocks a Get asks the block cache for, without making the Get,
// of databases of block-based tables: RocksDB's, and those of LevelDB in Go (goleveldb). It reads manifests, OPTIONS files, write-ahead logs
// and tables itself, without the library.
//
// The answer is exact, access for access and in order, for one thread on a database that is opened
// afresh with all its tables open; the tests compare it with the library's counters. What a Get does
// is read from RocksDB's sources (db/version_set*, table/block_based/*_reader*).
//
// What it cannot resolve exactly it refuses to open, by name: plain and cuckoo tables, encrypted
// files, orders of the user, timestamps of the user, tables in other folders, formats older than 2 or newer than 7, deletions of ranges beside ingested tables.
// Non-goals: time; values; writes after the last look (following.go); tables that are opened by Gets.
//
// Read open.go for what is taken from a database, walk.go for one Get, table.go for the format, level.go
// for what is different in LevelDB.
package blocktable

import (
	"errors"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/follow"
	"github.com/statelab/statelab/internal/observe/getpath"
)

// Resolver knows the tables of a family as they were at Open; they stay readable although their
// owner deletes them. It holds all indexes and filters decompressed. Data stay in the files. Safe for
// concurrent use through Walkers.
type Resolver struct {
	reading   Reading
	torn      string // see manifest
	identity  string
	levels    []level  // in the order in which a Get looks
	tables    []*table // by the numbers of their blocks
	filtersL0 bool     // tables of level 0 are asked within their bounds only
	blocks    uint32
	blobs     []follow.BlobFile // by number; their blocks, one each, are behind those of the tables
	firstBlob uint32
	sizes     []atomic.Int32 // decompressed, by number, plus one; 0: not learnt yet
	unflushed *follow.Unflushed
	endsBatch func(made uint64) bool // nil: each Get is made alone

	// Of a database that was followed, instead of levels and unflushed:
	states []follow.State[level]
	memory *follow.Memory
}

// level is a level that has tables: those of level 0 from the newest to the oldest, the others in
// key order.
type level struct {
	number  int
	tables  []*table
	largest getpath.SortedKeys
	beyond  []bool // of largest: the end of a range deletion, which is not in the table
}

// Identity identifies the family by its tables: their numbers, levels and sizes.
func (r *Resolver) Identity() string { return r.identity }

// Warnings tell what of the database was passed over.
func (r *Resolver) Warnings() []engine.Warning {
	if r.torn == "" {
		return nil
	}
	return []engine.Warning{{Code: "torn_manifest",
		Text:   r.torn + " ends in the middle of a record: the database is taken as it stood before that, as RocksDB takes it",
		Remedy: "if a process writes to the database, wait until it has flushed, and try again"}}
}

// Blocks implements getpath.Source.
func (r *Resolver) Blocks() uint32 { return r.blocks }

// Expect implements getpath.Source.
func (*Resolver) Expect(uint64) {}

// Block implements getpath.Source.
func (r *Resolver) Block(number uint32) (cachesim.Block, error) {
	if number >= r.firstBlob {
		// A value is read each time. How large it is is not looked up: it is the mean of its file.
		return cachesim.Block{File: r.blobs[number-r.firstBlob].Number, Level: engine.LevelUnknown, Type: engine.Value, Bytes: r.sizes[number].Load() - 1,
			DiskBytes: r.sizes[number].Load() - 1, Marks: cachesim.Uncached}, nil
	}
	t := r.tableOf(number)
	b, h := t.describe(number)
	if r.sizes[number].Load() == 0 {
		if err := r.learn(t, number, new(buffer)); err != nil {
			return b, err
		}
	}
	b.Offset, b.DiskBytes, b.Bytes = h.offset, int32(h.bytes)+trailerBytes, r.sizes[number].Load()-1
	return b, nil
}

func (r *Resolver) tableOf(number uint32) *table {
	return r.tables[sort.Search(len(r.tables), func(i int) bool { return r.tables[i].first > number })-1]
}

// Learn implements getpath.Walker.
func (w *Walker) Learn(numbers []uint32) error {
	numbers = slices.DeleteFunc(numbers, func(number uint32) bool { return w.r.sizes[number].Load() != 0 })
	slices.Sort(numbers)
	for _, number := range slices.Compact(numbers) {
		if err := w.r.learn(w.r.tableOf(number), number, &w.buffer); err != nil {
			return err
		}
	}
	return nil
}

// learn learns the decompressed size of a block.
func (r *Resolver) learn(t *table, number uint32, in *buffer) error {
	_, h := t.describe(number)
	stored, err := t.read(h, in)
	if err != nil {
		return err
	}
	size, _, err := t.decodedBytes(stored[h.bytes], stored[:h.bytes])
	if err != nil {
		return t.damaged(h, err.Error())
	}
	if r.reading.Level {
		size = r.reading.buffer(int(h.bytes), size, stored[h.bytes] == notCompressed)
	}
	r.sizes[number].Store(int32(size) + 1)
	return nil
}

// Opening implements getpath.Source. Tables of level 0 are opened with all their metadata, the others
// with what stays pinned.
func (r *Resolver) Opening() (numbers []uint32) {
	if r.reading.Level {
		return nil
	}
	for _, t := range r.tables {
		ask := func(at uint32) { numbers = append(numbers, t.first+at) }
		all, cached := t.Level == 0, r.reading.MetadataInCache
		if cached && (all || t.pinnedRoot) {
			ask(rootNumber)
		}
		if all || t.pinnedPartitions {
			if len(t.partitions) > 0 && cached && !t.pinnedRoot {
				ask(rootNumber)
			}
			for p := range t.partitions {
				ask(fixedNumbers + uint32(p))
			}
		}
		if t.filters.at.bytes > 0 {
			if cached && (all || t.pinnedFilter) {
				ask(filterNumber)
			}
			if t.filters.parted && (all || t.pinnedPartitions) {
				if cached && !t.pinnedFilter {
					ask(filterNumber)
				}
				for p := range t.filters.partitions {
					ask(t.firstFilter + uint32(p))
				}
			}
		}
		if t.dictionaryAt.bytes > 0 && cached && (all || t.pinnedDictionary) {
			ask(dictionaryNumber)
		}
	}
	return numbers
}

// Close closes the tables. No Walker may be used afterwards.
func (r *Resolver) Close() error {
	var errs []error
	for _, t := range r.tables {
		if t != nil { // what could not be opened
			errs = append(errs, t.opened.Close())
		}
	}
	r.tables, r.levels = nil, nil
	return errors.Join(errs...)
}
