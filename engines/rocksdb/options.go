//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// named are options by RocksDB's own names.
type named map[string]string

// layout is what is set; all else is RocksDB's default.
type layout struct{ database, table named }

// cacheOption chooses the kind of the block cache, which RocksDB's options do not name.
const cacheOption = "cache-kind"

// settings are options resolved.
type settings struct {
	layout
	dir        string
	chosen     string // column family that Gets and writes go to, or a mix; "" is the default one
	mix        []adapter.Portion
	create     bool
	readOnly   bool
	foreign    bool // another program's: its OPTIONS file is obeyed
	ignoreLock bool
	direct     bool
	handles    int // -1: all tables stay open
	otherFiles int // that another handle of this process may have open
	cacheBytes int64
	cacheKind  cachesim.Policy
	entryBytes int64 // for which a fixed table of the cache is made
	budget     budget
}

// resolve makes settings of o: its profile, then the overrides, then what the
// harness decides.
func resolve(info engine.Info, o engine.Options) (settings, []error) {
	errs := adapter.Check(info, o)
	chosen, err := rocksoptions.Find(o.Profile)
	if err != nil {
		errs = append(errs, err)
	}

	s := settings{
		layout:     layout{maps.Clone(chosen.Database), maps.Clone(chosen.Table)},
		dir:        o.Dir,
		create:     o.Create,
		readOnly:   o.ReadsOnly(),
		foreign:    o.Foreign,
		ignoreLock: o.IgnoreLock,
		direct:     o.Direct,
		handles:    -1,
		cacheBytes: chosen.Cache(),
		cacheKind:  cachesim.PooledLRUPolicy,
	}

	if o.Handles > 0 {
		s.handles = o.Handles
	}

	if o.CacheBytes > 0 {
		s.cacheBytes = o.CacheBytes
	}

	if _, err := load(); err != nil {
		return s, append(errs, err)
	}

	if o.Foreign {
		s.leaveToFile(cmp.Or(o.Profile, ownProfile()))
	}

	errs = append(errs, s.override(o.Overrides)...)
	// of options as text, RocksDB itself forgets it and ends in a write
	s.table = rocksoptions.Sanitize(s.table)
	if o.MemoryBytes > 0 {
		if s.cacheKind == cachesim.FixedClockPolicy {
			errs = append(errs,
				engine.Fail(engine.CodeOption, "option %s=%s: the table of this cache is made "+
					"once, and a memory budget changes the size of the cache: "+
					"use %s=hyper-clock, or a fixed cache", cacheOption, o.Overrides[cacheOption],
					cacheOption))
		}

		if s.budget, err = split(o.MemoryBytes, &s); err != nil {
			errs = append(errs, err)
		}

		s.cacheBytes = s.budget.cache(0)
	}

	return s, errs
}

// ownProfile is that of a database that names none.
func ownProfile() string { return rocksoptions.Profiles()[0].Name }

// leaveToFile leaves to the OPTIONS file of another program's database what it says: all of the
// first profile, and of others what applies when data is written. Without a file, the profile
// stands.
func (s *settings) leaveToFile(profile string) {
	if name, err := optionsfile.Newest(s.dir); err != nil || name == "" {
		return
	}
	s.database = named{}
	maps.DeleteFunc(s.table, func(name, _ string) bool {
		return profile == ownProfile() || slices.Contains(storedOptions(), name)
	})
}

// reservedOptions are options that the harness sets, with what to do instead.
func reservedOptions() map[string]string {
	return map[string]string{
		"max_open_files":            "use --max-open-files",
		"use_direct_reads":          "use --page-cache direct",
		"block_cache":               "use --cache",
		"no_block_cache":            "use --cache",
		"create_if_missing":         "statelab load makes databases",
		"error_if_exists":           "statelab load makes databases",
		"statistics":                "they are always counted",
		"db_log_dir":                "the log is in the database",
		"block_based_table_factory": "set its options by their own names, such as block_size=4096",
		"table_factory":             "tables are block-based",
	}
}

// storedOptions are those of tables, blob files and the sizes of levels.
func storedOptions() []string {
	return []string{
		"block_size", "block_size_deviation", "block_restart_interval",
		"index_block_restart_interval", "metadata_block_size", "block_align",
		"super_block_alignment_size",
		"index_type", "index_shortening", "data_block_index_type",
		"data_block_hash_table_util_ratio", "partition_filters", "filter_policy",
		"whole_key_filtering",
		"prefix_extractor", "optimize_filters_for_memory", "optimize_filters_for_hits",
		"detect_filter_construct_corruption", "format_version", "checksum",
		"enable_index_compression", "use_delta_encoding", "decouple_partitioned_filters",
		"compression", "bottommost_compression", "compression_per_level",
		"compression_opts", "bottommost_compression_opts", "target_file_size_base",
		"target_file_size_multiplier", "max_bytes_for_level_base",
		"max_bytes_for_level_multiplier", "level_compaction_dynamic_level_bytes",
		"compaction_style", "num_levels", "enable_blob_files", "min_blob_size",
		"blob_file_size", "blob_compression_type",
	}
}

func (s *settings) override(overrides map[string]string) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		value := strings.TrimSpace(overrides[name])
		if name == tableOption {
			s.chosen = overrides[name]
			var err error
			if s.mix, err = adapter.ParseMix(s.chosen); err != nil {
				errs = append(errs, err)
			} else if len(s.mix) > 1 && !s.readOnly {
				errs = append(errs,
					fmt.Errorf("option table=%s: a mix is for reading alone: use statelab sweep, "+
						"with --read-only", value))
			}

			continue
		}

		if name == cacheOption {
			var err error
			if s.cacheKind, s.entryBytes, err = cachesim.ParseRocksCache(value); err != nil {
				errs = append(errs, fmt.Errorf("option %s: %w", name, err))
			}
			continue
		}

		if name == "" || strings.ContainsAny(name, "={};") {
			errs = append(errs,
				fmt.Errorf("option %q: RocksDB has none of that name; write "+
					"write_buffer_size=16777216", name))
			continue
		}

		if flag, is := reservedOptions()[name]; is {
			errs = append(errs, fmt.Errorf("option %s cannot be set: %s", name, flag))
			continue
		}

		inDatabase := parses(layout{database: named{name: value}})
		inTable := parses(layout{table: named{name: value}})
		switch {
		case inDatabase == nil:
			s.database[name] = value
		case inTable == nil:
			s.table[name] = value
		case unknown(inDatabase) && unknown(inTable):
			errs = append(errs,
				engine.Fail(engine.CodeOption, "unknown option %q: RocksDB has it neither for "+
					"databases nor for block-based tables", name))
		case unknown(inDatabase):
			errs = append(errs, fmt.Errorf("option %s=%s: %w", name, value, inTable))
		default:
			errs = append(errs, fmt.Errorf("option %s=%s: %w", name, value, inDatabase))
		}
	}

	if len(errs) == 0 {
		if err := parses(s.layout); err != nil {
			errs = append(errs, fmt.Errorf("options %s: %w", s.layout, err))
		}
	}

	return errs
}

// unknown tells the refusal of a name from that of a value.
func unknown(err error) bool { return engine.CodeOf(err) == engine.CodeOption }

// String is what RocksDB reads options from.
func (l layout) String() string {
	all := maps.Clone(l.database)
	if all == nil {
		all = named{}
	}
	if len(l.table) > 0 {
		all["block_based_table_factory"] = "{" + l.table.String() + "}"
	}
	return all.String()
}

func (n named) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, name+"="+n[name])
	}
	return strings.Join(parts, ";")
}

// parses asks RocksDB whether it takes the options.
func parses(l layout) error {
	o, err := parse(C.rocks_options_create(), l.String())
	if err == nil {
		C.rocks_options_destroy(o)
	}
	return err
}

// parse returns base, which it destroys, changed by what text says.
func parse(base *C.rocksdb_options_t, text string) (*C.rocksdb_options_t, error) {
	defer C.rocks_options_destroy(base)
	return parsed(base, text)
}

// parsed is a copy of base changed by what text says.
func parsed(base *C.rocksdb_options_t, text string) (*C.rocksdb_options_t, error) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	o := C.rocks_options_create()
	var message *C.char
	C.rocks_get_options_from_string(base, c, o, &message)
	if err := errFromC(message); err != nil {
		C.rocks_options_destroy(o)
		return nil, err
	}

	return o, nil
}

// options are the options to open with, with cache as the block cache: those that k has, or the
// library's defaults, changed by what is set here.
func (s *settings) options(
	cache *C.rocksdb_cache_t, k optionsFile, logs string,
) (*C.rocksdb_options_t, error) {
	if k.file != "" {
		return k.databaseOptions(logs, s.set())
	}

	base := C.rocks_options_create()
	C.rocks_options_enable_statistics(base)
	table := C.rocks_block_based_options_create()
	C.rocks_block_based_options_set_block_cache(table, cache)
	C.rocks_options_set_block_based_table_factory(base, table)
	C.rocks_block_based_options_destroy(table)

	o, err := parse(base, s.set().String())
	if err != nil {
		return nil, fmt.Errorf("options %s: %w", s.set(), err)
	}

	return o, nil
}

// set is what is set here: the profile, the overrides and what the harness decides.
func (s *settings) set() layout {
	all := layout{maps.Clone(s.database), s.table}
	all.database["create_if_missing"] = strconv.FormatBool(s.create)
	if s.create {
		all.database["create_missing_column_families"] = "true" // the one that was asked for
	}

	all.database["error_if_exists"] = strconv.FormatBool(s.create)
	all.database["use_direct_reads"] = strconv.FormatBool(s.direct)
	all.database["max_open_files"] = strconv.Itoa(s.handles)
	return all
}

// number is an option's value, or without one otherwise. RocksDB's suffixes are
// not for arithmetic of ours.
func (n named) number(name string, otherwise int64) (int64, error) {
	text, given := n[name]
	if !given {
		return otherwise, nil
	}

	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v <= 0 {
		return 0, errors.New("with a memory budget, option " + name + " must be a plain number: " +
			name + "=" + strconv.FormatInt(otherwise, 10))
	}

	return v, nil
}

// twoLevels reports whether indexes are in partitions: those of the tables that
// are there, else those of tables to come.
func (s *settings) twoLevels(shape engine.Shape) bool {
	if len(shape.Levels) > 0 {
		return shape.Levels[0].IndexBlocks > 0
	}
	return s.table["index_type"] == "kTwoLevelIndexSearch"
}
