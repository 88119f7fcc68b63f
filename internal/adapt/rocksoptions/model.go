package rocksoptions

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// reader reads options by their names and keeps the first that says nothing.
type reader struct {
	blockbased.Options
	err error
}

// number is an option's value, where RocksDB's default is otherwise.
func (r *reader) number(name string, otherwise float64) float64 {
	n, err := r.Number(name, otherwise)
	r.err = cmp.Or(r.err, err)
	return n
}

// size is a number of bytes of which there must be some.
func (r *reader) size(name string, otherwise float64) float64 {
	n := r.number(name, otherwise)
	if n < 1 && r.err == nil {
		r.err = fmt.Errorf("option %s=%s must be at least 1", name, r.Options[name])
	}
	return n
}

// Filter is a filter policy.
type Filter struct {
	Bits       float64 // of a key in a Bloom filter as good as this one; 0: no filters
	Ribbon     bool
	BloomBelow int // levels below this one have Bloom filters all the same
}

// ribbonShare is the size of a Ribbon filter by that of a Bloom filter as good.
const ribbonShare = 0.7

// ParseFilter reads a policy: bloomfilter:10:false, ribbonfilter:10:3, nullptr. A policy of
// other code counts as none.
func ParseFilter(policy string) (f Filter) {
	policy, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimPrefix(policy, "{id="), "}"), ";")
	parts := strings.Split(policy, ":")
	kind := parts[0]
	if kind != "bloomfilter" && kind != "ribbonfilter" || len(parts) < 2 {
		return Filter{}
	}

	f.Bits, _ = strconv.ParseFloat(parts[1], 64)
	if f.Ribbon = kind == "ribbonfilter"; f.Ribbon && len(parts) > 2 {
		f.BloomBelow, _ = strconv.Atoi(parts[2])
	}

	return f
}

// ribbonOn: tables of level 0 were flushed, which counts as a level below 0. (Source:
// RibbonFilterPolicy::GetBuilderWithContext.)
func (f Filter) ribbonOn(level int) bool {
	if level == 0 {
		level = -1
	}
	return f.Ribbon && level >= f.BloomBelow
}

// BitsOn are the bits of a key on a level.
func (f Filter) BitsOn(level int) float64 {
	if f.ribbonOn(level) {
		return ribbonShare * f.Bits
	}
	return f.Bits
}

// Sanitize returns options as RocksDB takes them: it drops partitioned filters without an index of
// two levels.
func Sanitize(options map[string]string) map[string]string {
	if options["partition_filters"] == "true" && options["index_type"] != twoLevels {
		return with(options, named{"partition_filters": "false"})
	}
	return options
}

// ModelFromOptions returns the load of a database with these options, for lsm.Leveled.Levels, and
// how its Gets ask for blocks. Stored/raw of data blocks are the caller's.
func ModelFromOptions(
	options map[string]string,
) (load lsm.Leveled, reads *predict.BlockTables, err error) {
	options = Sanitize(options)
	if reads, err = Reads(options); err != nil {
		return load, nil, err
	}

	for name, only := range map[string]string{
		"compaction_style": "kCompactionStyleLevel",
		"index_type":       "kBinarySearch kTwoLevelIndexSearch",
	} {
		if asked := options[name]; asked != "" && !strings.Contains(only, asked) {
			return load, nil, fmt.Errorf("option %s=%s: a database that does not exist can be "+
				"computed with %s only", name, asked, only)
		}
	}

	r := reader{Options: options}
	filter := ParseFilter(options["filter_policy"])
	// RocksDB, too, takes more than what is asked for where that is less.
	const minBuffer = 64 << 10
	memTable := max(1, r.number("min_write_buffer_number_to_merge", 1)) * max(minBuffer,
		r.number("write_buffer_size", 64<<20))
	load = lsm.Leveled{
		BlockBytes:      int(r.size("block_size", 4096)),
		RestartInterval: int(r.number("block_restart_interval", 16)),
		MetadataBytes:   reads.PartBytes,
		PartedIndex:     options["index_type"] == twoLevels,
		PartedFilters:   reads.PartedFilters,
		FilterBits:      filter.BitsOn,
		ForHits:         r.Is("optimize_filters_for_hits", false),
		MemTableBytes:   int64(min(memTable, blockbased.MaxNumber)),
		L0Tables:        int(r.number("level0_file_num_compaction_trigger", 4)),
		BaseBytes:       int64(r.number("max_bytes_for_level_base", 256<<20)),
		Multiplier:      r.number("max_bytes_for_level_multiplier", 10),
		Dynamic:         reads.Dynamic,
		FileBytes:       int64(reads.FileBytes),
		FileMultiplier:  reads.FileMultiplier,
		UpperRatio:      1,
		LastRatio:       1,
	}

	if options["data_block_index_type"] == "kDataBlockBinaryAndHash" {
		load.HashRatio = r.number("data_block_hash_table_util_ratio", 0.75)
	}

	return load, reads, r.err
}

// GrowthFromOptions returns how the database with these options is compacted, for lsm.Leveled.Grow,
// and how its Gets ask for blocks. What is not compacted level by level is refused.
func GrowthFromOptions(
	options map[string]string,
) (how lsm.Leveled, reads *predict.BlockTables, err error) {
	r := reader{Options: options}
	levels := int(r.number("num_levels", lsm.ModelLevels))
	style := options["compaction_style"]
	switch {
	case r.err != nil:
		return how, nil, r.err
	case style != "" && style != "kCompactionStyleLevel":
		return how, nil, fmt.Errorf("compaction_style=%s has no sizes of levels that would grow; "+
			"only those of kCompactionStyleLevel are computed", style)
	case levels < 2 || levels > lsm.ModelLevels:
		return how, nil, fmt.Errorf("num_levels=%d: levels are computed of databases with 2 to %d",
			levels, lsm.ModelLevels)
	}

	if options["index_type"] != twoLevels {
		// kinds of indexes of one block, which Gets ask for alike
		options = with(options, named{"index_type": "kBinarySearch"})
	}

	if how, reads, err = ModelFromOptions(options); err != nil {
		return how, nil, err
	}

	how.NumLevels = levels
	return how, reads, nil
}

// Modelled are the options that Imagine and Stored obey.
func Modelled() []string {
	return []string{
		"block_restart_interval", "block_size", "bottommost_compression",
		"cache_index_and_filter_blocks",
		"cache_index_and_filter_blocks_with_high_priority", "compaction_style", "compression",
		"data_block_hash_table_util_ratio",
		"data_block_index_type", "filter_policy", "index_type",
		"level0_file_num_compaction_trigger", "level_compaction_dynamic_level_bytes",
		"max_bytes_for_level_base", "max_bytes_for_level_multiplier", "metadata_block_size",
		"metadata_cache_options",
		"min_write_buffer_number_to_merge", "optimize_filters_for_hits", "partition_filters",
		"pin_l0_filter_and_index_blocks_in_cache",
		"pin_top_level_index_and_filter", "target_file_size_base", "target_file_size_multiplier",
		"write_buffer_size",
	}
}

// Reads is how Gets of a database with these options ask for blocks.
func Reads(options map[string]string) (*predict.BlockTables, error) {
	options = Sanitize(options)
	how, err := blockbased.Options(options).Reading()
	if err != nil {
		return nil, err
	}

	r := reader{Options: options}
	return &predict.BlockTables{
		MetadataInCache: how.MetadataInCache,
		HighPriority:    how.HighPriority,
		PartedFilters:   r.Is("partition_filters", false),
		PartBytes:       int(r.size("metadata_block_size", 4096)),
		PinTop:          how.Top == blockbased.PinAll,
		PinL0:           how.Unpartitioned != blockbased.PinNone,
		Ribbon:          ParseFilter(options["filter_policy"]).ribbonOn,
		FileBytes:       r.size("target_file_size_base", 64<<20),
		FileMultiplier:  r.number("target_file_size_multiplier", 1),
		Dynamic:         r.Is("level_compaction_dynamic_level_bytes", true),
	}, r.err
}

// Stored are the ratios of stored to raw size of data blocks with these options, where they would
// be those of compression.
func Stored(options map[string]string, upper, last float64) (float64, float64) {
	of := func(kind string, ratio float64) float64 {
		if kind == "kNoCompression" {
			return 1
		}
		return ratio
	}

	bottom := options["bottommost_compression"]
	if bottom == "" || bottom == "kDisableCompressionOption" {
		bottom = options["compression"]
	}

	return of(options["compression"], upper), of(bottom, last)
}
