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
	reads      [stripes][levelRows][engine.NumBlockTypes]cell
	background [stripes]cell
	sectors    [stripes]cell // what direct reads asked of the device
	opens      atomic.Int64
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
