package goleveldb

import (
	"cmp"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// settings are the options that shape a measurement, by goleveldb's names where it
// has one.
type settings struct {
	BlockCacheCapacity     int64 `effective:"cache_bytes"`
	OpenFilesCacheCapacity int   `effective:"handles"`
	WriteBuffer            int   `effective:"memtable_size"` // there are two; 0: half the block cache each
	BlockSize              int
	CompactionTableSize    int
	CompactionTotalSize    int
	CompactionL0Trigger    int
	BloomBitsPerKey        int // 0: no filter
	Compression            string
	DisableSeeksCompaction bool
	table                  adapter.Sections // whose keys are sampled
}

// defaults are the library's own.
func defaults() settings {
	return settings{
		BlockCacheCapacity:     8 * mib,
		OpenFilesCacheCapacity: opt.DefaultOpenFilesCacheCapacity,
		WriteBuffer:            4 * mib,
		BlockSize:              4 * kib,
		CompactionTableSize:    2 * mib,
		CompactionTotalSize:    10 * mib,
		CompactionL0Trigger:    4,
		Compression:            "snappy",
	}
}

const bloomBitsPerKey = 10 // of go-ethereum and of Cosmos

func profiles() []adapter.Profile[settings] {
	// With its default of 512 MiB for the database: half for blocks, a quarter for
	// each of two write buffers.
	geth := defaults()
	geth.BlockCacheCapacity, geth.WriteBuffer = 256*mib, 0
	geth.OpenFilesCacheCapacity = 262_144
	geth.BloomBitsPerKey, geth.DisableSeeksCompaction = bloomBitsPerKey, true

	cosmos := defaults()
	cosmos.BloomBitsPerKey = bloomBitsPerKey
	return []adapter.Profile[settings]{
		adapter.Named("geth-legacy", "go-ethereum on LevelDB: bloom filters of 10 bits, write buffers with the cache, no compactions by seeks", geth),
		adapter.Named("cosmos", "cosmos-db's defaults: the library's own and bloom filters of 10 bits; Gets can start compactions", cosmos),
		adapter.Named("default", "the library's own defaults: no filters", defaults()),
	}
}

func resolve(info engine.Info, o engine.Options) (settings, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, func(s *settings) []adapter.Option {
		return []adapter.Option{
			adapter.Size("WriteBuffer", "4MiB", &s.WriteBuffer, 4*kib),
			adapter.Size("BlockSize", "4KiB", &s.BlockSize, 256),
			adapter.Size("CompactionTableSize", "2MiB", &s.CompactionTableSize, 4*kib),
			adapter.Size("CompactionTotalSize", "10MiB", &s.CompactionTotalSize, 4*kib),
			adapter.Count("CompactionL0Trigger", "4", &s.CompactionL0Trigger, 1),
			adapter.Count("BloomBitsPerKey", "10", &s.BloomBitsPerKey, 0),
			adapter.Choice("Compression", &s.Compression, "snappy", "none"),
			adapter.Switch("DisableSeeksCompaction", &s.DisableSeeksCompaction),
			{Name: "table", Example: "flat accounts", Set: s.table.Set},
		}
	})
	s.BlockCacheCapacity = cmp.Or(max(0, o.CacheBytes), s.BlockCacheCapacity)
	s.OpenFilesCacheCapacity = cmp.Or(max(0, o.Handles), s.OpenFilesCacheCapacity)
	if err := s.table.Check(o); err != nil {
		errs = append(errs, err)
	}
	if o.ReadsOnly() {
		s.WriteBuffer = readOnlyBuffer
	}
	if o.MemoryBytes > 0 {
		if err := s.split(o.MemoryBytes, o.Handles > 0); err != nil {
			errs = append(errs, err)
		}
	}
	if s.WriteBuffer == 0 {
		s.WriteBuffer = int(max(s.BlockCacheCapacity/2, minWriteBuffer))
	}
	return s, errs
}

const (
	// minWriteBuffer holds a batch of the loader: a larger batch than the buffer
	// goes past the journal, into tables of its own.
	minWriteBuffer = 1 * mib
	// readOnlyBuffer is what the journal is read into when nothing is written: it
	// grows as need be, and goleveldb allocates the whole of it at once.
	readOnlyBuffer = 64 * kib
	// tableBytes is what an open table takes: reader, descriptor, cache node.
	tableBytes = 1 * kib
	leastBytes = 4 * mib
)

// split deals a budget out; see the package comment. handlesFixed keeps the number
// of open tables.
func (s *settings) split(budget int64, handlesFixed bool) error {
	if budget < leastBytes {
		return fmt.Errorf("a budget of %d bytes is too small: give goleveldb 4MiB or more", budget)
	}
	quarter := int(budget / 4)
	if s.WriteBuffer == 0 || s.WriteBuffer > quarter {
		s.WriteBuffer = quarter
	}
	if !handlesFixed {
		s.OpenFilesCacheCapacity = min(s.OpenFilesCacheCapacity, int(budget/32/tableBytes))
	}
	s.BlockCacheCapacity = budget - 2*int64(s.WriteBuffer) - s.openTablesBytes()
	if s.BlockCacheCapacity < budget/8 {
		return fmt.Errorf("%d handles leave too little of a budget of %d bytes for blocks: write --handles %d",
			s.OpenFilesCacheCapacity, budget, budget/32/tableBytes)
	}
	return nil
}

func (s *settings) openTablesBytes() int64 { return int64(s.OpenFilesCacheCapacity) * tableBytes }

func (s *settings) translate(o engine.Options) *opt.Options {
	options := &opt.Options{
		BlockCacheCapacity:     int(s.BlockCacheCapacity),
		OpenFilesCacheCapacity: s.OpenFilesCacheCapacity,
		WriteBuffer:            s.WriteBuffer,
		BlockSize:              s.BlockSize,
		CompactionTableSize:    s.CompactionTableSize,
		CompactionTotalSize:    s.CompactionTotalSize,
		CompactionL0Trigger:    s.CompactionL0Trigger,
		Compression:            opt.SnappyCompression,
		DisableSeeksCompaction: s.DisableSeeksCompaction,
		ReadOnly:               o.ReadOnly,
		ErrorIfExist:           o.Create,
		ErrorIfMissing:         !o.Create,
	}
	if s.Compression == "none" {
		options.Compression = opt.NoCompression
	}
	if s.BloomBitsPerKey > 0 {
		options.Filter = filter.NewBloomFilter(s.BloomBitsPerKey)
	}
	if o.TraceAccesses {
		options.BlockCacheCapacity = -1 // holds what is in use, no more
	}
	return options
}

// CacheBytes is the size of the block cache.
func (d *db) CacheBytes() int64 { return d.settings.BlockCacheCapacity }

// Effective are the options in force.
func (d *db) Effective() map[string]string {
	options := adapter.Effective(d.settings)
	if text := d.settings.table.Text; text != "" {
		options["table"] = text
	}
	return options
}
