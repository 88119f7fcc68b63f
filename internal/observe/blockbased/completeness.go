package blockbased

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// Traces of RocksDB have neither numbers of records nor a count of them, and those of blocks and
// files no end. What can be seen: a record that is there twice, records of one Get that have
// changed places, two records in one, and a sample of the blocks, by the hash that chose them.

// blockCompleteness follows the records of a trace of blocks or files.
type blockCompleteness struct {
	accesses, longer uint64 // longer: with bytes behind their last field
	firstLonger      uint64
	maxHash          uint64 // of the blocks' names in the cache

	// The record of a read before.
	before         []byte
	beforeTime     uint64
	reads, earlier uint64 // earlier: than the record before, by any time
}

// read follows a record of an I/O trace.
func (c *blockCompleteness) read(records *QueryTrace) error {
	same := c.reads > 0 && c.beforeTime == records.time && bytes.Equal(c.before, records.payload)
	if c.reads > 0 && records.time < c.beforeTime {
		c.earlier++
	}

	c.reads++
	c.before, c.beforeTime = append(c.before[:0], records.payload...), records.time
	if same {
		return errors.New("the same as the record before it, and at the same time: it is there " +
			"twice")
	}

	return nil
}

// access follows a record of a block-cache trace that is of a Get.
func (c *blockCompleteness) access(key []byte, longer bool, record uint64) {
	c.accesses++
	c.maxHash = max(c.maxHash, hashPreview(key, 0))
	if longer {
		if c.longer++; c.longer == 1 {
			c.firstLonger = record
		}
	}
}

// damagedTrace says what is wrong at a record.
func damagedTrace(name string, record uint64, format string, args ...any) error {
	return engine.Fail(engine.CodeDamaged, "%s: record %d: %s", name, record,
		fmt.Sprintf(format, args...)).WithRemedy("trace again, or copy the file again")
}

// judge refuses a trace that cannot be as RocksDB wrote it, and says what was not checked. all are
// its accesses by Get.
func (c *blockCompleteness) judge(t *BlockTrace, name string, all []blockGet) error {
	t.SampledBlocks = 1
	if c.reads > 0 {
		t.NotChecked = []string{"an I/O trace has no numbers of records, no count and no end: " +
			"reads that are missing, at its end or between others, cannot be seen"}
		if c.earlier > 0 {
			t.NotChecked = append(t.NotChecked, fmt.Sprintf("%s of %s records are earlier than "+
				"the record before them: several threads read, or records have changed places",
				unit.Count(c.earlier), unit.Count(c.reads)))
		}

		return nil
	}

	// A later version may write more fields, but then of every record.
	if c.longer > 0 && c.longer < c.accesses {
		return damagedTrace(name, c.firstLonger, "bytes behind its last field, which other "+
			"records have not: several records in one")
	}

	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		switch {
		case a.get != b.get || a.record == 0 || b.record == 0:
		case b.time < a.time:
			return damagedTrace(name, uint64(b.record), "an access by Get %d, %d us before the "+
				"access in record %d, which is of the same Get: the records are not in the order "+
				"in which they were written", b.get, a.time-b.time, a.record)
		case b.time == a.time && b.number == a.number:
			return damagedTrace(name, uint64(b.record), "the same access as in record %d, by the "+
				"same Get and at the same time: it is there twice", a.record)
		}
	}

	if err := c.sample(t, name); err != nil {
		return err
	}

	t.NotChecked = append(t.NotChecked, "a block-cache trace has no numbers of records, no count "+
		"and no end: accesses that are missing, at its end or between others, cannot be seen")
	gets := uint64(1)
	for i := 1; i < len(all); i++ {
		if all[i].get != all[i-1].get {
			gets++
		}
	}

	if numbered := all[len(all)-1].get - all[0].get + 1; gets < numbered && t.SampledBlocks == 1 {
		t.NotChecked = append(t.NotChecked, fmt.Sprintf("RocksDB numbered %s Gets, of which %s "+
			"have no access here: they needed no block from the cache, or their records are "+
			"missing; reads per Get are of the other %s", unit.Count(numbered),
			unit.Count(numbered-gets), unit.Count(gets)))
	}

	return nil
}

// maxChance is the probability of a wrong verdict about a sample.
const maxChance = 1e-9

// sample finds out which part of the blocks was traced. BlockCacheTraceOptions.sampling_frequency N
// keeps blocks whose hash, times N, is below 2^64 (GetSliceRangedNPHash of trace_replay's
// ShouldTrace): all hashes are then below 2^64/N.
func (c *blockCompleteness) sample(t *BlockTrace, name string) error {
	blocks := float64(len(t.Trace.Blocks))
	rate := uint64(1)
	if c.maxHash > 1 {
		rate, _ = bits.Div64(1, 0, c.maxHash)
	}

	// That whole traces have such hashes, and that a sample of rate-1 has.
	ofWhole := math.Pow(float64(rate), -blocks)
	ofNext := math.Pow(float64(rate-1)/float64(rate), blocks)
	switch {
	case ofWhole > maxChance && math.Pow(2, -blocks) > maxChance:
		t.NotChecked = append(t.NotChecked, fmt.Sprintf("the trace does not say of which share of "+
			"the blocks it is (BlockCacheTraceOptions.sampling_frequency), and %s are too few to "+
			"find out", unit.Plural(len(t.Trace.Blocks), "block")))
	case rate < 2 || ofWhole > maxChance:
	case ofNext > maxChance:
		return engine.Fail(engine.CodeUnsupported, "%s: a sample of about one block in %d "+
			"(BlockCacheTraceOptions.sampling_frequency), of which the %s here are too few: "+
			"without the exact rate a cache cannot be simulated", name, rate,
			unit.Plural(len(t.Trace.Blocks), "block")).WithRemedy(
			"trace longer, or all blocks (sampling_frequency = 1)")
	default:
		t.SampledBlocks = int64(rate)
	}

	return nil
}
