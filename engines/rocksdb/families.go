//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

const (
	// defaultFamily exists in every database.
	defaultFamily = "default"
	// tableOption names the family that Gets go to.
	tableOption = "table"
)

// family is a column family that is open.
type family struct {
	name   string
	handle *C.rocksdb_family_t
}

// own is the family that Gets and writes go to; of a mix, the first.
func (d *db) own() family { return d.families[0] }

// asked are the families that Gets go to.
func (d *db) asked() []family { return d.families[:max(1, len(d.settings.mix))] }

// openFamilies opens the database with the families that Gets go to. RocksDB writes to a
// database only where all families are open, and reads from some; without a table named, all
// are opened so that Shape can tell what is in them.
func (d *db) openFamilies() error {
	s := d.settings
	open := []string{defaultFamily}
	if s.chosen != "" {
		open = nil
		for _, p := range s.mix {
			open = append(open, p.Name)
		}
	}

	if s.create {
		open = append(open, defaultFamily)
	} else {
		all, err := d.familyNames()
		if err != nil {
			return err
		}

		for i, name := range open {
			// As it is shown, for names that cannot be typed.
			if at := slices.IndexFunc(all, func(have string) bool {
				return unit.Is(have, name)
			}); at >= 0 {
				open[i] = all[at]
				continue
			}

			if s.database["create_missing_column_families"] == "true" {
				continue
			}

			var tables []engine.Table
			for _, have := range all {
				tables = append(tables, engine.Table{Name: unit.Printable(have)})
			}

			return adapter.ChooseTable(name, tables)
		}

		if s.readOnly && s.chosen != "" {
			all = []string{defaultFamily} // which RocksDB insists on
		}

		if all, err = d.readable(open, all); err != nil {
			return err
		}

		open = append(open, all...)
	}

	seen := map[string]bool{}
	open = slices.DeleteFunc(open, func(name string) bool {
		twice := seen[name]
		seen[name] = true
		return twice
	})

	return d.openNamed(open)
}

// readable are the names in all of families that RocksDB's library can open; an error if one of
// those in asked, or the default one, cannot be read as its owner reads it.
func (d *db) readable(asked, all []string) ([]string, error) {
	for _, name := range asked {
		if err := d.kept.foreignFormat(name); err != nil {
			return nil, err
		}
	}

	for _, name := range append([]string{defaultFamily}, asked...) {
		if err := d.kept.foreignOrder(name); err != nil {
			return nil, err
		}
	}

	return slices.DeleteFunc(all, func(name string) bool {
		err := d.kept.foreignOrder(name)
		if err != nil {
			d.warn(engine.Warning{
				Code:   "table_left_out",
				Text:   err.Error(),
				Remedy: "look into it with the program that owns the database",
			})
		}

		return err != nil
	}), nil
}

// familyNames lists the families by the database's MANIFEST.
func (d *db) familyNames() (names []string, err error) {
	dir := C.CString(d.settings.dir)
	defer C.free(unsafe.Pointer(dir))
	var count C.size_t
	var message *C.char
	list := C.rocks_list_column_families(d.options, dir, &count, &message)
	if err := errFromC(message); err != nil {
		return nil, fmt.Errorf("list the column families: %w", err)
	}

	defer C.rocks_list_column_families_destroy(list, count)
	for _, name := range unsafe.Slice(list, count) {
		names = append(names, C.GoString(name))
	}

	return names, nil
}

// openNamed opens the database with the families of these names, in this order. For writing,
// all but the first keep the options that the database has for them; another program's database
// is read with its own options.
func (d *db) openNamed(names []string) (err error) {
	k := d.kept
	if len(names) > 1 && !d.settings.readOnly && !d.settings.create {
		if k, err = loadKept(d.settings.dir, d.cache); err != nil {
			return err
		}
		defer k.destroy()
	}

	// What C is passed must hold no Go pointers.
	size := C.size_t(unsafe.Sizeof(uintptr(0)))
	count := C.size_t(len(names))
	arrays := C.calloc(3*count, size)
	defer C.free(arrays)
	texts := unsafe.Slice((**C.char)(arrays), len(names))
	each := unsafe.Slice((**C.rocksdb_options_t)(unsafe.Add(arrays, count*size)), len(names))
	handles := unsafe.Slice((**C.rocksdb_family_t)(unsafe.Add(arrays, 2*count*size)), len(names))
	for i, name := range names {
		texts[i], each[i] = C.CString(name), d.options
		defer C.free(unsafe.Pointer(texts[i]))
		if d.settings.readOnly {
			o, err := k.familyOptions(name, d.settings.set())
			if err != nil {
				return err
			}

			if o != nil {
				defer C.rocks_options_destroy(o)
				each[i] = o
			}
		} else if o := k.of(name); i > 0 && o != nil {
			each[i] = o
		}
	}

	dir := C.CString(d.settings.dir)
	defer C.free(unsafe.Pointer(dir))
	var message *C.char
	if d.settings.readOnly {
		d.rocks = C.rocks_open_for_read_only_column_families(d.options, dir, C.int(len(names)),
			&texts[0], &each[0], &handles[0], 0, &message)
	} else {
		d.rocks = C.rocks_open_column_families(d.options, dir, C.int(len(names)), &texts[0],
			&each[0], &handles[0], &message)
	}

	if err := errFromC(message); err != nil {
		if engine.CodeOf(err) == engine.CodeInUse {
			return blockio.Locked(filepath.Join(d.settings.dir, "LOCK"))
		}

		if engine.CodeOf(err) == engine.CodeMissing {
			return d.elsewhere(err)
		}

		return err
	}

	for i, name := range names {
		d.families = append(d.families, family{name, handles[i]})
	}

	return nil
}

// elsewhere says where files may be that the database lists and its folder lacks. RocksDB writes
// other folders of tables neither into its OPTIONS file nor into its MANIFEST.
func (d *db) elsewhere(err error) error {
	dir := d.settings.dir
	return engine.Fail(engine.CodeNotDatabase, "%s lists files that it does not hold: they were "+
		"lost or not copied, or the program that owns the database keeps "+
		"them in further folders (db_paths, cf_paths), whose names RocksDB does not store: %w",
		dir, err).
		WithRemedy("if there are further folders, make a folder of links to all files and give "+
			"that with --db: mkdir NEW; ln -s %s/* FURTHER/* NEW/", dir)
}

// warnOfFamilies says that most of a database may be in families that no Get goes to.
func (d *db) warnOfFamilies(shape engine.Shape) {
	if d.settings.chosen != "" || len(shape.Tables) < 2 || !d.settings.readOnly {
		return
	}

	var all, here int64
	var others []string
	for _, t := range shape.Tables {
		all += t.Keys
		if t.Name == unit.Printable(d.own().name) {
			here = t.Keys
		} else {
			others = append(others, t.Name)
		}
	}

	d.warn(engine.Warning{Code: engine.TableNotChosen,
		Text: fmt.Sprintf("the database has %d column families; Gets go to the one named %s, "+
			"which holds %d of %d entries",
			len(shape.Tables), defaultFamily, here, all),
		Remedy: "choose one with --table: " + strings.Join(others, ", ")})
}

// property is a property of a family in words; "" for one that RocksDB does not know.
func (d *db) property(of family, property string) string {
	name := C.CString(property)
	defer C.free(unsafe.Pointer(name))
	return text(C.rocks_property_value_cf(d.rocks, of.handle, name))
}

// liveTable is a table file as the MANIFEST has it. Its keys are in the order of their bytes,
// whatever that of the family is.
type liveTable struct {
	lsmtail.Span
	bytes int64
}

// liveTables are the table files of the families that are open. Those of L0 are in the
// order in which a Get asks them.
func (d *db) liveTables() map[string][]liveTable {
	files := C.rocks_livefiles(d.rocks)
	defer C.rocks_livefiles_destroy(files)
	by := map[string][]liveTable{}
	for i := range C.rocks_livefiles_count(files) {
		var n, m C.size_t
		smallest, largest := C.rocks_livefiles_smallestkey(files, i, &n),
			C.rocks_livefiles_largestkey(files, i, &m)
		name := C.GoString(C.rocks_livefiles_column_family_name(files, i))
		t := liveTable{
			bytes: int64(C.rocks_livefiles_size(files, i)),
			Span: lsmtail.Span{
				Level:   int(C.rocks_livefiles_level(files, i)),
				Entries: uint64(C.rocks_livefiles_entries(files, i)),
				Bounds: lsmtail.Bounds{
					Smallest: C.GoBytes(unsafe.Pointer(smallest), C.int(n)),
					Largest:  C.GoBytes(unsafe.Pointer(largest), C.int(m)),
				},
			},
		}

		if d.kept.timed(name) {
			t.Smallest, t.Largest = withoutTime(t.Smallest), withoutTime(t.Largest)
		}

		if d.kept.reversed(name) {
			t.Smallest, t.Largest = t.Largest, t.Smallest
		}

		by[name] = append(by[name], t)
	}

	return by
}

func withoutTime(key []byte) []byte {
	const timeBytes = 8
	return key[:max(0, len(key)-timeBytes)]
}

// spans are the tables of a family.
type spans struct {
	all     []liveTable
	entries uint64
}

func spansOf(tables []liveTable) spans {
	s := spans{all: tables}
	for _, t := range tables {
		s.entries += t.Entries
	}
	return s
}

// draw is a table chosen by its entries, and a point between its first and last keys: the
// beginning of all keys where no table tells more.
func (s spans) draw(rng *rand.Rand) (table int, point []byte) {
	if s.entries == 0 {
		return -1, nil
	}

	nth := rng.Uint64N(s.entries)
	for i, t := range s.all {
		if nth < t.Entries {
			return i, t.Choose(func(low, high uint64) uint64 {
				return low + rng.Uint64N(high-low)
			})
		}

		nth -= t.Entries
	}

	return -1, nil
}

// outside is by level engine.Level's Outside.
func (s spans) outside() [engine.MaxLevels]float64 {
	var all []lsmtail.Span
	for _, t := range s.all {
		all = append(all, t.Span)
	}
	return lsmtail.Outside(all)
}

// errNoKeys says that the keys may be in other families; nil where there are none.
func (d *db) errNoKeys() error {
	shape, err := d.Shape()
	if err != nil {
		return err
	}
	if len(shape.Tables) > 1 && d.settings.chosen == "" {
		return adapter.ChooseTable("", shape.Tables)
	}
	return nil
}
