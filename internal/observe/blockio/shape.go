package blockio

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
)

// LiveTable is a table of the current version, as the engine lists it.
type LiveTable struct {
	Number  FileNumber // of the file on disk
	Level   int
	Bytes   int64
	Virtual bool // the table is but a part of its file
	Remote  bool // the file is in storage that no file system reads

	Smallest, Largest []byte // user keys

	SmallestSeqNum, LargestSeqNum uint64 // of its entries; 0: the engine does not list them
}

// lastLevel is that of Pebble's tree, which has seven.
const lastLevel = 6

// Shape sums up the tables by level, of all that there are. chargeBytes is what the
// engine's cache charges for a block beyond its content. Tables of level 0 come oldest first.
// Values in files of their own, which belong to no level, are not told.
//
// The last level's filters are not consulted: both Pebble versions decide by
// the number of the level (6), not by whether it is the last with data.
func (r *Recorder) Shape(tables, all []LiveTable, chargeBytes int64) engine.Shape {
	levels := make([]engine.Level, engine.MaxLevels)
	for i := range levels {
		levels[i] = engine.Level{
			Level:           i,
			FilterConsulted: i != lastLevel,
			InCacheKnown:    true,
		}
	}

	files := map[FileNumber]bool{}
	var shape engine.Shape
	for _, t := range tables {
		l := &levels[t.Level]
		l.Files++
		l.Bytes += t.Bytes
		shape.Bytes += t.Bytes
		files[t.Number] = true
		a := r.TableLayout(t.Number)
		if a == nil {
			l.InCacheKnown = false
			continue
		}

		addTableLayout(l, a, a.share(t), chargeBytes)
	}

	shape.Files = len(files)
	for i, l := range levels {
		if l.Files == 0 {
			continue
		}

		l.Sublevels = 1
		if i == 0 {
			l.Sublevels = sublevels(all)
		}

		shape.Levels = append(shape.Levels, l)
	}

	return shape
}

// share is the part of the file that t is.
func (a *TableLayout) share(t LiveTable) float64 {
	if !t.Virtual {
		return 1
	}
	return min(1, float64(t.Bytes)/float64(a.TableBytes))
}

// sublevels is how many tables of level 0 a Get may have to ask: a table lies
// one above the highest older one it overlaps.
func sublevels(tables []LiveTable) (highest int) {
	type placed struct {
		LiveTable
		sublevel int
	}

	var below []placed
	for _, t := range tables {
		if t.Level != 0 {
			continue
		}

		sublevel := 1
		for _, b := range below {
			if bytes.Compare(t.Smallest, b.Largest) <= 0 &&
				bytes.Compare(b.Smallest, t.Largest) <= 0 {
				sublevel = max(sublevel, b.sublevel+1)
			}
		}

		below = append(below, placed{t, sublevel})
		highest = max(highest, sublevel)
	}

	return highest
}

// addTableLayout adds a table, or the share of it that a virtual table is, to its
// level.
func addTableLayout(l *engine.Level, a *TableLayout, share float64, chargeBytes int64) {
	part := func(n int64) int64 { return int64(float64(n)*share + 0.5) }
	count := func(kind engine.BlockType) int64 { return part(a.Blocks[kind].Count) }
	stored := func(kind engine.BlockType) int64 { return part(a.Blocks[kind].Bytes) }
	cached := func(kind engine.BlockType) int64 {
		return part(a.DecodedBytes[kind] + a.Blocks[kind].Count*chargeBytes)
	}
	l.Keys += part(int64(a.Entries))
	l.DataBlocks += count(engine.Data)
	l.DataBytes += stored(engine.Data)
	l.IndexBlocks += count(engine.Index)
	l.SingleIndexes += count(engine.SingleIndex)
	l.IndexBytes += stored(engine.Index) + stored(engine.SingleIndex)
	l.SingleIndexBytes += stored(engine.SingleIndex)
	l.TopIndexBytes += stored(engine.TopIndex)
	l.FilterBytes += stored(engine.Filter)
	l.ValueBytes += stored(engine.Value)
	l.IndexCacheBytes += cached(engine.Index) + cached(engine.SingleIndex)
	l.SingleIndexCacheBytes += cached(engine.SingleIndex)
	l.TopIndexCacheBytes += cached(engine.TopIndex)
	l.FilterCacheBytes += cached(engine.Filter)
	l.DataCacheBytes += cached(engine.Data)
}

// TableLayout is what a table says about itself.
type TableLayout struct {
	Map *BlockMap
	// Blocks are the number of blocks of each type and their bytes on disk,
	// trailers included.
	Blocks [engine.NumBlockTypes]engine.Tally
	// DecodedBytes are the decompressed bytes of filters and indexes, exact, and
	// of the data, estimated from a few blocks.
	DecodedBytes [engine.NumBlockTypes]int64
	Entries      uint64 // keys, deletions and older versions included
	Ranges       uint64 // of these, deletions of ranges
	TableBytes   int64
}

// trailerBytes follow every block: one for the compression, four of checksum.
const trailerBytes = 5

// NewTableLayout makes an anatomy from the blocks of a table and the decompressed
// size, by offset, of those that were read.
func NewTableLayout(
	blocks []Block, tableBytes int64, entries uint64, decoded map[uint64]int64,
) (*TableLayout, error) {
	layout, err := NewBlockMap(blocks, tableBytes)
	if err != nil {
		return nil, err
	}

	a := &TableLayout{Map: layout, Entries: entries, TableBytes: tableBytes}
	var sampledBytes, sampledDecoded int64
	for _, b := range blocks {
		if b.Type == RangeDeletion {
			b.Type = engine.Meta
		}

		onDisk := int64(b.Length) + trailerBytes
		a.Blocks[b.Type] = a.Blocks[b.Type].Add(engine.Tally{Count: 1, Bytes: onDisk})
		bytes, read := decoded[b.Offset]
		switch b.Type {
		case engine.TopIndex, engine.Index, engine.SingleIndex:
			if !read {
				return nil, fmt.Errorf("%v block at %d: not read while learning", b.Type, b.Offset)
			}
			a.DecodedBytes[b.Type] += bytes
		case engine.Filter: // never compressed
			a.DecodedBytes[b.Type] += int64(b.Length)
		case engine.Data:
			if read {
				sampledBytes, sampledDecoded = sampledBytes+onDisk, sampledDecoded+bytes
			}
		}
	}

	if sampledBytes > 0 {
		growth := float64(sampledDecoded) / float64(sampledBytes)
		a.DecodedBytes[engine.Data] = int64(growth * float64(a.Blocks[engine.Data].Bytes))
	}

	return a, nil
}

// Readers of many cores meet in few cells (most reads are of data blocks of the
// last level), so each cell exists several times and a read picks one by its
// offset.
const stripes = 8

const levelRows = engine.MaxLevels + 1

// cell is one counter, alone in its cache line.
type cell struct {
	count, bytes atomic.Int64
	_            [48]byte
}

func (c *cell) add(bytes int) {
	c.count.Add(1)
	c.bytes.Add(int64(bytes))
}

func (c *cell) tally() engine.Tally {
	return engine.Tally{Count: c.count.Load(), Bytes: c.bytes.Load()}
}

// Counters are totals since the start. Safe for concurrent use; the zero value
// is ready.
type Counters struct {
	reads          [stripes][levelRows][engine.NumBlockTypes]cell
	rangeDeletions [stripes]cell   // those among reads
	untyped        [levelRows]cell // those among reads, by level
	background     [stripes]cell
	sectors        [stripes]cell // what direct reads asked of the device
	opens          atomic.Int64
}

// Reads are the foreground block reads by level and type.
func (c *Counters) Reads() *engine.BlockReads {
	var sum engine.BlockReads
	for s := range c.reads {
		for level := range c.reads[s] {
			for kind := range c.reads[s][level] {
				sum[level][kind] = sum[level][kind].Add(c.reads[s][level][kind].tally())
			}
		}
	}

	return &sum
}

// Background are the reads through descriptors opened for sequential reading.
func (c *Counters) Background() engine.Tally { return sum(&c.background) }

// RangeDeletions are the foreground reads of blocks of range deletions, which are of type meta.
func (c *Counters) RangeDeletions() int64 { return sum(&c.rangeDeletions).Count }

// Untyped are the foreground reads of blocks of unknown type, by level. Reads has them as meta.
func (c *Counters) Untyped() (byLevel [levelRows]engine.Tally) {
	for level := range c.untyped {
		byLevel[level] = c.untyped[level].tally()
	}
	return byLevel
}

// DirectBytes are the bytes of foreground reads after rounding out to whole
// sectors.
func (c *Counters) DirectBytes() int64 { return sum(&c.sectors).Bytes }

// Opens are the tables opened for foreground reads.
func (c *Counters) Opens() int64 { return c.opens.Load() }

func sum(cells *[stripes]cell) (t engine.Tally) {
	for i := range cells {
		t = t.Add(cells[i].tally())
	}
	return t
}

// stripe spreads offsets; blocks are a few KiB apart.
func stripe(offset int64) int { return int(offset>>12) & (stripes - 1) }

// Syncs counts what an engine made durable: its calls that return when a file is on the
// device, and the bytes that it had written to the file since the last of them.
type Syncs struct{ calls, bytes atomic.Int64 }

// Total are the calls and bytes so far.
func (s *Syncs) Total() (calls, bytes int64) { return s.calls.Load(), s.bytes.Load() }

// WrittenFile is what a file system needs of a file that an engine writes.
type WrittenFile interface {
	Write(p []byte) (int, error)
	Sync() error
	SyncData() error
	SyncTo(length int64) (full bool, err error)
}

// SyncedFile counts the syncs of a file.
type SyncedFile struct {
	file    WrittenFile
	syncs   *Syncs
	pending atomic.Int64
}

// Synced is file with its syncs counted.
func (s *Syncs) Synced(file WrittenFile) *SyncedFile { return &SyncedFile{file: file, syncs: s} }

// Write writes to the file, and counts the bytes that the next sync makes durable.
func (f *SyncedFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.pending.Add(int64(n))
	return n, err
}

// Sync makes the file durable, and counts that.
func (f *SyncedFile) Sync() error { return f.count(true, f.file.Sync()) }

// SyncData makes the file's content durable, and counts that.
func (f *SyncedFile) SyncData() error { return f.count(true, f.file.SyncData()) }

// SyncTo may only ask the kernel to begin.
func (f *SyncedFile) SyncTo(length int64) (bool, error) {
	full, err := f.file.SyncTo(length)
	return full, f.count(full, err)
}

func (f *SyncedFile) count(durable bool, err error) error {
	if durable && err == nil {
		f.syncs.calls.Add(1)
		f.syncs.bytes.Add(f.pending.Swap(0))
	}
	return err
}
