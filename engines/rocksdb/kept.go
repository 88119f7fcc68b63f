//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// optionsFile is what a database says of itself in its newest OPTIONS file: as RocksDB loads it,
// and as text, because the C interface has no way to ask for most options. The zero value has none.
type optionsFile struct {
	file     string // its name; "": the database has none
	sections []optionsfile.Section
	database named
	families map[string]keptFamily

	whole *C.rocksdb_options_t
	count C.size_t
	names **C.char
	each  **C.rocksdb_options_t
}

// keptFamily is what the file says of a column family.
type keptFamily struct{ options, table named }

// loadKept reads the OPTIONS file of dir. Block-based tables get the cache.
func loadKept(dir string, cache *C.rocksdb_cache_t) (k optionsFile, err error) {
	name, sections, err := optionsfile.Read(dir)
	if err != nil || name == "" {
		return optionsFile{}, err
	}

	k = optionsFile{
		file:     filepath.Join(dir, name),
		sections: sections,
		families: map[string]keptFamily{},
	}
	for _, s := range sections {
		f := k.families[s.Name]
		switch s.Kind {
		case "DBOptions":
			k.database = s.Values
			continue
		case "CFOptions":
			f.options = s.Values
		case "TableOptions/BlockBasedTable":
			f.table = s.Values
		default:
			continue
		}

		k.families[s.Name] = f
	}

	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	env := C.rocks_create_default_env()
	defer C.rocks_env_destroy(env)
	var message *C.char
	C.rocks_load_latest_options(path, env, true, cache, &k.whole, &k.count, &k.names, &k.each,
		&message)
	if err := errFromC(message); err != nil {
		version, _ := load()
		return optionsFile{},
			engine.Fail(engine.CodeUnsupported, "RocksDB %s cannot read %s: %w", version, k.file,
				err).
				WithRemedy("name the library of the program that owns the database in $" +
					LibraryVariable)
	}

	return k, nil
}

func (k optionsFile) destroy() {
	if k.file != "" {
		C.rocks_load_latest_options_destroy(k.whole, k.names, k.each, k.count)
	}
}

// openFiles is the limit of open files that the database's owner has; below 0: none.
func (k optionsFile) openFiles() int {
	n, err := strconv.Atoi(k.database["max_open_files"])
	if err != nil {
		return -1
	}
	return n
}

// mapped reports whether the tables are mapped into memory.
func (k optionsFile) mapped() bool { return k.database["allow_mmap_reads"] == "true" }

// of are the options of a family as RocksDB loads them; nil for one that the file does not have.
func (k optionsFile) of(name string) *C.rocksdb_options_t {
	for i, have := range unsafe.Slice(k.names, k.count) {
		if C.GoString(have) == name {
			return unsafe.Slice(k.each, k.count)[i]
		}
	}
	return nil
}

// inForce are the options of a family by RocksDB's names: those of the file, changed by l.
func (k optionsFile) inForce(name string, l layout) named {
	all := named{}
	f := k.families[name]
	for _, part := range []named{k.database, f.options, f.table, l.database, l.table} {
		maps.Copy(all, part)
	}
	return all
}

// familyOptions are those that a family is opened with for reading: the file's, with what l
// changes; RocksDB has put our cache into them. nil for a family that the file does not have.
func (k optionsFile) familyOptions(name string, l layout) (*C.rocksdb_options_t, error) {
	base := k.of(name)
	if base == nil {
		return nil, nil
	}

	if table := k.families[name].table; table["no_block_cache"] == "true" {
		// RocksDB has given it a cache while it loaded the file.
		set := C.rocks_block_based_options_create()
		C.rocks_block_based_options_set_no_block_cache(set, 1)
		C.rocks_options_set_block_based_table_factory(base, set)
		C.rocks_block_based_options_destroy(set)
		all := maps.Clone(table)
		maps.Copy(all, l.table)
		l.table = all
	}

	if merge := k.families[name].options["merge_operator"]; !known("merge_operator", merge) {
		text := C.CString(merge)
		defer C.free(unsafe.Pointer(text))
		C.rocks_refuse_merges(base, text)
	}

	return parsed(base, l.String())
}

// databaseOptions are those of the whole database, with its log in logs: the file's, changed by l.
func (k optionsFile) databaseOptions(logs string, l layout) (*C.rocksdb_options_t, error) {
	l.database = maps.Clone(l.database)
	delete(l.database, "wal_dir")
	// A database without some of its tables would be another one.
	l.database["best_efforts_recovery"] = "false"
	C.rocks_options_enable_statistics(k.whole)
	o, err := parsed(k.whole, l.String())
	if err != nil {
		return nil, err
	}

	path := C.CString(logs)
	defer C.free(unsafe.Pointer(path))
	C.rocks_options_set_wal_dir(o, path)
	return o, nil
}

// logsIn is the folder of the write-ahead logs.
func (k optionsFile) logsIn(dir, asked string) (string, error) {
	if asked == "" {
		return dbformat.LogFolder(dir, k.file, k.database["wal_dir"])
	}
	if _, err := os.Stat(asked); err != nil {
		return "", fmt.Errorf("option wal_dir: %w", err)
	}
	return asked, nil
}

const (
	blockBased = "BlockBasedTable"
	bytewise   = "leveldb.BytewiseComparator"
	backwards  = "rocksdb.ReverseBytewiseComparator"
	timestamps = ".u64ts" // of a comparator whose keys end with a time
	none       = "nullptr"
)

// known reports whether RocksDB's library has the code that the value of an option names. Where it
// has not, RocksDB passes over the option without a word.
func known(option, value string) bool {
	value, _, _ = strings.Cut(strings.TrimPrefix(value, "{id="), ";")
	value = strings.TrimSuffix(value, "}")
	has := map[string][]string{
		"comparator":    {bytewise, backwards, bytewise + timestamps, backwards + timestamps},
		"table_factory": {blockBased},
		"merge_operator": {"put", "put_v1", "PutOperator", "uint64add", "UInt64AddOperator",
			"stringappend", "StringAppendOperator", "stringappendtest",
			"StringAppendTESTOperator", "max", "MaxOperator", "bytesxor", "BytesXOR",
			"BytesXOROperator", "sortlist", "MergeSortOperator"},
		"prefix_extractor": {"rocksdb.Noop", "noop"},
		"filter_policy":    {},
	}[option]

	if value == "" || value == none || slices.Contains(has, value) {
		return true
	}

	begins := map[string][]string{
		"prefix_extractor": {"rocksdb.FixedPrefix", "rocksdb.CappedPrefix", "fixed:", "capped:"},
		"filter_policy":    {"bloomfilter", "ribbonfilter", "rocksdb."},
	}[option]

	return slices.ContainsFunc(begins, func(begin string) bool {
		return strings.HasPrefix(value, begin)
	})
}

// foreignFormat refuses a family whose tables cannot be counted in blocks.
func (k optionsFile) foreignFormat(name string) error {
	format := k.families[name].options["table_factory"]
	if known("table_factory", format) {
		return nil
	}

	return engine.Fail(engine.CodeUnsupported, "column family %s has tables of the format %s, "+
		"which have no blocks to count (%s)",
		unit.Printable(name), format, k.file).
		WithRemedy("choose another table with --table, or let the program that owns the database " +
			"write a copy with block-based tables")
}

// foreignOrder refuses a family whose order RocksDB's library does not know.
func (k optionsFile) foreignOrder(name string) error {
	order := k.families[name].options["comparator"]
	if known("comparator", order) {
		return nil
	}

	f := engine.Fail(engine.CodeUnsupported, "column family %s is ordered by the comparator %s "+
		"of the program that owns it, which RocksDB's library lacks (%s)",
		unit.Printable(name), order, k.file)
	f.Remedy = "choose another table with --table, or let that program copy the keys to a column " +
		"family with RocksDB's own order"
	if name == defaultFamily { // RocksDB insists on opening it
		f.Remedy = "let that program copy the keys to a database with RocksDB's own order"
	}

	return f
}

// usesFilters reports whether Gets of a family ask the filters of its tables.
func (k optionsFile) usesFilters(name string, l layout) bool {
	if k.file == "" {
		return true
	}
	o := k.inForce(name, l)
	policy, extractor := o["filter_policy"], o["prefix_extractor"]
	return policy != "" && policy != none && known("filter_policy", policy) &&
		(o["whole_key_filtering"] != "false" ||
			extractor != "" && extractor != none && known("prefix_extractor", extractor))
}

// timed reports whether keys of a family end with a time.
func (k optionsFile) timed(name string) bool {
	return strings.HasSuffix(k.families[name].options["comparator"], timestamps)
}

// reversed reports whether the last key of a family comes first.
func (k optionsFile) reversed(name string) bool {
	return strings.HasPrefix(k.families[name].options["comparator"], backwards)
}

// readOptions are those that a family is read with: of keys with times, the newest.
func (d *db) readOptions(f family) (*C.rocksdb_readoptions_t, error) {
	o := C.rocks_readoptions_create()
	if d.kept.timed(f.name) && C.rocks_read_latest(o) == 0 {
		C.rocks_readoptions_destroy(o)
		version, _ := load()
		return nil, engine.Fail(engine.CodeUnsupported, "keys of column family %s end with a "+
			"time (%s), which RocksDB %s cannot read", unit.Printable(f.name), d.kept.file,
			version).WithRemedy(howToGet)
	}

	return o, nil
}

// warnings are about options of a family that can be obeyed in part only.
func (k optionsFile) warnings(name string) (all []engine.Warning) {
	f, shown := k.families[name], unit.Printable(name)
	warn := func(code, option, means, remedy string) {
		all = append(all, engine.Warning{
			Code:   code,
			Remedy: remedy,
			Text: fmt.Sprintf("%s of column family %s is %s, code of the program that owns "+
				"the database, which RocksDB's library lacks: %s", option, shown,
				f.inEither(option),
				means),
		})
	}

	own := "let the program that owns the database write a copy "
	if !known("merge_operator", f.options["merge_operator"]) {
		warn("merge_operator", "merge_operator",
			"a Get of a key whose merges are still to be applied fails",
			own+"that is compacted to the last level")
	}

	if !known("filter_policy", f.table["filter_policy"]) {
		warn("filter_policy", "filter_policy", "filters are not used, so Gets read more blocks "+
			"than the program's", own+"with a filter policy of RocksDB's own")
	}

	if !known("prefix_extractor", f.options["prefix_extractor"]) &&
		f.table["whole_key_filtering"] == "false" {
		warn("prefix_extractor", "prefix_extractor", "filters, which have prefixes alone, are "+
			"not used, so Gets read more blocks than the program's",
			own+"with whole_key_filtering=true")
	}

	if k.mapped() {
		all = append(all, engine.Warning{
			Code: "mmap_reads",
			Text: "the owner of the database maps its tables into memory (allow_mmap_reads), and " +
				"so does this run: the block cache holds no blocks that are not compressed, and " +
				"each access to one counts as a read of the mapped file",
			Remedy: "without allow_mmap_reads the block cache holds them",
		})
	}

	if f.table["no_block_cache"] == "true" {
		all = append(all, engine.Warning{
			Code: "no_block_cache",
			Text: fmt.Sprintf("column family %s has no block cache (no_block_cache): its Gets "+
				"read every block that they ask for, whatever the size of the cache", shown),
			Remedy: "without no_block_cache it has one",
		})
	}

	told := map[string]bool{} // above
	for _, w := range all {
		told[w.Code] = true
	}

	for _, w := range dbformat.OptionWarnings(k.file, k.sections, func(family string) bool {
		return family == name
	}) {
		if w.Code != dbformat.UnknownOptions || !told["filter_policy"] {
			all = append(all, w)
		}
	}

	if w, is := dbformat.HighShareWarning(filepath.Dir(k.file), k.sections); is {
		all = append(all, w)
	}

	return all
}

func (f keptFamily) inEither(option string) string {
	if value, is := f.table[option]; is {
		return value
	}
	return f.options[option]
}
