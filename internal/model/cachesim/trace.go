// Package cachesim replays block accesses through models of block caches.
//
// The CLOCK-Pro here makes the decisions of Pebble's cache, block for block; a
// test compares it with the caches of Pebble v1 and v2 themselves. The other
// policies show what a different cache would have read.
//
// Read clockpro.go for the policy and for how Pebble divides a cache into shards,
// trace.go and curve.go for the miss-ratio curve, which replays one trace at many
// sizes: replay.go does it shard by shard, lrustack.go for all sizes of LRU at once,
// sample.go with a sample of the blocks.
//
// Accesses are replayed one after the other. Two lookups that miss one block at
// the same time (two reads in Pebble v1) are not modelled, nor is time.
package cachesim

import (
	"fmt"
	"math"
	"slices"

	"github.com/statelab/statelab/engine"
)

// Block is a block of a table file.
type Block struct {
	File      uint64
	Offset    uint64
	Bytes     int32 // decompressed
	DiskBytes int32
	Type      engine.BlockType
	Level     uint8
	Marks     Marks
}

// Marks tell how an engine treats a block in its cache.
type Marks uint8

// Marks of a block.
const (
	HighPriority Marks = 1 << iota
	Pinned             // never leaves the cache
	ParsedFilter       // a filter, kept in another form than other blocks
	Uncached           // never enters the cache
	knownMarks   = HighPriority | Pinned | ParsedFilter | Uncached
)

// Known reports whether m has no others than these.
func (m Marks) Known() bool { return m&^knownMarks == 0 }

// Trace is the sequence of block accesses of a run, in the order a single
// thread made them. The zero value is empty.
type Trace struct {
	Blocks []Block
	// Accesses are numbers of Blocks.
	Accesses []uint32
	// Gets are where each Get begins in Accesses.
	Gets []uint32
	// WarmupGets is how many Gets at the start fill the cache uncounted.
	WarmupGets int
	// Events are what happened to the cache besides, in order.
	Events []Event
	// Filled are bytes that Pebble's cache held, if it is as large, when the trace began: of blocks
	// that nobody asks for here.
	Filled int64
	// CacheKeys are what RocksDB's cache calls the tables' files, where that is known.
	CacheKeys map[uint64][2]uint64

	numbers map[blockKey]uint32
	sample  *sample // nil: this is the whole trace
}

// Event is something that happened to a cache before a Get: a table was deleted, whose blocks
// Pebble's caches drop; one came, of which RocksDB's caches are given all but the data; the
// database took memory from the cache (less than 0: gave it back); or a compaction had gone through
// a table up to an offset, which marks the blocks that the cache has as used, and brings none.
type Event struct {
	Get          int    `json:"get"`
	TableAdded   uint64 `json:"came,omitempty"`   // file number
	TableDeleted uint64 `json:"gone,omitempty"`   // file number
	Reserved     int64  `json:"held,omitempty"`   // bytes
	TableScanned uint64 `json:"passed,omitempty"` // file number
	Offset       uint64 `json:"offset,omitempty"`
}

type blockKey struct{ file, offset uint64 }

// BeginGet marks the next access as the first of a Get.
func (t *Trace) BeginGet() { t.Gets = append(t.Gets, uint32(len(t.Accesses))) }

// Touch records an access of the current Get. The first access to a block sets
// its facts. Accesses before the first Get count as warm-up.
func (t *Trace) Touch(b Block) error {
	if len(t.Accesses) == math.MaxUint32 {
		return fmt.Errorf("record access: a trace holds at most %d accesses",
			uint32(math.MaxUint32))
	}

	if b.Type >= engine.NumBlockTypes || b.Bytes < 0 {
		return fmt.Errorf(
			"record access: file %d offset %d: impossible block of type %d, %d bytes",
			b.File,
			b.Offset,
			b.Type,
			b.Bytes,
		)
	}

	t.Accesses = append(t.Accesses, t.Number(b))
	return nil
}

// Number is that of a block in Blocks. The first time sets its facts.
func (t *Trace) Number(b Block) uint32 {
	if t.numbers == nil {
		t.numbers = make(map[blockKey]uint32)
	}

	key := blockKey{b.File, b.Offset}
	number, known := t.numbers[key]
	if !known {
		number = uint32(len(t.Blocks))
		t.numbers[key] = number
		t.Blocks = append(t.Blocks, b)
	}

	return number
}

// WithoutGets is the trace without the warm-up Gets from <= i < to. It shares the
// blocks with t.
func (t *Trace) WithoutGets(from, to int) *Trace {
	short := *t
	short.numbers = nil
	if from == to {
		return &short
	}

	removed := t.Gets[to] - t.Gets[from]
	short.WarmupGets -= to - from
	short.Accesses = slices.Concat(t.Accesses[:t.Gets[from]], t.Accesses[t.Gets[to]:])
	short.Gets = slices.Concat(t.Gets[:from], t.Gets[to:])
	for i := from; i < len(short.Gets); i++ {
		short.Gets[i] -= removed
	}

	return &short
}

// check names what makes the trace unusable.
func (t *Trace) check() error {
	if t.WarmupGets < 0 || t.WarmupGets >= len(t.Gets) {
		return fmt.Errorf("trace of %d Gets has none left after a warm-up of %d", len(t.Gets),
			t.WarmupGets)
	}

	before := uint32(0)
	for i, start := range t.Gets {
		if start < before || int64(start) > int64(len(t.Accesses)) {
			return fmt.Errorf(
				"trace: Get %d begins at access %d of %d, after one that begins at %d",
				i,
				start,
				len(t.Accesses),
				before,
			)
		}

		before = start
	}

	for i, number := range t.Accesses {
		if int64(number) >= int64(len(t.Blocks)) {
			return fmt.Errorf("trace: access %d is to block %d of %d", i, number, len(t.Blocks))
		}
	}

	for i, b := range t.Blocks {
		if b.Type >= engine.NumBlockTypes || b.Level > engine.LevelUnknown || b.Bytes < 0 {
			return fmt.Errorf("trace: block %d has impossible type %d, level %d or size %d", i,
				b.Type, b.Level, b.Bytes)
		}
	}

	return nil
}

// Cache decides which blocks stay. Implementations are not safe for concurrent
// use, and allocate only while they grow.
type Cache interface {
	// Access asks for the block id, which takes bytes in the cache, and admits
	// it if it was not there and the policy wants it. It reports a hit. A block
	// always comes with the same size.
	Access(id uint32, bytes int32) (hit bool)
	// UsedBytes are the bytes of the blocks in the cache.
	UsedBytes() int64
}
