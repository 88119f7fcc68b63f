// Package blockbased computes which blocks a Get asks the block cache for, without making the Get,
// of databases of block-based tables: RocksDB's, and those of LevelDB in Go (goleveldb). It reads
// manifests, OPTIONS files, write-ahead logs and tables itself, without the library.
//
// The answer is exact, access for access and in order, for one thread on a database that is opened
// afresh with all its tables open; the tests compare it with the library's counters. What a Get
// does is read from RocksDB's sources (db/version_set*, table/block_based/*_reader*).
//
// What it cannot resolve exactly it refuses to open, by name: plain and cuckoo tables, encrypted
// files, orders of the user, timestamps of the user, tables in other folders, formats older than 2
// or newer than 7, deletions of ranges beside ingested tables. Non-goals: time; values; writes
// after the last look (following.go).
//
// Read open.go for what is taken from a database, walk.go for one Get, table.go for the format,
// level.go for what is different in LevelDB.
package blockbased

import (
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Resolver knows the tables of a family as they were at Open; they stay readable although their
// owner deletes them. It holds all indexes and filters decompressed. Data stay in the files. Safe
// for concurrent use through Walkers.
type Resolver struct {
	lookuppath.Tables[*table]
	reading  Reading
	noPolicy bool             // see consultFilters
	torn     string           // see manifest
	doubts   []engine.Warning // about options of the database's owner
	levels   []level          // in the order in which a Get looks
	// by number; their blocks, one each, are behind those of the tables
	blobs     []lsmtail.BlobFile
	firstBlob uint32
	unflushed *lookuppath.Unflushed
	endsBatch func(made uint64) bool // nil: each Get is made alone
	tables    *cachesim.TableCache   // nil: all tables stay open
	opened    []uint64               // files, in the order in which RocksDB opens them

	// Of a database that was followed, instead of levels and unflushed:
	states []lsmtail.State[level]
	memory *lsmtail.Memory
}

// level is a level that has tables: those of level 0 from the newest to the oldest, the others in
// key order.
type level struct {
	number  int
	tables  []*table
	largest lookuppath.SortedKeys
	beyond  []bool // of largest: the end of a range deletion, which is not in the table
}

// Warnings tell what of the database was passed over.
func (r *Resolver) Warnings() []engine.Warning {
	if r.torn == "" {
		return slices.Clone(r.doubts)
	}
	return append(slices.Clone(r.doubts), engine.Warning{Code: "torn_manifest",
		Text: r.torn + " ends in the middle of a record: the database is taken as it stood " +
			"before that, as RocksDB takes it",
		Remedy: "if a process writes to the database, wait until it has flushed, and try again"})
}

// Expect implements lookuppath.Source.
func (*Resolver) Expect(uint64) {}

// Block implements lookuppath.Source.
func (r *Resolver) Block(number uint32) (cachesim.Block, error) {
	if number >= r.firstBlob && int(number-r.firstBlob) < len(r.blobs) {
		// A value is read each time. How large it is is not looked up: it is the mean of its file.
		return cachesim.Block{
			File:      r.blobs[number-r.firstBlob].Number,
			Level:     engine.LevelUnknown,
			Type:      engine.Value,
			Bytes:     r.Size(number),
			DiskBytes: r.Size(number),
			Marks:     cachesim.Uncached,
		}, nil
	}

	return r.Tables.Block(number)
}

// Learn implements lookuppath.PathResolver.
func (w *Walker) Learn(numbers []uint32) error {
	for _, number := range w.r.Unknown(numbers) {
		if err := w.r.Tables.Learn(number, &w.buffer.stored); err != nil {
			return err
		}
	}
	return nil
}

// Decoded implements lookuppath.Described.
func (t *table) Decoded(h handle, stored []byte) (int, error) {
	size, _, err := t.decodedBytes(stored[h.Bytes], stored[:h.Bytes])
	if err != nil {
		return 0, t.Damaged(h, err.Error())
	}
	if t.reading.Level {
		size = t.reading.buffer(int(h.Bytes), size, stored[h.Bytes] == notCompressed)
	}
	return size, nil
}

// Opening implements lookuppath.Source. Tables of level 0 are opened with all their metadata, the
// others with what stays pinned. Where a limited number of tables is open, only those that stay
// open are opened with the database.
func (r *Resolver) Opening() (numbers []uint32) {
	if r.reading.Level {
		return nil
	}

	for _, t := range r.All {
		if r.tables == nil || r.tables.Pinned(t.File) {
			numbers = append(numbers, t.opening(t.Level == 0)...)
		}
	}

	return numbers
}

// opening are the blocks that opening the table asks the block cache for: all its metadata, or what
// stays pinned.
func (t *table) opening(all bool) (numbers []uint32) {
	ask := func(at uint32) { numbers = append(numbers, t.First+at) }
	cached := t.reading.MetadataInCache
	if cached && (all || t.pinnedRoot) {
		ask(rootNumber)
	}

	if all || t.pinnedPartitions {
		if len(t.Partitions) > 0 && cached && !t.pinnedRoot {
			ask(rootNumber)
		}

		for p := range t.Partitions {
			ask(fixedNumbers + uint32(p))
		}
	}

	if t.filters.at.Bytes > 0 {
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

	if t.dictionaryAt.Bytes > 0 && cached && (all || t.pinnedDictionary) {
		ask(dictionaryNumber)
	}

	return numbers
}
