// Package blockreads has the block reads of a Pebble database, as a program counts them that has
// the database open itself: their number and bytes, by type of block and by level. "Why does this
// Get read three blocks?" is then a question with an answer, and block reads per Get a figure that
// a benchmark reports and a test compares: unlike time, it does not depend on the machine.
//
// The packages that count are [pebble1] and [pebble2], for Pebble v1 and v2. They put a file system
// under the database, and find the type of each block by the offset of the read. Pebble itself is
// the published version, unchanged.
//
//	import (
//		"github.com/cockroachdb/pebble/v2"
//		"github.com/statelab/statelab/blockreads"
//		"github.com/statelab/statelab/blockreads/pebble2" // go get github.com/statelab/statelab
//	)
//
//	options := &pebble.Options{Cache: pebble.NewCache(1 << 20), MemTableSize: 128 << 10}
//	counter := pebble2.Attach(options) // when all other options are set
//	db, err := pebble.Open(dir, options)
//	...
//	defer db.Close()
//	stop, err := counter.Follow(db) // only for reads by level
//	...
//	defer stop() // before db.Close
//	... // Gets that are not counted: they open the tables and fill the cache
//	before := counter.Snapshot()
//	... // gets Gets
//	reads := counter.Snapshot().Sub(before)
//	data := reads.Reads.Type(blockreads.Data)
//	fmt.Println(data.Count, "data blocks,", data.Bytes, "bytes")
//	fmt.Print(reads.PerGet(gets))
//	err = counter.Err() // nil: the type and level of each read are right
//
// Pebble charges memtables to the block cache, and they have 4 MiB by default: without MemTableSize
// they would take all of this cache, and each Get would read each of its blocks. Err says so.
//
// PerGet is a table of means: of each Get, how many blocks were read, and how many bytes in all.
// examples/blockreads of this repository, which is such a program, prints
//
//	level  filter  top_index  index   data  reads  bytes
//	   L0   0.001          0  0.013  0.117  0.132    179
//	   L6       0      0.001  0.198  0.901   1.10   1340
//	  all   0.001      0.001  0.212   1.02   1.23   1520
//	tables opened: 0; background reads: 0
//
// A block read is a call that reaches the file system because Pebble's block cache does not hold
// the block. The page cache may still serve it, unless the counter reads with O_DIRECT. While no
// table is opened, Pebble v1 counts as many cache misses as blockreads counts reads. So does v2 for
// one thread; of several threads that miss the same block at once, v2 lets one read it.
//
// What is not counted as a read of a Get, and where it is instead: reads of compactions and of long
// scans are in Snapshot.Background; those of tables whose layout cannot be read, in
// Snapshot.Untyped; those of tables in remote storage, nowhere, but Snapshot.RemoteTables says how
// many such tables there are. Compactions read index blocks through the same descriptors as Gets,
// and flushes and compactions are followed by reads of the new tables' properties. To measure Gets
// alone, open the database with ReadOnly, or wait until it has neither: until
// Compact.NumInProgress and Flush.NumInProgress of db.Metrics() are 0.
//
// A program that imports [pebble1] or [pebble2] gets at least the version of that Pebble which
// statelab's go.mod requires; a newer one that the program requires takes its place.
//
// [pebble1]: https://pkg.go.dev/github.com/statelab/statelab/blockreads/pebble1
// [pebble2]: https://pkg.go.dev/github.com/statelab/statelab/blockreads/pebble2
package blockreads

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// A BlockType is what a block holds. Its String is the name that statelab's reports use.
type BlockType = engine.BlockType

// The types of blocks in tables of Pebble.
const (
	Filter      = engine.Filter      // the Bloom filter of a table
	TopIndex    = engine.TopIndex    // the top level of a two-level index
	Index       = engine.Index       // a block of the second level of such an index
	SingleIndex = engine.SingleIndex // the whole index of a table, or of a file of values
	Data        = engine.Data        // keys and values
	Value       = engine.Value       // values apart from their keys: value blocks, blob files
	// Meta is the rest: footer, properties and metaindex, which opening a table reads, and range
	// deletions.
	Meta = engine.Meta
)

// LevelUnknown is the row of Reads for tables whose level is not known: nobody follows the
// database, the table is newer than the last look at it, or its file has virtual tables on several
// levels. Rows 0 to 6 are the levels of Pebble; the others stay empty.
const LevelUnknown = engine.LevelUnknown

// A Tally is a number of reads and their bytes, in the fields Count and Bytes, both int64: those of
// the blocks as they are in the file, compressed and with their trailers.
type Tally = engine.Tally

// Reads are block reads by level and type, an array of tallies with methods that sum them up:
//
//	reads[6][blockreads.Data]   // data blocks of level 6
//	reads.Type(blockreads.Data) // of all levels
//	reads.Level(6)              // of all types
//	reads.Total()
type Reads = engine.BlockReads

// A Snapshot is what was counted until then. Take one before and one after, and Sub.
type Snapshot struct {
	// Reads are the reads of blocks whose type is known.
	Reads Reads
	// Untyped are the reads, by level, of tables whose layout could not be learnt. They are in no
	// cell of Reads. The counter's Err says why.
	Untyped [LevelUnknown + 1]Tally
	// Background are the reads of compactions, and of iterators once they have read so much of a
	// table in order (256 KiB) that Pebble opens it again for sequential reading. They have
	// no type.
	Background Tally
	// RangeDeletions are those of Reads, all of them Meta, that Gets make of a table's range
	// deletions. The other Meta reads open tables.
	RangeDeletions int64
	// TableOpens are the files opened for lookups. Each costs a few Meta reads, of which that of
	// the footer does not come by Pebble's block cache: Total().Count - TableOpens is to be
	// compared with the cache's misses.
	TableOpens int64
	// DirectBytes are the bytes of Total rounded out to whole sectors, which reach the device. 0
	// without O_DIRECT.
	DirectBytes int64
	// RemoteTables are the tables in remote or shared storage at the last look at the database,
	// whose reads are not counted. It is not a total: Sub keeps the later value. 0 while nobody
	// follows the database.
	RemoteTables int64
}

// Total are all reads of blocks but those in the background: Reads and Untyped.
func (s Snapshot) Total() Tally {
	total := s.Reads.Total()
	for _, t := range s.Untyped {
		total = total.Add(t)
	}
	return total
}

// Sub returns what was counted between before and s.
func (s Snapshot) Sub(before Snapshot) Snapshot {
	s.Reads = *s.Reads.Sub(&before.Reads)
	for level := range s.Untyped {
		s.Untyped[level] = s.Untyped[level].Sub(before.Untyped[level])
	}

	s.Background = s.Background.Sub(before.Background)
	s.RangeDeletions -= before.RangeDeletions
	s.TableOpens -= before.TableOpens
	s.DirectBytes -= before.DirectBytes
	return s
}

// String is a table of the reads: a row for each level, a column for each type of which there are
// any, and below it what else was counted.
func (s Snapshot) String() string {
	return s.table(func(n int64) string { return unit.Count(n) })
}

// PerGet is the same table with means over so many Gets: to three digits, or three decimals below
// 1, where 0 means none and 0.000 few.
func (s Snapshot) PerGet(gets int64) string {
	return s.table(func(n int64) string {
		mean := float64(n) / float64(max(gets, 1))
		if n != 0 && mean < 1 {
			return strconv.FormatFloat(mean, 'f', 3, 64)
		}
		return unit.Significant(mean, 3)
	})
}

// columns are the types in the order in which a Get meets them.
var columns = []BlockType{Filter, TopIndex, Index, SingleIndex, Data, Value, Meta}

// table prints numbers as print does.
func (s Snapshot) table(print func(int64) string) string {
	var shown []BlockType
	for _, kind := range columns {
		if s.Reads.Type(kind).Count != 0 {
			shown = append(shown, kind)
		}
	}

	var untyped Tally
	for _, t := range s.Untyped {
		untyped = untyped.Add(t)
	}

	var text strings.Builder
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, count func(BlockType) int64, untypedHere, total Tally) {
		cells := []string{name}
		for _, kind := range shown {
			cells = append(cells, print(count(kind)))
		}

		if untyped.Count != 0 {
			cells = append(cells, print(untypedHere.Count))
		}

		cells = append(cells, print(total.Count), print(total.Bytes))
		fmt.Fprintln(rows, strings.Join(cells, "\t")+"\t")
	}

	names := []string{"level"}
	for _, kind := range shown {
		names = append(names, kind.String())
	}

	if untyped.Count != 0 {
		names = append(names, "untyped")
	}

	fmt.Fprintln(rows, strings.Join(append(names, "reads", "bytes"), "\t")+"\t")
	for level := range s.Reads {
		total := s.Reads.Level(level).Add(s.Untyped[level])
		if total.Count != 0 {
			row(engine.LevelName(level),
				func(kind BlockType) int64 { return s.Reads[level][kind].Count },
				s.Untyped[level], total)
		}
	}

	row("all", func(kind BlockType) int64 { return s.Reads.Type(kind).Count }, untyped, s.Total())
	if err := rows.Flush(); err != nil {
		return err.Error() // a strings.Builder has none
	}

	fmt.Fprintf(&text, "tables opened: %s; background reads: %s", unit.Count(s.TableOpens),
		unit.Count(s.Background.Count))
	if s.RemoteTables > 0 {
		fmt.Fprintf(&text, "; remote tables, not counted: %s", unit.Count(s.RemoteTables))
	}

	text.WriteString("\n")
	return text.String()
}
