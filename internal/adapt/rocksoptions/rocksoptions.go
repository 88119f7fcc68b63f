// Package rocksoptions are RocksDB's options as plain data: the named sets of them that the adapter
// offers as profiles, among them those of clients, for what is told of RocksDB without its library.
//
// Each client's options were read in its source; only facts were taken, the values. What decides
// how many blocks a Get reads is complete; options of writing that no table shows are left out.
//
// Non-goals: what RocksDB makes of options, which its library knows (engines/rocksdb).
package rocksoptions

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/statelab/statelab/internal/adapt/adapter"
)

// Layout is what a profile sets; all else is RocksDB's default.
type Layout struct {
	Database, Table map[string]string // by RocksDB's own names
	// CacheBytes is the block cache of a client that was told nothing; 0: DefaultCacheBytes.
	CacheBytes int64
	// Families of the client that have these options, by the names that inspect shows; none: all.
	Families []string
}

// Profile is a named set of options.
type Profile = adapter.Profile[Layout]

// DefaultCacheBytes is RocksDB's own since version 8.
const DefaultCacheBytes = 32 << 20

const mib = 1 << 20

type named = map[string]string

// Profiles are all, the default one first. Those of no client differ in where filters and indexes
// are; what they share is what makes them comparable with Pebble: 4-KiB blocks, 10 bits of filter a
// key, Snappy.
func Profiles() []Profile {
	own := func(name, about string, more named) Profile {
		return adapter.Named(name, about, Layout{
			// The default since version 8.4, said for older ones.
			Database: named{
				"compression":                          "kSnappyCompression",
				"level_compaction_dynamic_level_bytes": "true",
			},
			Table: with(named{"block_size": "4096", "filter_policy": "bloomfilter:10:false"},
				more),
		})
	}

	return append([]Profile{
		own("default", "filters and indexes outside the block cache, as RocksDB has it by "+
			"default; a table's are read when it is opened",
			named{"cache_index_and_filter_blocks": "false"}),
		own("monolithic", "filters and indexes in the block cache, each one block a table",
			named{"cache_index_and_filter_blocks": "true"}),
		own("partitioned", "filters and indexes in the block cache, in blocks of 4 KiB, their "+
			"top levels pinned", named{
			"cache_index_and_filter_blocks":           "true",
			"index_type":                              "kTwoLevelIndexSearch",
			"partition_filters":                       "true",
			"metadata_block_size":                     "4096",
			"pin_top_level_index_and_filter":          "true",
			"pin_l0_filter_and_index_blocks_in_cache": "false",
		}),
	}, clients()...)
}

// Find is the layout of a profile; "" is the first.
func Find(profile string) (Layout, error) { return adapter.Find(Profiles(), profile) }

// All are the options of l by their names, changed by overrides.
func (l Layout) All(overrides map[string]string) map[string]string {
	return with(with(l.Database, l.Table), overrides)
}

// Cache is the size of the block cache.
func (l Layout) Cache() int64 {
	if l.CacheBytes > 0 {
		return l.CacheBytes
	}
	return DefaultCacheBytes
}

// Has reports whether a family of the client is one that l is about.
func (l Layout) Has(family string) bool {
	return len(l.Families) == 0 || slices.Contains(l.Families, family)
}

// with are the options of a changed by those of b.
func with(a, b named) named {
	all := maps.Clone(a)
	if all == nil {
		all = named{}
	}
	maps.Copy(all, b)
	return all
}

// Same reports whether two values of an option mean the same, however they are written.
func Same(name, a, b string) bool {
	if name == "filter_policy" {
		return ParseFilter(a) == ParseFilter(b)
	}
	x, noX := strconv.ParseFloat(a, 64)
	y, noY := strconv.ParseFloat(b, 64)
	return a == b || noX == nil && noY == nil && x == y
}

// Pair is an option in two sets of options.
type Pair struct {
	Name, Here, There string
	Differs           bool
}

// Compare compares the options that decide how many blocks a Get reads, by their names; what a set
// does not say is RocksDB's default.
func Compare(here, there map[string]string) (pairs []Pair) {
	defaults := named{
		"block_size":                    "4096",
		"block_restart_interval":        "16",
		"data_block_index_type":         "kDataBlockBinarySearch",
		"index_type":                    "kBinarySearch",
		"metadata_block_size":           "4096",
		"filter_policy":                 "nullptr",
		"whole_key_filtering":           "true",
		"prefix_extractor":              "nullptr",
		"optimize_filters_for_hits":     "false",
		"partition_filters":             "false",
		"cache_index_and_filter_blocks": "false",
		"cache_index_and_filter_blocks_with_high_priority": "true",
		"pin_l0_filter_and_index_blocks_in_cache":          "false",
		"pin_top_level_index_and_filter":                   "true",
		"compression":                                      "kSnappyCompression",
		"bottommost_compression":                           "kDisableCompressionOption",
		"level_compaction_dynamic_level_bytes":             "true",
		"level0_file_num_compaction_trigger":               "4",
		"max_bytes_for_level_base":                         "268435456",
		"max_bytes_for_level_multiplier":                   "10",
		"target_file_size_base":                            "67108864",
		"target_file_size_multiplier":                      "1",
	}

	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		a, b := cmp.Or(here[name], defaults[name]), cmp.Or(there[name], defaults[name])
		pairs = append(pairs, Pair{name, a, b, !Same(name, a, b)})
	}

	return pairs
}
