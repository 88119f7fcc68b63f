// Package trace is the file format of block-access traces: which blocks of
// which tables every Get of a key stream asks for, in order.
//
// A trace does not depend on any cache, so one trace answers for every cache
// size and policy (internal/model/cachesim replays it). Who makes traces:
// internal/observe/resolve, from a database's filters and indexes.
//
// A file is a magic and then frames: a header, any number of frames of Gets,
// and a footer of counts. Each frame is compressed and carries its own
// checksum, and defines the blocks it is the first to use: so whatever frames
// survive a cut or a damaged disk can be replayed, and the reader says how far.
//
//	file   = magic frame(header) frame(gets)* frame(footer)
//	gets   = n (level type|marks<<4 file' offset diskBytes bytes)*n  m get*m
//	get    = count<<1|found number*count
//
// Frames are those of internal/base/frames, everything inside is a varint; file' is
// the difference to the file of the block defined before. Numbers are of
// blocks in the order of their first use, so the blocks asked for most have
// the shortest.
//
// Read reader.go for a trace's life, export.go for libCacheSim's format.
package trace

import (
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

const magic = "SLTRACE1"

// Header says what a trace is of.
type Header struct {
	Schema        string `json:"schema"`
	Engine        string `json:"engine"` // pebble1 or pebble2
	EngineVersion string `json:"engine_version"`
	Profile       string `json:"profile,omitempty"`   // engine options, which size memtables
	ReadOnly      bool   `json:"read_only,omitempty"` // how the run opened the database
	// Database identifies the database's tables: a trace fits the database it
	// was made from and no other.
	Database string `json:"database"`
	Keys     string `json:"keys,omitempty"` // the key stream in words
	Seed     uint64 `json:"seed"`
	// SampleShift k says that only Gets of keys chosen by Sample{k} are here,
	// one of 2^k.
	SampleShift int `json:"sample_shift"`
	// SampledBlocks N says that only accesses to one of N blocks are here, chosen by a hash: a
	// cache N times smaller has their miss ratio. Absent or 1: all blocks.
	SampledBlocks int64 `json:"sampled_blocks,omitempty"`
	// NotChecked are sentences on what could not be checked of a trace that another program made.
	NotChecked []string `json:"not_checked,omitempty"`
	// WarmupGets are how many of these Gets come first, only to fill caches.
	WarmupGets int `json:"warmup_gets"`
	// Opening says that the first of the warm-up Gets is none: it stands for the
	// blocks that opening the tables brings into the cache.
	Opening bool `json:"opening,omitempty"`
	// Part says which consecutive share of the key stream is here; the counts above are
	// those of the whole stream. Absent: all of it.
	Part engine.Part `json:"part,omitzero"`
	// OpenFiles is the limit that keeps some tables closed: what Gets read to open them is among
	// their accesses. Absent: all tables stay open.
	OpenFiles *OpenFiles `json:"open_files,omitempty"`
	// Events are what happened to the cache of the node whose Gets these are.
	Events []cachesim.Event `json:"events,omitempty"`
	// Filled are bytes that the node had read before, which its cache held as far as they fit.
	Filled int64 `json:"filled,omitempty"`
	// CacheKeys are what RocksDB's block cache calls the tables' files: two words each.
	CacheKeys map[uint64][2]uint64 `json:"cache_keys,omitempty"`
	// Cache is the kind of cache that was asked for, where the engine has several; CacheEntryBytes
	// is how large its blocks are said to be.
	Cache           cachesim.Policy `json:"cache,omitempty"`
	CacheEntryBytes int64           `json:"cache_entry_bytes,omitempty"`
	// CacheHighShare of RocksDB's LRUCache is for blocks of high priority; absent: a half.
	CacheHighShare *float64 `json:"cache_high_share,omitempty"`
}

// Totals are the counts of a whole trace.
type Totals struct {
	Offered  uint64 // Gets of the key stream, before sampling
	Gets     uint64
	Found    uint64
	Accesses uint64
	Blocks   uint64
}

// DamageError says that a trace ends early or is not what was written.
type DamageError struct {
	Frame int    // where, counted from 0, the header
	Gets  uint64 // usable, all before the damage
	Err   error
}

// Error says which frame is damaged, and how many Gets before it are whole.
func (e *DamageError) Error() string {
	return fmt.Sprintf("trace: frame %d: %v; %d Gets before it are whole; make the trace again",
		e.Frame, e.Err, e.Gets)
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// FailureCode is CodeDamaged.
func (*DamageError) FailureCode() engine.Code { return engine.CodeDamaged }

const (
	headerFrame byte = 'H'
	getsFrame   byte = 'G'
	footerFrame byte = 'F'
)

const (
	// targetFrameBytes of Gets are compressed together, before compression.
	targetFrameBytes = 256 << 10
	// maxFrameBytes bounds what is allocated because a file says so.
	maxFrameBytes = 4 << 20
	// maxGetAccesses bounds one Get: seven levels and some sublevels ask for
	// dozens of blocks.
	maxGetAccesses = 1 << 16
)

// storedUnknown is the level of a block of no known level, as in the first files, when seven levels
// were told apart; levels from it on are stored one higher.
const storedUnknown = 7

func storedLevel(level uint8) byte {
	switch {
	case level == engine.LevelUnknown:
		return storedUnknown
	case level >= storedUnknown:
		return level + 1
	}
	return level
}

// levelOf is the inverse of storedLevel; false for what it never is.
func levelOf(stored byte) (level uint8, ok bool) {
	switch {
	case stored == storedUnknown:
		return engine.LevelUnknown, true
	case stored > storedUnknown:
		return stored - 1, stored <= engine.LevelUnknown
	}
	return stored, true
}
