package blockio

import (
	"sync/atomic"

	"github.com/statelab/statelab/engine"
)

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
	rangeDeletions [stripes]cell // those among reads
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

func (f *SyncedFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.pending.Add(int64(n))
	return n, err
}

func (f *SyncedFile) Sync() error { return f.count(true, f.file.Sync()) }

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
