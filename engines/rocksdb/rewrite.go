//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// tablesByLevel are those of the family that Gets go to: of level 0, the newest first, and of each
// lower level that has some.
func (d *db) tablesByLevel() (levels [][]blockbased.Facts, err error) {
	families, err := blockbased.Families(d.settings.dir)
	if err != nil {
		return nil, err
	}

	levels = make([][]blockbased.Facts, 1)
	for _, f := range families {
		if f.Name != d.own().name {
			continue
		}

		for _, t := range f.Tables {
			if last := levels[len(levels)-1]; t.Level > 0 &&
				(len(levels) == 1 || last[0].Level != t.Level) {
				levels = append(levels, nil)
			}
			levels[len(levels)-1] = append(levels[len(levels)-1], t)
		}
	}

	return levels, nil
}

// RewriteOptions implements engine.Rewriter: those of the family by which tables are written and
// read, and as many levels as have tables, so that each table comes to lie on its own.
func (d *db) RewriteOptions() (map[string]string, error) {
	levels, err := d.tablesByLevel()
	if err != nil {
		return nil, err
	}

	read := []string{"cache_index_and_filter_blocks",
		"cache_index_and_filter_blocks_with_high_priority",
		"pin_l0_filter_and_index_blocks_in_cache",
		"pin_top_level_index_and_filter", "metadata_cache_options", "write_buffer_size"}

	// Versions that do not name it had no such option, and newer ones have another default.
	had := named{"decouple_partitioned_filters": "false"}
	maps.Copy(had, d.kept.inForce(d.own().name, layout{}))
	options := map[string]string{}
	for name, value := range had {
		if !slices.Contains(read, name) && !slices.Contains(storedOptions(), name) {
			continue
		}

		// What the library does not know is passed over, as when the database is read.
		if parses(layout{database: named{name: value}}) == nil ||
			parses(layout{table: named{name: value}}) == nil {
			options[name] = value
		}
	}

	const fewestLevels = 2 // that RocksDB takes
	maps.Copy(options, named{
		"num_levels":                           strconv.Itoa(max(fewestLevels, len(levels))),
		"compaction_style":                     "kCompactionStyleLevel",
		"level_compaction_dynamic_level_bytes": "false",
		"disable_auto_compactions":             "true",
	})

	return options, nil
}

// rewriteFolder holds tables that are not part of the database yet.
const rewriteFolder = "rewritten"

// Rewrite implements engine.Rewriter. RocksDB takes a table over on the deepest level that is above
// all older ones which it overlaps: so the last level comes first, and of level 0 the oldest table.
// What the log holds is not taken over.
func (d *db) Rewrite(ctx context.Context, from engine.DB, done func(tables, of int)) (err error) {
	source, is := from.(*db)
	if !is {
		return engine.Fail(engine.CodeUnsupported,
			"rocksdb: tables of another engine cannot be rewritten")
	}

	levels, err := source.tablesByLevel()
	if err != nil {
		return fmt.Errorf("rocksdb: list the tables of %s: %w", source.settings.dir, err)
	}

	folder := filepath.Join(d.settings.dir, rewriteFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	written, all := 0, len(slices.Concat(levels...))
	for number, tables := range slices.Backward(levels) {
		if len(tables) == 0 {
			continue
		}

		build, err := d.newBuild(levels, number)
		if err != nil {
			return err
		}

		err = func() error {
			defer build.destroy()
			var paths []string
			for i, t := range slices.Backward(tables) {
				done(written, all)
				paths = append(paths, filepath.Join(folder, fmt.Sprintf("%06d.sst", t.File)))
				if err := build.write(ctx, paths[len(paths)-1], source.settings.dir,
					t); err != nil {
					return fmt.Errorf("rocksdb: rewrite a table of %s: %w", source.settings.dir,
						err)
				}

				if written++; number > 0 && i > 0 {
					continue
				}

				if err := d.ingest(paths); err != nil {
					return fmt.Errorf("rocksdb: take over tables of level %d: %w", t.Level, err)
				}

				paths = nil
			}

			return nil
		}()
		if err != nil {
			return err
		}
	}

	return d.checkPlaces(levels)
}

// build writes tables of one level.
type build struct {
	writer  *C.rocksdb_sstfilewriter_t
	options *C.rocksdb_options_t
	env     *C.rocksdb_envoptions_t
}

// newBuild is for one of the levels. What RocksDB decides by the level of a table is decided here,
// because it does not know that of one which is written beside a database: it takes it for one of
// the last level, but writes filters all the same.
func (d *db) newBuild(levels [][]blockbased.Facts, number int) (*build, error) {
	level, first, last := levels[number][0].Level, 0, number == len(levels)-1
	if len(levels) > 1 {
		first = levels[1][0].Level
	}

	family, own, table := d.settings.database, named{}, maps.Clone(d.settings.table)
	// flushed
	if f := rocksoptions.ParseFilter(table["filter_policy"]); f.Ribbon &&
		(level < f.BloomBelow || level == 0 && f.BloomBelow == 0) {
		table["filter_policy"] = "bloomfilter:" + strconv.FormatFloat(f.Bits, 'f', -1, 64) +
			":false"
	}

	if last && family["optimize_filters_for_hits"] == "true" {
		table["filter_policy"] = none
	}

	if !last {
		own["bottommost_compression"] = "kDisableCompressionOption"
	}

	if each := strings.Split(family["compression_per_level"], ":"); each[0] != "" {
		at := 0
		if level > 0 {
			at = level - first + 1
		}
		own["compression_per_level"] = each[min(at, len(each)-1)]
	}

	options, err := parsed(d.options, layout{own, table}.String())
	if err != nil {
		return nil, fmt.Errorf("rocksdb: options of tables of level %d: %w", level, err)
	}

	b := &build{options: options, env: C.rocks_envoptions_create()}
	b.writer = C.rocks_sstfilewriter_create(b.env, options)
	return b, nil
}

func (b *build) destroy() {
	C.rocks_sstfilewriter_destroy(b.writer)
	C.rocks_envoptions_destroy(b.env)
	C.rocks_options_destroy(b.options)
}

// write writes the newest entry of each key of a table in dir to another one at path.
func (b *build) write(ctx context.Context, path, dir string, t blockbased.Facts) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var message *C.char
	C.rocks_sstfilewriter_open(b.writer, name, &message)
	if err := errFromC(message); err != nil {
		return err
	}

	add := func(key, value []byte, deleted bool) error {
		if deleted {
			C.rocks_sstfilewriter_delete(b.writer, chars(key), C.size_t(len(key)), &message)
		} else {
			C.rocks_sstfilewriter_put(b.writer, chars(key), C.size_t(len(key)), chars(value),
				C.size_t(len(value)), &message)
		}

		return errFromC(message)
	}
	if err := blockbased.EachEntry(dir, t, &blockbased.Reading{}, add); err != nil {
		return err
	}

	C.rocks_sstfilewriter_finish(b.writer, &message)
	return errors.Join(errFromC(message), context.Cause(ctx))
}

// ingest takes tables over that do not overlap one another.
func (d *db) ingest(paths []string) error {
	// What C is passed must hold no Go pointers.
	list := C.calloc(C.size_t(len(paths)), C.size_t(unsafe.Sizeof(uintptr(0))))
	defer C.free(list)
	names := unsafe.Slice((**C.char)(list), len(paths))
	for i, path := range paths {
		names[i] = C.CString(path)
		defer C.free(unsafe.Pointer(names[i]))
	}

	o := C.rocks_ingestexternalfileoptions_create()
	defer C.rocks_ingestexternalfileoptions_destroy(o)
	C.rocks_ingestexternalfileoptions_set_move_files(o, 1)
	var message *C.char
	C.rocks_ingest_external_file_cf(d.rocks, d.own().handle, &names[0], C.size_t(len(paths)), o,
		&message)
	return errFromC(message)
}

// checkPlaces compares the levels of the tables with those of the database that they are of. A
// table whose keys lie in a gap of the next level comes to lie there, which changes nothing for
// Gets unless it is the last one.
func (d *db) checkPlaces(levels [][]blockbased.Facts) error {
	have := make([]int, engine.MaxLevels)
	for _, t := range d.liveTables()[d.own().name] {
		have[t.Level]++
	}

	moved := 0
	for number, tables := range levels {
		if moved += len(tables) - have[number]; moved < 0 {
			return fmt.Errorf("rocksdb: level %d has %d tables, and %d were written for it",
				number, have[number], len(tables))
		}

		if moved > 0 {
			d.warn(engine.Warning{
				Code: "tables_moved",
				Text: fmt.Sprintf("%d tables of level %d lie on the next level, which has none "+
					"of their keys", moved, number),
				Remedy: "compare the levels of both databases with statelab inspect",
			})
		}
	}

	return nil
}

var _ engine.Rewriter = (*db)(nil)
