package blockbased

import (
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Reading is how a database is opened for Gets: what of it decides which blocks they ask the cache
// for.
type Reading struct {
	Filters         bool   // there is a filter policy
	WholeKeys       bool   // filters are asked for keys, not for prefixes
	PrefixExtractor string // "": none
	ForHits         bool   // the last level's filters are not asked

	// MetadataInCache: filters and indexes are in the block cache, not with their open table.
	MetadataInCache bool
	HighPriority    bool // in the cache they have the high priority
	// What is kept of each open table, in the cache or outside.
	Top, Partitions, Unpartitioned Pinning
	LargestPinnedL0                int64 // a larger table of level 0 does not count as flushed

	NoCache bool // no block enters a cache
	// Mapped: tables are mapped into memory, where the cache leaves blocks that are not compressed.
	Mapped bool

	OpenFiles      int  // limit of open files; below 0: all tables stay open
	TableShardBits int  // the table cache has 2^TableShardBits shards
	Direct         bool // tables are read past the page cache: what opening one reads is one read

	// Level: the database is LevelDB's, which has no OPTIONS file, one tree, and its own order of
	// asking. Its cache charges buffers that a pool of this block size gives out.
	Level      bool
	BlockBytes int

	places bool // of filters, it matters where they are, and not what they say
}

// Pinning says of which tables metadata stay in the cache.
type Pinning uint8

// Values of Pinning.
const (
	PinNone    Pinning = iota
	PinFlushed         // those of level 0 that came from a memtable
	PinAll
)

func (p Pinning) of(t *Facts, r *Reading) bool {
	return p == PinAll || p == PinFlushed && t.Level == 0 && t.Bytes <= r.LargestPinnedL0
}

// Options are options by their names in an OPTIONS file: those of a family and of its tables.
type Options map[string]string

// readOptions reads what the newest OPTIONS file of a database says of a family, and in which
// folder its logs are, unless asked says so.
func readOptions(
	dir, family, asked string,
) (own Options, logs string, warnings []engine.Warning, err error) {
	name, sections, err := optionsfile.Read(dir)
	if err != nil {
		return nil, "", nil, err
	}

	isFamily := func(name string) bool {
		return unit.Is(name, family)
	}
	warnings = dbformat.OptionWarnings(filepath.Join(dir, name), sections, isFamily)
	if w, is := dbformat.HighShareWarning(dir, sections); is {
		warnings = append(warnings, w)
	}

	own = Options{}
	for _, section := range sections {
		switch {
		case section.Kind == "DBOptions":
			logs = section.Values["wal_dir"]
			for _, name := range databaseOptions() {
				if value, is := section.Values[name]; is {
					own[name] = value
				}
			}
		case isFamily(section.Name) &&
			(section.Kind == "CFOptions" || section.Kind == "TableOptions/BlockBasedTable"):
			maps.Copy(own, section.Values)
		}
	}

	if asked != "" {
		return own, asked, warnings, nil
	}

	logs, err = dbformat.LogFolder(dir, filepath.Join(dir, name), logs)
	return own, logs, warnings, err
}

// databaseOptions are those of a whole database that decide what Gets read.
func databaseOptions() []string {
	return []string{"max_open_files", "table_cache_numshardbits", "allow_mmap_reads",
		"use_direct_reads"}
}

// none is how an option says that there is nothing.
const none = "nullptr"

// MaxNumber is more than any size of bytes.
const MaxNumber = 1 << 60

// Number is an option's value, or RocksDB's default where nothing is set. RocksDB takes 64M, too.
func (o Options) Number(name string, otherwise float64) (float64, error) {
	text := o[name]
	if text == "" {
		return otherwise, nil
	}

	unit := 1.0
	for i, letter := range "KMGT" {
		if cut, is := strings.CutSuffix(strings.ToUpper(text), string(letter)); is {
			text, unit = cut, float64(int64(1)<<(10*(i+1)))
		}
	}

	n, err := strconv.ParseFloat(text, 64)
	if n *= unit; err != nil || !(n >= 0 && n < MaxNumber) {
		return 0, fmt.Errorf("option %s=%s must be a number (examples: 67108864, 64M)", name,
			o[name])
	}

	return n, nil
}

// integer is an option's value, which may be below 0, or RocksDB's default where nothing is set.
func (o Options) integer(name string, otherwise int) (int, error) {
	if o[name] == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(o[name])
	if err != nil {
		return 0, fmt.Errorf("option %s=%s must be an integer (example: 1000)", name, o[name])
	}
	return n, nil
}

// Is tells whether an option is on, where RocksDB's default is otherwise.
func (o Options) Is(name string, otherwise bool) bool {
	switch o[name] {
	case "":
		return otherwise
	case "true", "1":
		return true
	}
	return false
}

// Reading is how a database with these options is read.
func (o Options) Reading() (r Reading, err error) {
	r = Reading{
		Filters:         o["filter_policy"] != "" && o["filter_policy"] != none,
		WholeKeys:       o.Is("whole_key_filtering", true),
		ForHits:         o.Is("optimize_filters_for_hits", false),
		MetadataInCache: o.Is("cache_index_and_filter_blocks", false),
		HighPriority:    o.Is("cache_index_and_filter_blocks_with_high_priority", true),
		NoCache:         o.Is("no_block_cache", false),
		Mapped:          o.Is("allow_mmap_reads", false),
		Direct:          o.Is("use_direct_reads", false),
	}

	if r.OpenFiles, err = o.integer("max_open_files", -1); err != nil {
		return r, err
	}

	if r.TableShardBits, err = o.integer("table_cache_numshardbits", 6); err != nil {
		return r, err
	}

	if extractor := o["prefix_extractor"]; extractor != none {
		r.PrefixExtractor = extractor
	}

	buffer, err := o.Number("write_buffer_size", 64<<20)
	if err != nil {
		return r, err
	}

	r.LargestPinnedL0 = int64(buffer) / 2 * 3
	tiers := map[string]string{}
	for _, part := range strings.Split(strings.Trim(o["metadata_cache_options"], "{}"), ";") {
		name, value, _ := strings.Cut(part, "=")
		tiers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}

	tier := func(name string, fallback Pinning) Pinning {
		switch tiers[name] {
		case "kNone":
			return PinNone
		case "kFlushedAndSimilar":
			return PinFlushed
		case "kAll":
			return PinAll
		}

		return fallback
	}

	top, flushed := PinNone, PinNone
	if o.Is("pin_top_level_index_and_filter", true) {
		top = PinAll
	}

	if o.Is("pin_l0_filter_and_index_blocks_in_cache", false) {
		flushed = PinFlushed
	}

	r.Top, r.Partitions, r.Unpartitioned = tier("top_level_index_pinning", top),
		tier("partition_pinning", flushed), tier("unpartitioned_pinning", flushed)
	return r, nil
}

// prefix is the part of a key that filters of prefixes know; not in the domain of the extractor:
// false.
func (r *Reading) prefix(key []byte) (prefix []byte, is bool) {
	kind, length, found := strings.Cut(r.PrefixExtractor, ":")
	if !found {
		at := strings.LastIndexByte(r.PrefixExtractor, '.')
		if at < 0 {
			return nil, false
		}
		kind, length = r.PrefixExtractor[:at], r.PrefixExtractor[at+1:]
	}

	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return nil, false
	}

	switch kind {
	case "fixed", "rocksdb.FixedPrefix":
		if len(key) < n {
			return nil, false
		}
		return key[:n], true
	case "capped", "rocksdb.CappedPrefix":
		return key[:min(n, len(key))], true
	}

	return nil, false
}
