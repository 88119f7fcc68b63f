package rocksoptions

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/model/tablemodel"
)

// tunedError: see docs/tuning.md.
const tunedError = 0.05

// beyond is that of separators between hashed keys, which are as short as can be, measured.
const beyond = 0.2

// Tables are the settings of tables that a family with these options has, and what its tables are
// like. flag is how its owner sets the size of the block cache.
func Tables(options map[string]string, family string,
	flag func(cacheBytes int64) string) (kind tablemodel.TableModel,
	present tablemodel.TableOptions, err error) {
	options = Sanitize(options)
	reads, err := Reads(options)
	if err != nil {
		return kind, present, err
	}

	r, filter := reader{Options: options}, ParseFilter(options["filter_policy"])
	present = tablemodel.TableOptions{
		BlockBytes:           int64(r.size("block_size", 4096)),
		FilterBits:           filter.Bits,
		LastFilters:          !r.Is(forHits, false),
		MetadataOutsideCache: !reads.MetadataInCache,
	}

	if options["index_type"] == twoLevels {
		present.IndexBytes, present.PartitionFilters = int64(reads.PartBytes), reads.PartedFilters
	}

	const kib = 1 << 10
	const trailerBytes = 5
	kind = tablemodel.TableModel{
		Rate: func(to tablemodel.TableOptions, keys float64) float64 {
			const line = 512 // bits, whole ones alone
			lines := math.Ceil(to.FilterBits * keys / line)
			return predict.BlockFilterRate(lines * line / keys)
		},
		BlockBytes:        blockBytes(options, &r),
		FilterBeforeIndex: true,
		AlwaysTop:         true,
		SeparatorGap:      beyond,
		CoupledPartitions: !r.Is("decouple_partitioned_filters", false),
		PartFull:          predict.PartFull,
		Trailer:           trailerBytes,
		Filters:           cachesim.ParsedFilter,
		PinTop:            reads.PinTop,
		PinL0:             reads.PinL0,
		Error:             tunedError,
		BufferOption:      "write_buffer_size",
		MemTables: int64(r.number("write_buffer_size", 64<<20) * r.number(
			"max_write_buffer_number",
			2,
		)),
		Options: []tablemodel.Option{
			tablemodel.Values(func(t *tablemodel.TableOptions, v int64) { t.BlockBytes = v }, kib,
				2*kib, 4*kib, 8*kib, 16*kib, 32*kib, 64*kib),
			tablemodel.Values(func(t *tablemodel.TableOptions, v int64) {
				t.IndexBytes, t.PartitionFilters = v, v > 0
			}, 0, 4*kib, 16*kib, 64*kib),
			tablemodel.Values(func(t *tablemodel.TableOptions, v float64) { t.FilterBits = v }, 0,
				5, 8, 10, 12, 14, 16, 20),
			tablemodel.Values(func(t *tablemodel.TableOptions, v bool) { t.LastFilters = v },
				false, true),
			tablemodel.Values(func(t *tablemodel.TableOptions, v bool) {
				t.MetadataOutsideCache = v
			}, false, true),
		},
		Rewrite: "DB::CompactRange of all keys and BottommostLevelCompaction::kForce",
	}

	if reads.HighPriority {
		kind.Filters, kind.Indexes = kind.Filters|cachesim.HighPriority, cachesim.HighPriority
	}

	compressed, last := named{compressionOf: cmp.Or(options[compressionOf],
		compressions()[tablemodel.DefaultCompression])}, options[lastCompression]
	if last != "" && last != asOthers {
		compressed[lastCompression] = last
	}

	kind.Compression = tablemodel.Compression(cmp.Or(compressed[lastCompression],
		compressed[compressionOf]))
	if options["compression_per_level"] == "" {
		kind.Compressions = slices.Sorted(maps.Keys(compressions()))
	}

	kind.OptionMap = func(t tablemodel.TableOptions) map[string]string {
		all := words(t, filter)
		if len(kind.Compressions) > 0 {
			maps.Copy(all, compressed)
		}

		if t.Compression != "" {
			all[compressionOf] = compressions()[t.Compression]
			if compressed[lastCompression] != "" {
				all[lastCompression] = asOthers
			}
		}

		return all
	}

	kind.Snippet = func(t tablemodel.TableOptions, cacheBytes int64) string {
		all, ofFamily, ofTables := kind.OptionMap(t), "", ""
		for _, name := range slices.Sorted(maps.Keys(all)) {
			line := fmt.Sprintf("  %s=%s\n", name, all[name])
			if name == forHits || name == compressionOf || name == lastCompression {
				ofFamily += line
			} else {
				ofTables += line
			}
		}

		return fmt.Sprintf("# %s\n[CFOptions %q]\n%s[TableOptions/BlockBasedTable %q]\n%s",
			flag(cacheBytes), family, ofFamily, family, ofTables)
	}

	return kind, present, r.err
}

// Options of a family, and that its last level has the compression of the others.
const (
	compressionOf, lastCompression = "compression", "bottommost_compression"
	asOthers                       = "kDisableCompressionOption"
)

// compressions are those that are tried, in RocksDB's words.
func compressions() map[string]string {
	return map[string]string{
		tablemodel.NoCompression: "kNoCompression",
		"snappy":                 "kSnappyCompression",
		"lz4":                    "kLZ4Compression",
		"zstd":                   "kZSTD",
	}
}

const (
	twoLevels = "kTwoLevelIndexSearch"
	forHits   = "optimize_filters_for_hits" // of a family, where the others are of its tables
)

// words are the options that make tables, with filters of the kind that there are.
func words(t tablemodel.TableOptions, filter Filter) map[string]string {
	all := named{
		"block_size":                    strconv.FormatInt(t.BlockBytes, 10),
		"filter_policy":                 "nullptr",
		"index_type":                    "kBinarySearch",
		"partition_filters":             strconv.FormatBool(t.PartitionFilters),
		forHits:                         strconv.FormatBool(!t.LastFilters),
		"cache_index_and_filter_blocks": strconv.FormatBool(!t.MetadataOutsideCache),
	}

	bits := strconv.FormatFloat(t.FilterBits, 'f', -1, 64)
	switch {
	case t.FilterBits > 0 && filter.Ribbon:
		all["filter_policy"] = fmt.Sprintf("ribbonfilter:%s:%d", bits, filter.BloomBelow)
	case t.FilterBits > 0:
		all["filter_policy"] = "bloomfilter:" + bits + ":false"
	}

	if t.IndexBytes > 0 {
		all["index_type"], all["metadata_block_size"] = twoLevels,
			strconv.FormatInt(t.IndexBytes, 10)
	}

	return all
}

// blockBytes cuts blocks as the writer of tables does, of keys that are as far from each other as
// hashed ones, and of entries as large as they are on average.
func blockBytes(
	options map[string]string, r *reader,
) func(engine.Level, float64, tablemodel.TableOptions) float64 {
	w := lsm.Leveled{RestartInterval: int(r.number("block_restart_interval", 16))}
	if strings.HasSuffix(options["data_block_index_type"], "AndHash") {
		w.HashRatio = r.number("data_block_hash_table_util_ratio", 0.75)
	}

	return func(l engine.Level, entryBytes float64, to tablemodel.TableOptions) float64 {
		// bytes; from which difference on keys share more or less than hashed ones do
		const sequence, otherKeys = 8, 4
		w := w
		w.BlockBytes, w.KeyBytes, w.ValueBytes = int(to.BlockBytes),
			max(1, int(l.RawKeyBytes/l.Keys)-sequence), int(l.RawValueBytes/l.Keys)
		keys := float64(l.Keys) / float64(max(1, l.Sublevels))
		raw, entries := w.Block(keys)
		if more := entryBytes - raw/entries; more < -otherKeys || more > otherKeys {
			w.ValueBytes = max(0, w.ValueBytes+int(more))
			raw, _ = w.Block(keys)
		}

		return raw
	}
}
