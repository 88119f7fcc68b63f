package engine

import (
	"cmp"
	"fmt"
)

// BlockType says what a block holds.
type BlockType uint8

// Types of blocks. Engines that do not tell them apart have Page alone.
const (
	Filter   BlockType = iota // bloom filter of a table
	TopIndex                  // top-level index of a two-level index
	Index                     // second-level index block
	Data                      // keys and values
	Value                     // separated values, blob files
	// footer, properties, metaindex, range deletions: read when a table is opened
	Meta
	// the whole index of a table too small for two levels, or of a file of values
	SingleIndex
	Page          // engines without typed blocks
	NumBlockTypes // how many there are
)

var blockTypeNames = [NumBlockTypes]string{"filter", "top_index", "index", "data", "value", "meta",
	"single_index", "page"}

// String returns the name used in flags, JSON and reports.
func (t BlockType) String() string {
	if t < NumBlockTypes {
		return blockTypeNames[t]
	}
	return "unknown"
}

// BlockTypes lists all types in report order.
func BlockTypes() []BlockType {
	all := make([]BlockType, NumBlockTypes)
	for i := range all {
		all[i] = BlockType(i)
	}
	return all
}

const (
	// MaxLevels is the number of levels of an LSM tree that are told apart. LevelDB adds levels
	// as long as it grows.
	MaxLevels = 31
	// LevelUnknown counts reads of files whose level is not known (anymore).
	LevelUnknown = MaxLevels
	numLevelRows = MaxLevels + 1
)

// Tally is a number of operations and their bytes.
type Tally struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

// Add returns the sum.
func (t Tally) Add(u Tally) Tally { return Tally{t.Count + u.Count, t.Bytes + u.Bytes} }

// Sub returns the difference.
func (t Tally) Sub(u Tally) Tally { return Tally{t.Count - u.Count, t.Bytes - u.Bytes} }

// LevelName is what figures call a level.
func LevelName(level int) string {
	if level == LevelUnknown {
		return "unknown"
	}
	return fmt.Sprintf("L%d", level)
}

// BlockReads are block reads by level (LevelUnknown last) and type. An engine without levels counts
// under LevelUnknown, one without types of blocks under Page.
type BlockReads [numLevelRows][NumBlockTypes]Tally

// Counters are totals since Open. A nil pointer means the engine cannot tell:
// never zero by default.
type Counters struct {
	// Reads are what foreground lookups asked of the file layer. nil: unknown.
	Reads *BlockReads
	// Accesses are blocks that foreground lookups needed, by type, whether their
	// cache held them or not; only of engines that count them by type. nil: unknown.
	Accesses *[NumBlockTypes]int64
	// DirectBytes are the bytes of those reads after rounding to whole sectors;
	// only under O_DIRECT.
	DirectBytes *int64
	// BackgroundReads are reads of compactions (files reopened for sequential
	// reading).
	BackgroundReads *Tally
	// TableOpens are files opened for lookups; each costs a few meta reads.
	TableOpens *int64
	// RangeDeletionReads are those of Reads, among Meta, that a Get makes of a table's range
	// deletions; the other Meta reads open tables. nil: unknown, or the engine makes none.
	RangeDeletionReads *int64
	// UncachedReads are those of Reads that do not come by the engine's block cache, so that
	// CacheMisses leaves them out: of footers, and of values in files of their own where the
	// engine keeps none of them. nil: none.
	UncachedReads *int64

	// The engine's own view, for self-checks and hit rates.
	Gets                   *int64 // lookups, as the engine counts them
	CacheHits, CacheMisses *int64 // block cache, all types
	// filter consultations by outcome (negative: the filter said no)
	FilterNegative, FilterPositive   *int64
	TableCacheHits, TableCacheMisses *int64

	// Memory, now.
	CacheUsedBytes, MemtableBytes, CacheReservedBytes *int64

	// Writing.
	UserWriteBytes *int64 // keys and values as given
	WALBytes       *int64
	FlushBytes     *int64
	CompactBytes   *int64 // written by compactions
	IngestBytes    *int64
	Syncs          *int64 // calls that returned when a file was on the device
	SyncedBytes    *int64 // that those calls made durable
	Stalls         *int64
	StallNanos     *int64
}

// Total sums the block reads over levels and types.
func (r *BlockReads) Total() (t Tally) {
	for level := range r {
		t = t.Add(r.Level(level))
	}
	return t
}

// Type sums the reads of one type over the levels.
func (r *BlockReads) Type(kind BlockType) (t Tally) {
	for level := range r {
		t = t.Add(r[level][kind])
	}
	return t
}

// Level sums the reads of one level over the types.
func (r *BlockReads) Level(level int) (t Tally) {
	for kind := range r[level] {
		t = t.Add(r[level][kind])
	}
	return t
}

// Sub returns r - s, cell by cell.
func (r *BlockReads) Sub(s *BlockReads) *BlockReads {
	var d BlockReads
	for level := range r {
		for kind := range r[level] {
			d[level][kind] = r[level][kind].Sub(s[level][kind])
		}
	}
	return &d
}

// Sub returns what was counted between s and c. Gauges (memory) keep c's value.
// A counter unknown on either side is unknown in the difference.
func (c Counters) Sub(s Counters) Counters {
	d := c
	d.Reads, d.Accesses, d.BackgroundReads = nil, nil, nil
	if c.Reads != nil && s.Reads != nil {
		d.Reads = c.Reads.Sub(s.Reads)
	}

	if c.Accesses != nil && s.Accesses != nil {
		d.Accesses = new([NumBlockTypes]int64)
		for kind := range d.Accesses {
			d.Accesses[kind] = c.Accesses[kind] - s.Accesses[kind]
		}
	}

	if c.BackgroundReads != nil && s.BackgroundReads != nil {
		d.BackgroundReads = new(c.BackgroundReads.Sub(*s.BackgroundReads))
	}

	before := s.totals()
	for i, total := range d.totals() {
		if *total != nil && *before[i] != nil {
			*total = new(**total - **before[i])
		} else {
			*total = nil
		}
	}

	return d
}

// totals are the counters of one figure that are no gauges.
func (c *Counters) totals() []**int64 {
	return []**int64{
		&c.DirectBytes, &c.TableOpens, &c.RangeDeletionReads, &c.UncachedReads, &c.Gets,
		&c.CacheHits, &c.CacheMisses,
		&c.FilterNegative, &c.FilterPositive, &c.TableCacheHits, &c.TableCacheMisses,
		&c.UserWriteBytes, &c.WALBytes, &c.FlushBytes, &c.CompactBytes, &c.IngestBytes, &c.Syncs,
		&c.SyncedBytes, &c.Stalls, &c.StallNanos,
	}
}

// Shape is what a database's files look like.
type Shape struct {
	Bytes  int64   `json:"bytes"` // tables and separated values: no WAL, no manifest
	Files  int     `json:"files"`
	Levels []Level `json:"levels"` // empty for engines without levels
	// Tables are those of a database that has several key spaces by name.
	Tables []Table `json:"tables,omitempty"`
	// Values are those that are outside the tables; nil: none are.
	Values *Values `json:"values,omitempty"`
}

// Values are values outside the tables, or outside the pages of the tree: in files of their own
// or on overflow pages. They belong to no level. A Get whose value is there reads it there.
type Values struct {
	Files int   `json:"files,omitempty"` // 0: they are in the database's own file
	Bytes int64 `json:"bytes"`           // part of the database's
	// What a Get reads beside the values, to find them: on disk and in a cache. 0: nothing.
	IndexBytes      int64 `json:"index_bytes,omitempty"`
	IndexCacheBytes int64 `json:"index_cache_bytes,omitempty"`
	// CacheBytes are those of the values in a block cache; 0: they do not enter it.
	CacheBytes int64 `json:"cache_bytes,omitempty"`
}

// Table is a key space with a name inside a database.
type Table struct {
	Name  string `json:"name"`
	Keys  int64  `json:"keys"` // entries; several values of one key count each
	Bytes int64  `json:"bytes"`
	// Files and Levels are those of a table that has files of its own, such as a column family.
	Files  int     `json:"files,omitempty"`
	Levels []Level `json:"levels,omitempty"`
	// Values are the table's own of those outside tables, or outside the pages of the tree; nil:
	// none.
	Values *Values `json:"values,omitempty"`
	// SeveralValues: a key may have more than one (dupsort). A Get returns the first.
	SeveralValues bool `json:"several_values,omitempty"`
}

// Level is one level of an LSM tree. Sizes are on disk unless the name says
// otherwise.
type Level struct {
	Level     int   `json:"level"`
	Sublevels int   `json:"sublevels"` // L0 only, else 1
	Files     int   `json:"files"`
	Bytes     int64 `json:"bytes"`
	Keys      int64 `json:"keys"`
	// the tables do not tell: from sampled blocks
	KeysEstimated bool  `json:"keys_estimated,omitempty"`
	DataBlocks    int64 `json:"data_blocks"`
	DataBytes     int64 `json:"data_bytes"`
	// second-level blocks; single-level indexes count as single_index_blocks
	IndexBlocks   int64 `json:"index_blocks"`
	SingleIndexes int64 `json:"single_index_blocks"`
	IndexBytes    int64 `json:"index_bytes"`     // all indexes but the top level
	TopIndexBytes int64 `json:"top_index_bytes"` // top-level indexes
	// SingleIndexBytes is the part of IndexBytes in whole single-level indexes.
	SingleIndexBytes int64 `json:"single_index_bytes"`
	FilterBytes      int64 `json:"filter_bytes"`
	ValueBytes       int64 `json:"value_bytes"` // separated values

	// What the tables' properties tell beyond that; 0: not told.
	// that are in filters: fewer than Keys where some tables have none
	FilterKeys    int64 `json:"filter_keys,omitempty"`
	RawKeyBytes   int64 `json:"raw_key_bytes,omitempty"`
	RawValueBytes int64 `json:"raw_value_bytes,omitempty"`
	// Outside is the share of the keys in older tables that no table of this level spans with
	// its first and last keys; of L0, where each table is asked on its own, the mean over them.
	Outside float64 `json:"outside,omitempty"`

	// What the cache must hold: decompressed, with the engine's charge per
	// block. 0 with InCacheKnown false.
	IndexCacheBytes    int64 `json:"index_cache_bytes"`
	TopIndexCacheBytes int64 `json:"top_index_cache_bytes"`
	FilterCacheBytes   int64 `json:"filter_cache_bytes"`
	DataCacheBytes     int64 `json:"data_cache_bytes"`
	// SingleIndexCacheBytes is the part of IndexCacheBytes in whole single-level indexes.
	SingleIndexCacheBytes int64 `json:"single_index_cache_bytes"`
	InCacheKnown          bool  `json:"in_cache_known"`
	// InCacheSampled is true where index blocks were sampled rather than all read.
	InCacheSampled bool `json:"in_cache_sampled"`
	// FilterConsulted is false where a Get never asks the level's filters.
	FilterConsulted bool `json:"filter_consulted"`
}

// Plus are the values of both; either may be nil.
func (v *Values) Plus(other *Values) *Values {
	if v == nil || other == nil {
		return cmp.Or(v, other)
	}
	return &Values{v.Files + other.Files, v.Bytes + other.Bytes, v.IndexBytes + other.IndexBytes,
		v.IndexCacheBytes + other.IndexCacheBytes,
		v.CacheBytes + other.CacheBytes}
}

// Plus is the level that the tables of l and of other, none in both, make together.
func (l Level) Plus(other Level) Level {
	l.Sublevels = max(l.Sublevels, other.Sublevels)
	l.Files += other.Files
	more := other.Sums()
	for i, sum := range l.Sums() {
		*sum += *more[i]
	}

	l.KeysEstimated = l.KeysEstimated || other.KeysEstimated
	l.InCacheKnown = l.InCacheKnown && other.InCacheKnown
	l.InCacheSampled = l.InCacheSampled || other.InCacheSampled
	return l
}

// Sums are the figures of l that are sums over its files.
func (l *Level) Sums() []*int64 {
	return []*int64{
		&l.Bytes, &l.Keys, &l.DataBlocks, &l.DataBytes, &l.IndexBlocks, &l.SingleIndexes,
		&l.IndexBytes, &l.TopIndexBytes, &l.SingleIndexBytes,
		&l.FilterBytes, &l.ValueBytes, &l.FilterKeys, &l.RawKeyBytes, &l.RawValueBytes,
		&l.IndexCacheBytes, &l.TopIndexCacheBytes, &l.FilterCacheBytes,
		&l.DataCacheBytes, &l.SingleIndexCacheBytes,
	}
}
